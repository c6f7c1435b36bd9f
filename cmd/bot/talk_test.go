package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// comment is what somebody says on an issue or pull request.
func (st *stage) comment(number int, login, body string) ghsim.Comment {
	st.t.Helper()
	c, err := st.sim.Comment(person, repoOf, number, login, body)
	if err != nil {
		st.t.Fatal(err)
	}
	return c
}

// reactions are those of the bot to a comment, in order.
func (st *stage) reactions(number int, id int64) (got []string) {
	st.t.Helper()
	for _, c := range st.issue(number).Comments {
		if c.ID != id {
			continue
		}
		for _, r := range c.Reactions {
			if r.User == st.app.BotLogin {
				got = append(got, r.Content)
			}
		}
	}
	return got
}

// said are the bot's comments on an issue or pull request.
func (st *stage) said(number int) (got []string) {
	st.t.Helper()
	for _, c := range st.issue(number).Comments {
		if c.User == st.app.BotLogin {
			got = append(got, c.Body)
		}
	}
	return got
}

// runs counts the runs of an issue.
func (st *stage) runs(s *serving, issue int) int {
	st.t.Helper()
	n, err := s.store.RunsSince(st.t.Context(), st.repo.NodeID, issue, s.begun)
	if err != nil {
		st.t.Fatal(err)
	}
	return n
}

// another waits for the end of a run of the issue that is not the one before.
func (st *stage) another(s *serving, issue ghsim.Issue, before run.ID) loop.State {
	st.t.Helper()
	st.await("another run", func() bool {
		row, err := s.store.LatestRunByIssue(st.t.Context(), st.repo.NodeID, issue.Number)
		return err == nil && row.ID != before
	})
	return st.ended(s.store, issue)
}

// agentAt waits until an agent works on a task.
func (st *stage) agentAt(s *serving, task string) {
	st.t.Helper()
	st.await("an agent at "+task, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.events, func(ev run.Event) bool {
			return ev.Kind == run.EventAgentStarted && ev.TaskID == task
		})
	})
}

// user makes somebody with a role in the repository.
func (st *stage) user(login string, role ghsim.Role) {
	st.t.Helper()
	if _, err := st.sim.CreateUser(login); err != nil {
		st.t.Fatal(err)
	}
	if err := st.sim.SetPermission(person, repoOf, login, role); err != nil {
		st.t.Fatal(err)
	}
}

func (st *stage) newIssue(login, title, body string) ghsim.Issue {
	st.t.Helper()
	issue, err := st.sim.CreateIssue(person, repoOf, login, title, body)
	if err != nil {
		st.t.Fatal(err)
	}
	return issue
}

