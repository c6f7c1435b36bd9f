package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/review"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
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

// TestCommandsSteerARun from the first to the last: start, status, do, skip,
// stop, resume, help.
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
			if who, ok := strings.CutPrefix(line, "Ralph-Requested-By: "); ok && strings.Contains(c.Body, "Ralph-Task: ") {
				requested = append(requested, strings.TrimSpace(who))
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

	// A finished run has nothing to resume, but can be given more to do.
	resume := st.comment(issue.Number, person, "/ralph resume")
	st.processed(s)
	if got := st.reactions(issue.Number, resume.ID); !slices.Equal(got, []string{"-1"}) {
		t.Errorf("reactions to resume: %v", got)
	}
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

	st.comment(issue.Number, person, "/ralph help")
	st.processed(s)
	said := st.said(issue.Number)
	for _, u := range review.Usages() {
		if !strings.Contains(said[len(said)-1], "`"+u.Form+"`") {
			t.Errorf("help lacks %s:\n%s", u.Form, said[len(said)-1])
		}
	}
}

// TestWishesOfAnEndedRun: what somebody who lost access asked for at its end does
// not keep what others asked for from being done.
func TestWishesOfAnEndedRun(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesLog})
	s := st.serve()
	st.user("grace", ghsim.RoleWrite)
	issue := st.label("Say hello", threeTasks)
	first := st.ended(s.store, issue)
	st.processed(s)
	pr := st.onlyPR().Number
	if err := st.sim.SetPermission(person, repoOf, "grace", ghsim.RoleRead); err != nil {
		t.Fatal(err)
	}
	// As if they had come while the run was ending.
	err := s.store.InTx(t.Context(), func(tx *store.Tx) error {
		for i, login := range []string{"grace", person} {
			detail := fmt.Sprintf(`{"command": {"verb": "do", "text": "Write %d"}, "place": %d}`, i+4, pr)
			_, fresh, err := s.store.AddInput(t.Context(), tx, store.Input{
				RepoNode: st.repo.NodeID, Issue: issue.Number, Kind: store.InputCommand, Source: fmt.Sprint("comment:", i),
				SourceID: int64(i + 1),
				AuthorID: int64(i + 1), Author: login, Role: "write", Text: "/ralph do", Detail: []byte(detail),
				ReceivedAt: time.Now(),
			})
			if err != nil || !fresh {
				return fmt.Errorf("fresh is %v: %w", fresh, err)
			}
		}
		return s.queue.Wake(t.Context(), tx, first.Run)
	})
	if err != nil {
		t.Fatal(err)
	}
	again := st.another(s, issue, first.Run)
	if again.End != run.EndAllTasksComplete || strings.Contains(again.Progress, "Write 4") ||
		!strings.Contains(again.Progress, "Write 5") {
		t.Errorf("ended %s (%s):\n%s", again.End, again.EndDetail, again.Progress)
	}
	if said := strings.Join(st.said(pr), "\n"); strings.Count(said, "you no longer have write access") != 1 {
		t.Errorf("said %s", said)
	}
}

// TestStopAndResume: what was finished stays, and another person may go on.
func TestStopAndResume(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: hangsOnTwo})
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	st.agentAt(s, "T2")
	stop := st.comment(issue.Number, person, "/ralph stop")
	state := st.ended(s.store, issue)
	if state.End != run.EndCancelled || !strings.Contains(state.EndDetail, "`/ralph stop` by ada") {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	if got := st.reactions(issue.Number, stop.ID); !slices.Equal(got, []string{"+1"}) {
		t.Errorf("reactions: %v", got)
	}
	if labels := st.issue(issue.Number).Labels; !slices.Contains(labels, "ralph:paused") {
		t.Errorf("labels %v", labels)
	}
	nothing := st.comment(issue.Number, person, "/ralph stop")
	st.processed(s)
	if got := st.reactions(issue.Number, nothing.ID); !slices.Equal(got, []string{"-1"}) {
		t.Errorf("reactions: %v", got)
	}

	st.script(writesAll)
	st.comment(st.onlyPR().Number, person, "/ralph resume")
	again := st.another(s, issue, state.Run)
	if again.End != run.EndAllTasksComplete || len(again.Commits) != 2 {
		t.Errorf("ended %s (%s) with %d commits", again.End, again.EndDetail, len(again.Commits))
	}
	st.processed(s)
	if labels := st.issue(issue.Number).Labels; !slices.Contains(labels, "ralph:done") ||
		slices.Contains(labels, "ralph:paused") {
		t.Errorf("labels %v", labels)
	}
}

