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

// BenchmarkWarmGate is a check of a small module, `go vet ./... && go test
// ./...`, in a container with the cache that an earlier one left; x-cold is its
// share of the first one's time.
func BenchmarkWarmGate(b *testing.B) {
	box, err := open()
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	for name, content := range map[string]string{
		"go.mod":      "module example.com/small\n\ngo 1.25\n",
		"sum.go":      "package small\n\nimport \"fmt\"\n\nfunc Sum(a, b int) string { return fmt.Sprint(a + b) }\n",
		"sum_test.go": "package small\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(1, 2) != \"3\" {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	tree, err := box.Prepare(b.Context(), dir)
	if err != nil {
		b.Fatal(err)
	}
	cache, err := box.Prepare(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	runs := b.TempDir()
	gate := func() time.Duration {
		name := containerName(b)
		begin := time.Now()
		h, err := box.Start(b.Context(), name, sandbox.Spec{
			// -count=1: the tests run; it is their compilation that is warm.
			Argv:  []string{"sh", "-c", "export PATH=$PATH:/usr/local/go/bin; go vet ./... && go test -count=1 ./..."},
			Image: goImage(), Workspace: tree, CacheDir: cache.Dir, RunDir: filepath.Join(runs, name),
			WallTimeout: 5 * time.Minute,
		})
		if err != nil {
			b.Fatal(err)
		}
		st, err := box.Wait(b.Context(), h)
		if err != nil || st.ExitCode != 0 {
			b.Fatal(st, err)
		}
		took := time.Since(begin)
		if err := box.Remove(context.WithoutCancel(b.Context()), h); err != nil {
			b.Fatal(err)
		}
		return took
	}
	cold := gate()
	var warm time.Duration
	for b.Loop() {
		warm += gate()
	}
	b.ReportMetric(float64(warm.Milliseconds())/float64(b.N), "ms/warm")
	b.ReportMetric(float64(cold.Milliseconds()), "ms/cold")
	b.ReportMetric(float64(warm)/float64(b.N)/float64(cold), "x-cold")
}

func goImage() string {
	if name := os.Getenv("RALPH_TEST_GO_IMAGE"); name != "" {
		return name
	}
	return "ralph-test/go:1"
}
