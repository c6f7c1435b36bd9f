package shim

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/org/ralph-action/internal/proc"
)

func TestParentInStat(t *testing.T) {
	t.Parallel()
	for stat, want := range map[string]int{
		"12 (sh) S 7 12 12 0 -1":           7,
		"12 (a) R 1 (b)) S 7 12 12 0 -1":   7,
		"12 (new\nline) S 7 12 12 0 -1":    7,
		"":                                 0,
		"12 (sh":                           0,
		"12 (sh)":                          0,
		"12 (sh) S":                        0,
		"12 (sh) S x":                      0,
		"12 () S 7":                        7,
		"12 (very) (odd) (name) S 7 1 1 0": 7,
	} {
		if got, ok := parentInStat([]byte(stat)); got != want || ok != (want != 0) {
			t.Errorf("%q: %d, %v; want %d", stat, got, ok, want)
		}
	}
	if got, ok := parentOf(strconv.Itoa(os.Getpid())); !ok || got != os.Getppid() {
		t.Errorf("our own parent: %d, %v; want %d", got, ok, os.Getppid())
	}
}

func TestDescendants(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	d, err := proc.StartDetached(proc.Cmd{
		Path: "/bin/sh", Args: []string{"-c", "sh -c 'echo $$; exec sleep 1000' & wait"},
		Env: []string{"PATH=/usr/bin:/bin"}, Stdout: w,
	})
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proc.SignalGroup(d.PID(), 9); err != nil {
			t.Error(err)
		}
		<-d.Done()
	})
	said := make([]byte, 32)
	n, err := r.Read(said)
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(string(said[:max(n-1, 0)]))
	if err != nil {
		t.Fatal(err)
	}
	found := descendants(os.Getpid())
	for _, pid := range []int{d.PID(), grandchild} {
		if !slices.Contains(found, pid) {
			t.Errorf("process %d is not among our descendants %v", pid, found)
		}
	}
	if slices.Contains(found, os.Getpid()) || slices.Contains(found, os.Getppid()) {
		t.Errorf("descendants %v hold ourselves or our parent", found)
	}
}

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
		stderr, _ := os.ReadFile(cfg.Stderr)
		t.Fatalf("exit %d, said %q; the command %q", code, said, stderr)
	}
	hist, err := ReadHistory(cfg.Record)
	if err != nil || hist.Exit == nil || hist.Exit.Reason != ReasonExited {
		t.Errorf("record %+v, %v", hist.Exit, err)
	}
}