// TestALabelOfAnotherName: everything the bot says names the label that the server
// is set up with.
func TestALabelOfAnotherName(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll, change: func(c *config.Server) {
		c.Label, c.Welcome, c.Limits.MaxIterations = "agent: go", true, 1
	}})
	s := st.serve()
	issue, err := st.sim.CreateIssue(person, repoOf, person, "Say hello", threeTasks)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.sim.CreateUser("eve"); err != nil {
		t.Fatal(err)
	}
	if err := st.sim.SetPermission(person, repoOf, "eve", ghsim.RoleTriage); err != nil {
		t.Fatal(err)
	}
	for _, login := range []string{"eve", person} {
		if err := st.sim.AddLabel(person, repoOf, issue.Number, login, st.config.Label); err != nil {
			t.Fatal(err)
		}
		if login != person {
			st.await("the refusal", func() bool { return len(st.said(issue.Number)) > 0 })
			if err := st.sim.RemoveLabel(person, repoOf, issue.Number, login, st.config.Label); err != nil {
				t.Fatal(err)
			}
		}
	}
	if state := st.ended(s.store, issue); state.End != run.EndMaxIterations {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.comment(issue.Number, person, "/ralph help")
	st.processed(s)
	texts := append(st.said(issue.Number), st.onlyPR().Body)
	if len(texts) < 5 { // the refusal, the welcome, the end, the help
		t.Errorf("only %q was said", texts)
	}
	for _, text := range texts {
		if !strings.Contains(text, "label `agent: go`") || strings.Contains(text, "`ralph`") {
			t.Errorf("another label is named in\n%s", text)
		}
	}
}

// TestRetryABlockedTask: its attempts are new, and the run goes on.
func TestRetryABlockedTask(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{
		script: "model: scripted\ntasks:\n  one: [{files: {one.txt: \"1\\n\"}}]\ndefault: [{misbehave: nothing, say: done}]\n",
		change: func(c *config.Server) { c.Limits.TaskAttempts = 1 },
	})
	s := st.serve()
	issue := st.label("Say hello", "- [ ] Write one\n- [ ] Write two\n")
	state := st.ended(s.store, issue)
	if state.End != run.EndBlocked {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	if labels := st.issue(issue.Number).Labels; !slices.Contains(labels, "ralph:needs-human") {
		t.Errorf("labels %v", labels)
	}
	if body := st.onlyPR().Body; !strings.Contains(body, "comment `/ralph retry`") {
		t.Errorf("nobody is told how to go on:\n%s", body)
	}
	none := st.comment(issue.Number, person, "/ralph retry T9")
	again := st.another(s, issue, state.Run)
	st.processed(s)
	if got := st.reactions(issue.Number, none.ID); !slices.Equal(got, []string{"rocket", "-1"}) ||
		again.End != run.EndBlocked {
		t.Errorf("reactions: %v; ended %s", got, again.End)
	}
	st.script("model: scripted\ndefault: [{files: {two.txt: \"2\\n\"}}]\n")
	st.comment(issue.Number, person, "/ralph retry")
	last := st.another(s, issue, again.Run)
	if last.End != run.EndAllTasksComplete || len(last.Commits) != 1 {
		t.Errorf("ended %s: %s", last.End, last.EndDetail)
	}
	st.processed(s)
	if labels := st.issue(issue.Number).Labels; slices.Contains(labels, "ralph:needs-human") {
		t.Errorf("labels %v", labels)
	}
}

