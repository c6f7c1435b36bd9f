package publish_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/store"
)

// TestAnsweredByAnotherProcess: what a process has answered that shares no store
// with this one is not answered again, and not resolved again once somebody has
// opened it.
func TestAnsweredByAnotherProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	oid := get[string](t)(w.Push(owner, name, "topic", "walt",
		ghsim.PushOptions{Files: map[string]string{"README.md": "one\n"}}))
	pr := get[ghapp.PR](t)(w.repo.CreatePR(t.Context(), ghapp.PRInput{Title: "Words", Head: "topic", Base: "main"}))
	line := get[ghsim.Review](t)(w.Review(owner, name, pr.Number, "walt", "COMMENTED", "",
		ghsim.ReviewLine{Path: "README.md", Line: 1, Body: "Say two."})).Lines[0]
	answer := func() ghsim.ReviewLine {
		t.Helper()
		st := get[*store.Store](t)(store.Open(t.Context(), filepath.Join(t.TempDir(), "ralph.db")))
		defer func() { check(t, st.Close()) }()
		pub := publish.Publisher{GitHub: w.repo, Effects: effects.Runner{Store: st}}
		for range 2 {
			check(t, pub.Answer(t.Context(), pr.Number,
				publish.Answer{Thread: line.Thread, Comment: line.ID, TaskID: "T2", OID: oid, RepoURL: w.repo.HTMLURL()}))
		}
		lines := get[ghsim.PR](t)(w.Sim.PR(owner, name, pr.Number)).Reviews[0].Lines
		if len(lines) != 2 || !strings.HasPrefix(lines[1].Body, "Done in ") {
			t.Errorf("said: %+v", lines)
		}
		return lines[0]
	}
	if !answer().Resolved {
		t.Error("what was answered is not resolved")
	}
	check(t, w.ResolveThread(owner, name, pr.Number, "walt", line.ID, false))
	if answer().Resolved {
		t.Error("a person who opened it again is overruled")
	}
}
