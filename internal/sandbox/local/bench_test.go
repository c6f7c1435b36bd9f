package local_test

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/sandbox"
)

// BenchmarkStart takes /bin/true from Start to its recorded end and Remove,
// beside the same program started by hand: as it is, and in a bubblewrap with the
// same namespaces. x-bare is the ratio of the two. The shim is this test's
// program, which comes up sooner than the bot.
func BenchmarkStart(b *testing.B) {
	wrap := []string{
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent",
		"--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--", "/bin/true",
	}
	for _, by := range []struct {
		name    string
		open    func() (sandbox.Sandbox, error)
		program string
		args    []string
	}{{"none", open, "true", nil}, {"bubblewrap", openApart, "bwrap", wrap}} {
		b.Run(by.name, func(b *testing.B) {
			box, err := by.open()
			if err != nil {
				b.Fatal(err)
			}
			program, err := proc.Look(by.program)
			if err != nil {
				b.Fatal(err)
			}
			work, runs := b.TempDir(), b.TempDir()
			var ours, bare time.Duration
			for i := 0; b.Loop(); i++ {
				begin := time.Now()
				startTrue(b, box, work, filepath.Join(runs, strconv.Itoa(i)))
				ours += time.Since(begin)

				begin = time.Now()
				if _, err := proc.Run(b.Context(), proc.Cmd{Path: program, Args: by.args}); err != nil {
					b.Fatal(err)
				}
				bare += time.Since(begin)
			}
			b.ReportMetric(float64(ours.Microseconds())/1000/float64(b.N), "ms/start")
			b.ReportMetric(float64(bare.Microseconds())/1000/float64(b.N), "ms/bare")
			b.ReportMetric(float64(ours)/float64(bare), "x-bare")
			b.ReportMetric(0, "ns/op") // of both together: no use
		})
	}
}

func startTrue(b *testing.B, box sandbox.Sandbox, work, runDir string) {
	b.Helper()
	if _, err := box.Prepare(b.Context(), work); err != nil {
		b.Fatal(err)
	}
	h, err := box.Start(b.Context(), "bench", sandbox.Spec{
		Argv: []string{"/bin/true"}, Workspace: sandbox.Workspace{Dir: work}, RunDir: runDir,
	})
	if err != nil {
		b.Fatal(err)
	}
	if st, err := box.Wait(b.Context(), h); err != nil || st.ExitCode != 0 {
		b.Fatal(st, err)
	}
	if err := box.Remove(b.Context(), h); err != nil {
		b.Fatal(err)
	}
}