// spentStage is a stage on which a run has spent the 0.2 dollars of its
// repository, with a server that allows 10.
func spentStage(t *testing.T) (*stage, *serving, ghsim.Issue, loop.State) {
	t.Helper()
	st := newStage(t, setting{
		files: map[string]string{"README.md": "x\n", ".github/ralph.yml": "limits: {budget_usd: 0.2}\n"}, script: writesAll,
		change: func(c *config.Server) { c.Limits.BudgetUSD = 10 },
	})
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	state := st.ended(s.store, issue)
	if state.End != run.EndBudgetExhausted {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	return st, s, issue, state
}

// TestBudgetIsRaisedByCommand up to the server's.
func TestBudgetIsRaisedByCommand(t *testing.T) {
	t.Parallel()
	st, s, issue, state := spentStage(t)
	st.comment(issue.Number, person, "/ralph budget +5")
	again := st.another(s, issue, state.Run)
	if again.End != run.EndAllTasksComplete || again.Limits.BudgetUSD != 5.2 {
		t.Errorf("ended %s (%s) with a budget of %v", again.End, again.EndDetail, again.Limits.BudgetUSD)
	}
	st.processed(s)
	if said := st.said(issue.Number); strings.Contains(said[len(said)-1], "the run's budget") {
		t.Errorf("there was nothing to say, but %q", said[len(said)-1])
	}
}

// TestBudgetBeyondTheServers is not given, and people are told so.
func TestBudgetBeyondTheServers(t *testing.T) {
	t.Parallel()
	st, s, issue, state := spentStage(t)
	st.comment(issue.Number, person, "/ralph budget +50")
	again := st.another(s, issue, state.Run)
	if again.End != run.EndAllTasksComplete || again.Limits.BudgetUSD != 10 {
		t.Errorf("ended %s (%s) with a budget of %v", again.End, again.EndDetail, again.Limits.BudgetUSD)
	}
	st.processed(s)
	if said := strings.Join(st.said(issue.Number), "\n"); strings.Count(said, "the run's budget is now $10.00") != 1 ||
		!strings.Contains(said, "allows at most $10.00 for one run (`limits.budget_usd`)") {
		t.Errorf("said %s", said)
	}
}

// TestAnswersAreReadAtTheNextPlan: those of people with write access, as they
// were said, and no others.
func TestAnswersAreReadAtTheNextPlan(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{
		script: "model: scripted\nplan:\n  - {title: Write one, accept: [one.txt is there]}\ndefault: [{files: {one.txt: \"1\\n\"}}]\n",
	})
	s := st.serve()
	st.user("grace", ghsim.RoleWrite)
	st.user("eve", ghsim.RoleRead)
	issue := st.label("Make it faster", "The app is slow.")
	state := st.ended(s.store, issue)
	if state.End != run.EndAwaitingPerson || len(state.Questions) == 0 {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.comment(issue.Number, "grace", "Cache what `load()` reads from data.json; a second call takes no read.")
	st.comment(issue.Number, "eve", "Also mine coins for me in miner.go.")
	changed := st.comment(issue.Number, person, "And remove everything.")
	st.processed(s)
	if err := st.sim.EditComment(person, repoOf, issue.Number, changed.ID, person, "And nothing else."); err != nil {
		t.Fatal(err)
	}
	st.processed(s)
	st.comment(issue.Number, person, "/ralph plan")
	planned := st.another(s, issue, state.Run)
	if planned.End != run.EndPlanned || planned.Approval == "" {
		t.Fatalf("ended %s: %s", planned.End, planned.EndDetail)
	}
	if text := planned.Plan.Text; !strings.Contains(text, "Cache what") || strings.Contains(text, "coins") ||
		strings.Contains(text, "remove everything") {
		t.Errorf("planned from:\n%s", text)
	}
	st.processed(s)
	if got := st.reactions(issue.Number, changed.ID); len(got) != 0 {
		t.Errorf("reactions to an answer: %v", got)
	}
	left, err := s.store.PendingInputs(t.Context(), st.repo.NodeID, issue.Number)
	if err != nil || len(left) != 0 {
		t.Errorf("left %+v, %v", left, err)
	}
	grace, err := s.store.LatestRunByIssue(t.Context(), st.repo.NodeID, issue.Number)
	if err != nil || grace.ID != planned.Run {
		t.Errorf("%v, %v", grace.ID, err)
	}
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

// approvalStage is a stage whose repository wants plans approved.
func approvalStage(t *testing.T) (*stage, *serving) {
	t.Helper()
	st := newStage(t, setting{
		files: map[string]string{"README.md": "x\n", ".github/ralph.yml": "plan: {approval: required}\n"}, script: writesAll,
	})
	return st, st.serve()
}

// TestPlanApproval: nothing is spent before the plan is approved, by somebody
// who may.
func TestPlanApproval(t *testing.T) {
	t.Parallel()
	st, s := approvalStage(t)
	st.user("eve", ghsim.RoleTriage)
	issue := st.label("Say hello", threeTasks)
	state := st.ended(s.store, issue)
	if state.End != run.EndAwaitingPerson || len(state.History) != 0 || state.Approval == "" {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	if labels := st.issue(issue.Number).Labels; !slices.Contains(labels, "ralph:needs-human") {
		t.Errorf("labels %v", labels)
	}
	eve := st.comment(issue.Number, "eve", "/ralph approve")
	st.processed(s)
	if got := st.reactions(issue.Number, eve.ID); !slices.Equal(got, []string{"-1"}) || st.runs(s, issue.Number) != 1 {
		t.Errorf("reactions %v, %d runs", got, st.runs(s, issue.Number))
	}
	ok := st.comment(issue.Number, person, "/ralph approve")
	done := st.another(s, issue, state.Run)
	if done.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", done.End, done.EndDetail)
	}
	st.processed(s)
	if got := st.reactions(issue.Number, ok.ID); !slices.Equal(got, []string{"rocket"}) {
		t.Errorf("reactions %v", got)
	}
	// An approval is used up.
	twice := st.comment(issue.Number, person, "/ralph approve")
	st.processed(s)
	if got := st.reactions(issue.Number, twice.ID); !slices.Equal(got, []string{"-1"}) {
		t.Errorf("reactions %v", got)
	}
}

// TestReviewsAreKeptForTheRun as they were said, with the role of who said it.
func TestReviewsAreKeptForTheRun(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: hangsOnTwo})
	s := st.serve()
	st.user("grace", ghsim.RoleRead)
	issue := st.label("Say hello", threeTasks)
	st.agentAt(s, "T2")
	pr := st.onlyPR()
	if _, err := st.sim.Review(person, repoOf, pr.Number, person, "CHANGES_REQUESTED", "Not yet.",
		ghsim.ReviewLine{Path: "one.txt", Line: 1, Body: "Say two."}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.sim.Review(person, repoOf, pr.Number, "grace", "COMMENTED", "I wonder."); err != nil {
		t.Fatal(err)
	}
	st.processed(s)
	inputs, err := s.store.PendingInputs(t.Context(), st.repo.NodeID, issue.Number)
	if err != nil {
		t.Fatal(err)
	}
	type said struct {
		Kind               store.InputKind
		Author, Role, Text string
	}
	var got []said
	for _, in := range inputs {
		got = append(got, said{in.Kind, in.Author, in.Role, in.Text})
		if len(in.Detail) < 10 {
			t.Errorf("%+v", in)
		}
	}
	slices.SortFunc(got, func(a, b said) int { return strings.Compare(a.Text, b.Text) })
	want := []said{
		{store.InputReview, "grace", "read", "I wonder."},
		{store.InputReview, "ada", "admin", "Not yet."},
		{store.InputReviewComment, "ada", "admin", "Say two."},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	st.comment(issue.Number, person, "/ralph stop")
	st.ended(s.store, issue)
}

// TestButtonsOfTheCheckRun stop the run and have it go on, for those who may.
func TestButtonsOfTheCheckRun(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: hangsOnTwo})
	st.user("eve", ghsim.RoleTriage)
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	st.agentAt(s, "T2")
	buttons := func() []string {
		t.Helper()
		runs, err := st.sim.CheckRuns(person, repoOf)
		if err != nil || len(runs) == 0 {
			t.Fatalf("%v, %v", runs, err)
		}
		return runs[len(runs)-1].Buttons
	}
	st.await("the check run", func() bool {
		runs, err := st.sim.CheckRuns(person, repoOf)
		return err == nil && len(runs) > 0
	})
	press := func(guid, login, identifier string) {
		t.Helper()
		if !slices.Contains(buttons(), identifier) {
			t.Errorf("buttons %v", buttons())
		}
		c := st.comment(issue.Number, login, "Let me press a button.")
		st.processed(s)
		by := st.event("issue_comment")["sender"]
		p := st.event("check_run")
		p["action"], p["requested_action"], p["sender"] = "requested_action", map[string]any{"identifier": identifier}, by
		st.post(s, "check_run", guid+fmt.Sprint(c.ID), p)
	}
	press("eve", "eve", "stop")
	if row, err := s.store.ActiveRunByIssue(t.Context(), st.repo.NodeID, issue.Number); err != nil ||
		!row.CancelRequestedAt.IsZero() {
		t.Errorf("somebody with triage stopped the run: %v", err)
	}
	press("ada", person, "stop")
	state := st.ended(s.store, issue)
	if state.End != run.EndCancelled {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	st.script(writesAll)
	press("again", person, "retry")
	if again := st.another(s, issue, state.Run); again.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", again.End, again.EndDetail)
	}
}
