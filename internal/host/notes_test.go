package host_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// TestMergedNotesOnlyOfMergedWork: a person has merged what the default branch holds. What
// a branch notes tells no other agent, nor does a branch that runs write to themselves.
func TestMergedNotesOnlyOfMergedWork(t *testing.T) {
	t.Parallel()
	file := func(notes string) string {
		return "# Progress: x\n\n## Tasks\n\n- [x] T1 one\n\n## Codebase Patterns\n\n" + notes + "\n\n## Learnings\n\n- seen by all\n"
	}
	src := branched{source: newSource(t, map[string]string{
		".ralph/left/progress.md":   file("- left behind"),
		".ralph/long/progress.md":   file("- much " + strings.Repeat("x", 1<<20)),
		".ralph/broken/progress.md": "\xff\xfe",
		".ralph/empty/other.md":     "x",
	})}
	_, src.def, _ = src.repo.Head(t.Context())
	src.commit(t, map[string]string{".ralph/mine/progress.md": file("- of the branch")})
	open := func(source host.Source, more []string, failed error) (notes string, told []string) {
		t.Helper()
		h := host.New(host.Config{
			Dir: filepath.Join(t.TempDir(), "run"), Source: source, Sandbox: &box{ended: make(chan struct{})},
			Backend:     talker{result: agent.Result{}},
			Limits:      func(asked run.Limits) run.Limits { return asked },
			Emit:        func(ev run.Event) { told = append(told, ev.Text) },
			MergedNotes: func(context.Context) ([]string, error) { return more, failed },
		})
		opened, err := h.Open(t.Context(), loop.State{})
		if err != nil {
			t.Fatal(err)
		}
		return opened.Settings.MergedNotes, told
	}
	got, _ := open(reviewed{src}, []string{"- of a pull request\n- seen by all", strings.Repeat("- x\n", 10_000)}, nil)
	for text, want := range map[string]int{
		"- left behind\n": 1, "- of a pull request\n": 1, "- seen by all\n": 1, "of the branch": 0,
	} {
		if n := strings.Count(got, text); n != want {
			t.Errorf("%q is told %d times, want %d:\n%.400s", text, n, want, got)
		}
	}
	if len(got) > 4<<10 {
		t.Errorf("%d bytes are told", len(got))
	}
	if got, _ := open(src, []string{"- of a pull request"}, nil); got != "- of a pull request\n" {
		t.Errorf("where runs write to the default branch: %q", got)
	}
	if got, told := open(reviewed{src}, nil, errors.New("no answer")); !strings.Contains(got, "- left behind") ||
		!strings.Contains(strings.Join(told, "\n"), "no answer") {
		t.Errorf("without an answer: %q, told %q", got, told)
	}
}

// reviewed is a source whose default branch no run writes to.
type reviewed struct{ branched }

func (r reviewed) Locate(ctx context.Context, s loop.State) (host.Location, error) {
	at, err := r.branched.Locate(ctx, s)
	at.Reviewed = true
	return at, err
}
