//go:build docker

package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/sandbox"
)

// BenchmarkFirstByte takes a container from Start to its first byte, beside
// what "docker run" takes to print one; x-docker-run is the ratio of the two.
func BenchmarkFirstByte(b *testing.B) {
	box, err := open()
	if err != nil {
		b.Fatal(err)
	}
	tool, err := proc.Look("docker")
	if err != nil {
		b.Fatal(err)
	}
	tree, err := box.Prepare(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	runs := b.TempDir()
	var ours, dockers time.Duration
	for b.Loop() {
		name := containerName(b)
		begin := time.Now()
		h, err := box.Start(b.Context(), name, sandbox.Spec{
			Argv: []string{"echo", "hi"}, Image: image(), Workspace: tree, RunDir: filepath.Join(runs, name),
		})
		if err != nil {
			b.Fatal(err)
		}
		st, err := box.Wait(b.Context(), h)
		if err != nil || st.FirstByteAt.IsZero() {
			b.Fatal(st, err)
		}
		ours += st.FirstByteAt.Sub(begin)
		if err := box.Remove(context.WithoutCancel(b.Context()), h); err != nil {
			b.Fatal(err)
		}

		first := &firstWrite{}
		begin = time.Now()
		if _, err := proc.Run(b.Context(), proc.Cmd{
			Path: tool, Args: []string{"run", "--rm", image(), "echo", "hi"}, Env: os.Environ(), Stdout: first,
		}); err != nil {
			b.Fatal(err)
		}
		dockers += first.at.Sub(begin)
	}
	b.ReportMetric(float64(ours.Microseconds())/1000/float64(b.N), "ms/first-byte")
	b.ReportMetric(float64(ours)/float64(dockers), "x-docker-run")
}

type firstWrite struct{ at time.Time }

func (f *firstWrite) Write(p []byte) (int, error) {
	if f.at.IsZero() {
		f.at = time.Now()
	}
	return len(p), nil
}
