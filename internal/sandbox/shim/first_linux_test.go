package shim

import (
	"os"
	"testing"

	"github.com/org/ralph-action/internal/sandbox"
)

// TestSurvivesSignals sends the shim every signal that can be caught, but for
// those that ask it to end and three that the C library keeps for itself.
func TestSurvivesSignals(t *testing.T) {
	t.Parallel()
	cfg, path := config(t, "sh", "-c", `i=1
while [ $i -le 64 ]; do
	case $i in 2|9|15|19|32|33|34) ;; *) kill -$i $PPID || exit 1 ;; esac
	i=$((i + 1))
done
exit 7`)
	if err := cfg.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if code, said := runShim(t, path); code != 7 || said != "ready\n" {
		stderr, _ := os.ReadFile(kept(cfg.Stderr))
		t.Fatalf("exit %d, said %q; the command %q", code, said, stderr)
	}
	hist, err := ReadHistory(kept(cfg.Record))
	if err != nil || hist.Exit == nil || hist.Exit.Reason != sandbox.ReasonExited {
		t.Errorf("record %+v, %v", hist.Exit, err)
	}
}
