package reconcile

import (
	"fmt"
	"testing"

	"github.com/org/ralph-action/internal/delivery/deliverytest"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// TestRebasedHead: only a commit that GitHub vouches for says that the store is behind the branch.
func TestRebasedHead(t *testing.T) {
	t.Parallel()
	st := deliverytest.New(t, nil)
	r := New(Config{Store: st.Store, GitHub: st.GitHub, DataDir: t.TempDir(), Now: st.Now}, st.Receiver)
	issue := st.Begin()
	st.Pull(issue)
	st.Save(issue, func(s *loop.State) { s.Branch, s.Head = run.Branch(issue), "before" })
	_, row := st.Runs(issue)
	for verified, known := range map[bool]bool{true: false, false: true} {
		st.Must(st.Inject(ghsim.Fault{Method: "GET", Match: "/commits/", Times: 1, Status: 200, Body: fmt.Sprintf(`{
			"sha": "after", "author": {"id": %d, "login": %q, "type": "Bot"}, "parents": [],
			"commit": {"message": "feat: write one\n\nRalph-Run: r-lost\nRalph-Iteration: 1", "tree": {"sha": "tree"},
				"verification": {"verified": %t}}}`, st.App.BotID, st.App.BotLogin, verified)}))
		if got, err := r.knowsHead(t.Context(), row, st.State(issue)); err != nil || got != known {
			t.Errorf("verified %t: known %t, %v, want %t", verified, got, err, known)
		}
	}
}

// TestStopWithoutGitHub: a stop takes effect while GitHub does not answer.
func TestStopWithoutGitHub(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	st := deliverytest.New(t, nil)
	w.r.cfg.GitHub = st.GitHub
	st.Must(st.Inject(ghsim.Fault{Match: "/", Times: 1 << 20, Status: 502, Body: "x"}))
	s := w.state()
	s.Branch, s.Head = "ralph/1", "head"
	st.Must(w.r.save(t.Context(), w.id, s))
	w.stayQuiet()
	if s := w.advance(t.Context()); s.End != "" || s.Troubles != 1 {
		t.Fatalf("ended %q, %d troubles", s.End, s.Troubles)
	}
	w.cancel()
	if s := w.advance(t.Context()); s.End != run.EndCancelled {
		t.Errorf("ended %q", s.End)
	}
}
