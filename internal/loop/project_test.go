package loop_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// Agents are told of the tree that they begin with, also once others have worked on it, and
// of nothing of the host's own in it.
func TestProjectIsThatOfTheTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.landed[0].Tree = w.store(files{"README": "hello", "go.mod": "module example.com/m\n"})
	s := w.drive(loop.NewState(request(t, "- [ ] one\n- [ ] two\n"), w.now), nil)
	if s.End != run.EndAllTasksComplete || len(w.prompts) != 2 {
		t.Fatalf("ended %s after %d calls", s.End, len(w.prompts))
	}
	for i, want := range []string{"README  go.mod", "README  go.mod  src/"} {
		if text := w.prompts[i]; !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("prompt %d does not say %q:\n%s", i+1, want, text)
		}
	}
}

// The borders of quoted text carry what nobody knows who wrote it: it is made at random for
// the run, kept with it, and another one for each prompt.
func TestBordersCannotBeForeseen(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 2 { // the same run by its id, plan and time
		w := newWorld(t)
		s := loop.NewState(request(t, "- [ ] one\n- [ ] two\n"), w.now)
		stored, err := loop.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := loop.Decode(stored); err != nil || again.NonceKey != s.NonceKey || s.NonceKey == "" {
			t.Errorf("%q is stored, %q comes back, %v", s.NonceKey, again.NonceKey, err)
		}
		w.drive(s, nil)
		for _, p := range w.prompts {
			_, rest, _ := strings.Cut(p, "----- BEGIN PLAN ")
			nonce, _, ok := strings.Cut(rest, " -----")
			if !ok || seen[nonce] {
				t.Errorf("the border %q is none, or has been there before", nonce)
			}
			seen[nonce] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d borders, want 4", len(seen))
	}
}
