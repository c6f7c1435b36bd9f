package inline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// recordIn is the record of a plan as a process of its own has it.
func recordIn(t *testing.T, dir string) *record {
	t.Helper()
	st, err := store.Open(t.Context(), filepath.Join(dir, "ralph.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return &record{store: st, top: "/checkout", dir: filepath.Join(dir, "plan"), now: time.Now}
}

// stateOf is a run of aJob.
func stateOf(id run.ID) loop.State {
	j := aJob()
	return loop.NewState(loop.Request{Run: id, Subject: j.subject, Plan: j.plan}, time.Unix(1, 0))
}

func aJob() *job {
	return &job{subject: loop.Subject{Key: "plan:a.md"}, plan: plan.Plan{SHA256: "abc"}}
}

func save(t *testing.T, r *record, s loop.State) {
	t.Helper()
	if err := r.save(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// loaded is the run that r would go on with, "" for none.
func loaded(t *testing.T, r *record) run.ID {
	t.Helper()
	s, resumed, err := r.load(t.Context(), aJob())
	if err != nil {
		t.Fatal(err)
	}
	if !resumed {
		return ""
	}
	return s.Run
}

func TestRecordOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := recordIn(t, dir)
	if got := loaded(t, first); got != "" {
		t.Errorf("at first there is %s", got)
	}
	save(t, first, stateOf("r1"))
	next := recordIn(t, dir)
	if got := loaded(t, next); got != "r1" {
		t.Errorf("the next process finds %q", got)
	}
	next.stored = true
	s := stateOf("r1")
	s.Iteration = 3
	save(t, next, s)

	if s, _, err := recordIn(t, dir).load(t.Context(), aJob()); err != nil || s.Iteration != 3 {
		t.Errorf("iteration %d, %v", s.Iteration, err)
	}

	// A run that is begun anew takes its place with its first state, not before.
	anew := recordIn(t, dir)
	anew.restart = true
	if got := loaded(t, anew); got != "" {
		t.Errorf("begun anew, it goes on with %s", got)
	}
	if got := loaded(t, recordIn(t, dir)); got != "r1" {
		t.Errorf("before it is saved there is %q", got)
	}
	save(t, anew, stateOf("r2"))
	if got := loaded(t, recordIn(t, dir)); got != "r2" {
		t.Errorf("after it is saved there is %q", got)
	}
	ended := stateOf("r2")
	ended.Phase, ended.End = run.PhaseDone, run.EndAllTasksComplete
	save(t, anew, ended)
	if got := loaded(t, recordIn(t, dir)); got != "" {
		t.Errorf("the run has ended, and would go on: %s", got)
	}
}

func TestUnreadableState(t *testing.T) {
	t.Parallel()
	r := recordIn(t, t.TempDir())
	row := store.Run{
		ID: "r1", RepoNode: r.top, IssueNode: aJob().subject.Key,
		Phase: run.PhaseIterating, State: []byte(`{"v":-1}`), CreatedAt: time.Now(),
	}
	if err := r.store.ReplaceRun(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	_, _, err := r.load(t.Context(), aJob())
	if e, ok := errors.AsType[*run.UserError](err); !ok || !strings.Contains(e.Hint, "--restart") {
		t.Errorf("%v", err)
	}
	r.restart = true
	if got := loaded(t, r); got != "" {
		t.Errorf("goes on with %s", got)
	}
	save(t, r, stateOf("r2"))
	r.restart = false
	if got := loaded(t, r); got != "r2" {
		t.Errorf("then there is %q", got)
	}
}

// TestOwners: a name belongs to the run that goes on there, with its branch or without, and
// to one that has ended as long as there is the branch.
func TestOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, r := range []struct {
		plan, branch  string
		ended, commit bool
	}{
		{"running", "a", false, true}, {"ended", "b", true, true}, {"failed", "c", true, true}, {"next", "c", true, true},
		{"cut off", "d", false, true}, {"named", "d", true, true}, {"no commit", "e", false, false},
	} {
		s := stateOf(run.ID("r-" + r.plan))
		s.Subject.Key, s.Branch, s.NoCommit = r.plan, r.branch, !r.commit
		if r.ended {
			s.Phase, s.End = run.PhaseFailed, run.EndFailed
		}
		save(t, recordIn(t, dir), s)
	}
	all, err := readOwners(t.Context(), recordIn(t, dir).store, "/checkout")
	if err != nil {
		t.Fatal(err)
	}
	for branch, want := range map[string][2]string{
		"a": {"running", "running"}, "b": {"", "ended"}, "c": {"", "next"}, "d": {"cut off", "cut off"}, "e": {}, "f": {},
	} {
		if got := [2]string{all.of(branch, false), all.of(branch, true)}; got != want {
			t.Errorf("%s belongs to %q without a branch and %q with one, want %q", branch, got[0], got[1], want)
		}
	}
}

// TestTurn: who chooses where to work waits until it is stored where the run before works.
func TestTurn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{DataDir: dir}
	if err := os.MkdirAll(localDir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	first := recordIn(t, dir)
	done, err := o.turn(first.top, nil)
	if err != nil {
		t.Fatal(err)
	}
	first.chosen = done
	waits, second := make(chan string, 1), make(chan error)
	go func() {
		done, err := o.turn(first.top, func(text string, _ ...any) { waits <- text })
		if err == nil {
			done()
		}
		second <- err
	}()
	if got := <-waits; !strings.Contains(got, "another run in this repository is about to begin") {
		t.Error(got)
	}
	s := stateOf("r1")
	save(t, first, s) // the machine lacks something, and nothing is chosen
	select {
	case err := <-second:
		t.Errorf("it did not wait: %v", err)
	default:
	}
	s.Branch = "ralph/a"
	save(t, first, s)
	if err := <-second; err != nil {
		t.Error(err)
	}
}
