package loop_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/loop"
)

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
