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
// beside the same program run bare; x-bare is the ratio of the two.
func BenchmarkStart(b *testing.B) {
	box, err := open()
	if err != nil {
		b.Fatal(err)
	}
	work, runs := b.TempDir(), b.TempDir()
	var ours, bare time.Duration
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		h, err := box.Start(b.Context(), "bench", sandbox.Spec{
			Argv: []string{"/bin/true"}, Workspace: sandbox.Workspace{Dir: work}, RunDir: filepath.Join(runs, strconv.Itoa(i)),
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
		ours += time.Since(begin)

		begin = time.Now()
		if _, err := proc.Run(b.Context(), proc.Cmd{Path: "/bin/true"}); err != nil {
			b.Fatal(err)
		}
		bare += time.Since(begin)
	}
	b.ReportMetric(float64(ours.Microseconds())/1000/float64(b.N), "ms/start")
	b.ReportMetric(float64(ours)/float64(bare), "x-bare")
}
