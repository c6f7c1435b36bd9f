package loop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// lister counts how often the files of each tree are listed.
type lister struct {
	*world
	listed map[string]int
}

func (l lister) Files(ctx context.Context, tree string) ([]string, error) {
	l.listed[tree]++
	return l.world.Files(ctx, tree)
}

// Agents are told of the tree that they begin with, which is looked at once for all
// attempts on it.
func TestProjectIsLookedAtOnceForEachTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.landed[0].Tree = w.store(files{"README": "hello", "go.mod": "module example.com/m\n"})
	good, calls := w.agent, 0
	w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		if calls++; calls <= 2 {
			return completed("RALPH_RESULT: failed: not yet")
		}
		return good(w, s, a)
	}
	l := lister{world: w, listed: map[string]int{}}
	e := w.engine()
	e.Trees = l
	s := loop.NewState(request(t, "- [ ] one\n- [ ] two\n"), w.now)
	for range 500 {
		next, n, err := e.Step(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if s = next; n.Kind == loop.Done {
			break
		}
	}
	if s.End != run.EndAllTasksComplete || len(w.prompts) != 4 {
		t.Fatalf("ended %s after %d calls", s.End, len(w.prompts))
	}
	for tree, n := range l.listed {
		if n != 1 {
			t.Errorf("the files of %s were listed %d times", tree, n)
		}
	}
	if len(l.listed) != 2 {
		t.Errorf("%d trees were looked at, want that of each task", len(l.listed))
	}
	for i, want := range []string{"Built with: Go (go.mod: example.com/m)", "src/ 1"} {
		if text := w.prompts[i*3]; !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("prompt %d does not say %q:\n%s", i*3+1, want, text)
		}
	}
}