// TestCommandsSteerARun from the first to the last: start, status, do and skip.
func TestCommandsSteerARun(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: `model: scripted
tasks:
  one: [{files: {one.txt: "1\n"}, say: done}]
  two: [{misbehave: hang}]
  three: [{files: {three.txt: "3\n"}, say: done}]
default: [{append: {more.txt: "more\n"}, say: done}]
`})
	s := st.serve()
	st.user("grace", ghsim.RoleWrite)
	issue := st.newIssue("grace", "Say hello", threeTasks)

	start := st.comment(issue.Number, "grace", "/ralph start\r\n\r\nPlease!")
	st.agentAt(s, "T2")
	if got := st.reactions(issue.Number, start.ID); !slices.Equal(got, []string{"rocket"}) {
		t.Errorf("reactions to start: %v", got)
	}
	if got := st.issue(issue.Number); !slices.Contains(got.Labels, "ralph") {
		t.Errorf("labels %v: taking one off would be a way to stop", got.Labels)
	}

	pr := st.onlyPR()
	status := st.comment(pr.Number, person, "/ralph status")
	st.processed(s)
	if said := st.said(pr.Number); len(said) != 1 || !strings.Contains(said[0], "1 of 3 tasks") ||
		!strings.Contains(said[0], "T2 is in progress: Write two") {
		t.Errorf("status: %q", said)
	}
	if got := st.reactions(pr.Number, status.ID); !slices.Equal(got, []string{"+1"}) {
		t.Errorf("reactions to status: %v", got)
	}

	// What an agent works on is not changed under its hands; but it is stopped
	// where its task is left out.
	add := st.comment(pr.Number, person, "/ralph do Write four for @ghost, then fixes #1 <!-- and more -->")
	st.processed(s)
	if got := st.reactions(pr.Number, add.ID); !slices.Equal(got, []string{"eyes"}) {
		t.Errorf("reactions to do: %v", got)
	}
	skip := st.comment(issue.Number, person, "/ralph skip t2")
	state := st.ended(s.store, issue)
	if state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	if got := st.reactions(pr.Number, add.ID); !slices.Equal(got, []string{"eyes", "+1"}) {
		t.Errorf("reactions to do, in the end: %v", got)
	}
	if got := st.reactions(issue.Number, skip.ID); !slices.Contains(got, "+1") {
		t.Errorf("reactions to skip: %v", got)
	}
	pr = st.onlyPR()
	var tasks, requested []string
	for _, c := range pr.Commits {
		for line := range strings.Lines(c.Body) {
			if id, ok := strings.CutPrefix(line, "Ralph-Task: "); ok {
				tasks = append(tasks, strings.TrimSpace(id))
			}
			if who, ok := strings.CutPrefix(line, "Co-authored-by: "); ok && strings.Contains(c.Body, "Ralph-Task: ") {
				login, _, _ := strings.Cut(who, " ")
				requested = append(requested, login)
			}
		}
	}
	if diff := cmp.Diff([]string{"T1", "T3", "T4"}, tasks); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"grace", "grace", "ada"}, requested); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"@ghost", "fixes #1", "and more"} {
		if strings.Contains(pr.Body, bad) {
			t.Errorf("the description holds %q:\n%s", bad, pr.Body)
		}
	}
	for _, want := range []string{"T2", "added T4", "skipped T2"} {
		if !strings.Contains(pr.Body, want) {
			t.Errorf("the description lacks %q:\n%s", want, pr.Body)
		}
	}
	if got := st.issue(issue.Number).Labels; !slices.Contains(got, "ralph:done") {
		t.Errorf("labels %v", got)
	}

	// A finished run can be given more to do.
	more := st.comment(pr.Number, person, "/ralph do Write five")
	again := st.another(s, issue, state.Run)
	if again.End != run.EndAllTasksComplete || len(again.Commits) != 1 || again.Commits[0].TaskID != "T5" {
		t.Errorf("after more to do: ended %s (%s), commits %+v", again.End, again.EndDetail, again.Commits)
	}
	st.processed(s)
	if got := st.reactions(pr.Number, more.ID); !slices.Equal(got, []string{"rocket", "+1"}) {
		t.Errorf("reactions to do: %v", got)
	}
	if labels := st.issue(issue.Number).Labels; !slices.Contains(labels, "ralph:done") ||
		slices.Contains(labels, "ralph:needs-human") {
		t.Errorf("labels %v", labels)
	}
}

// plansOne is an agent that plans and works one task; asksFirst asks in the place of that.
const (
	plansOne  = "model: scripted\nplan:\n  - {title: Write one, accept: [one.txt is there]}\ndefault: [{files: {one.txt: \"1\\n\"}}]\n"
	asksFirst = plansOne + "tasks: {plan: [{say: \"RALPH_RESULT: blocked: What is slow, and how is it measured?\"}]}\n"
)

// TestAnswersAreReadAtTheNextPlan that a person asks for, and another approves.
func TestAnswersAreReadAtTheNextPlan(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: asksFirst})
	s := st.serve()
	st.user("grace", ghsim.RoleWrite)
	issue := st.label("Make it faster", "The app is slow.")
	state := st.ended(s.store, issue)
	if state.End != run.EndAwaitingPerson || len(state.Questions) == 0 {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.script(plansOne)
	st.comment(issue.Number, "grace", "Cache what `load()` reads from data.json; a second call takes no read.")
	st.processed(s)
	st.comment(issue.Number, person, "/ralph plan")
	planned := st.another(s, issue, state.Run)
	if planned.End != run.EndPlanned || planned.Approval == "" {
		t.Fatalf("ended %s: %s", planned.End, planned.EndDetail)
	}
	if text := planned.Plan.Text; !strings.Contains(text, "Cache what") {
		t.Errorf("planned from:\n%s", text)
	}
	st.processed(s)
	if said := st.said(issue.Number); !strings.Contains(said[len(said)-1], "Write one") ||
		!strings.Contains(said[len(said)-1], "/ralph approve") {
		t.Errorf("the plan as posted: %q", said[len(said)-1])
	}
	st.comment(issue.Number, "grace", "/ralph approve "+planned.Approval[:8])
	done := st.another(s, issue, planned.Run)
	if done.End != run.EndAllTasksComplete || done.Subject.RequestedBy != "grace" {
		t.Errorf("ended %s (%s), asked for by %s", done.End, done.EndDetail, done.Subject.RequestedBy)
	}
}
