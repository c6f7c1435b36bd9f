package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// TestStopAndResume: the label taken off and `/ralph stop` end the run; what was finished stays, and the label
// and `/ralph resume` go on with the rest.
func TestStopAndResume(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: hangsOnTwo})
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	st.agentAt(s, "T2")
	if err := st.sim.RemoveLabel(person, repoOf, issue.Number, person, "ralph"); err != nil {
		t.Fatal(err)
	}
	state := st.ended(s.store, issue)
	if state.End != run.EndCancelled || !strings.Contains(state.EndDetail, person) {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	pr := st.onlyPR()
	if !pr.Draft || !strings.Contains(pr.Body, "- [x] T1") || !strings.Contains(pr.Body, "- [ ] T2") ||
		strings.Contains(pr.Body, "Closes #") {
		t.Errorf("draft %v, description:\n%s", pr.Draft, pr.Body)
	}

	st.relabel(issue, person)
	st.await("the agent of the second run", func() bool {
		row, err := s.store.LatestRunByIssue(t.Context(), st.repo.NodeID, issue.Number)
		return err == nil && row.ID != state.Run && len(st.agents(s, row.ID)) > 0
	})
	stop := st.comment(issue.Number, person, "/ralph stop")
	state = st.ended(s.store, issue)
	st.processed(s)
	if state.End != run.EndCancelled || !strings.Contains(state.EndDetail, "`/ralph stop` by ada") {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	if got := st.reactions(issue.Number, stop.ID); !slices.Equal(got, []string{"+1"}) {
		t.Errorf("reactions: %v", got)
	}
	if labels := st.issue(issue.Number).Labels; !slices.Contains(labels, "ralph:paused") {
		t.Errorf("labels %v", labels)
	}

	st.script(writesAll)
	st.comment(pr.Number, person, "/ralph resume")
	again := st.another(s, issue, state.Run)
	if again.End != run.EndAllTasksComplete || len(again.Commits) != 2 || st.onlyPR().Draft {
		t.Errorf("ended %s (%s) with %d commits", again.End, again.EndDetail, len(again.Commits))
	}
	st.processed(s)
	if labels := st.issue(issue.Number).Labels; !slices.Contains(labels, "ralph:done") || slices.Contains(labels, "ralph:paused") {
		t.Errorf("labels %v", labels)
	}
}

// TestPlanApproval: nothing is spent before the plan is approved, by somebody who may; and the log says who was
// refused and who approved, whatever its level.
func TestPlanApproval(t *testing.T) {
	t.Parallel()
	log := &lines{}
	st := newStage(t, setting{files: limited("plan: {approval: required}\n"), script: writesAll})
	s := st.serveLogging(newLogger(config.Log{Level: "error", Format: "json"}, log))
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
	if done := st.another(s, issue, state.Run); done.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", done.End, done.EndDetail)
	}
	st.processed(s)
	if got := st.reactions(issue.Number, ok.ID); !slices.Equal(got, []string{"rocket"}) {
		t.Errorf("reactions %v", got)
	}
	s.stop()
	var audit []string
	for line := range strings.Lines(log.text()) {
		var d map[string]any
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		if d[delivery.AuditKey] == nil {
			continue
		}
		audit = append(audit, fmt.Sprint(d["person"], " ", d["action"], " ", d[delivery.AuditKey]))
		if d["delivery"] == "" || d["time"] == nil || d["repo"] != person+"/"+repoOf || d["issue"] != float64(issue.Number) {
			t.Errorf("it is not known when, where or by what: %v", d)
		}
	}
	if want := []string{"ada label allowed", "eve /ralph approve refused", "ada /ralph approve allowed"}; !slices.Equal(audit, want) {
		t.Errorf("the audit has %q, want %q", audit, want)
	}
}

// TestALabelOfAnotherName: everything the bot says names the label that the server is set up with. A stranger's
// starts nothing, and says why once; the first run of a repository explains itself, and no other.
func TestALabelOfAnotherName(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll, change: func(c *config.Server) {
		c.Label, c.Welcome, c.Limits.MaxIterations = "agent: go", true, 1
	}})
	s := st.serve()
	st.user("eve", ghsim.RoleTriage)
	label := func(issue ghsim.Issue, login string) {
		t.Helper()
		if err := st.sim.AddLabel(person, repoOf, issue.Number, login, st.config.Label); err != nil {
			t.Fatal(err)
		}
	}
	issue := st.newIssue(person, "Say hello", threeTasks)
	for range 2 {
		label(issue, "eve")
		if err := st.sim.RemoveLabel(person, repoOf, issue.Number, "eve", st.config.Label); err != nil {
			t.Fatal(err)
		}
	}
	st.processed(s)
	if said := st.said(issue.Number); st.runs(s, issue.Number) != 0 || len(said) != 1 || !strings.Contains(said[0], "triage") {
		t.Errorf("by eve: %d runs, said %q", st.runs(s, issue.Number), said)
	}
	label(issue, person)
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
	for _, want := range []string{"I'm on it.", "The check boxes in this issue are the tasks.", "`ralph/1`", "I never merge"} {
		if !strings.Contains(strings.Join(texts, "\n"), want) {
			t.Errorf("%q is not said", want)
		}
	}
	second := st.newIssue(person, "Say goodbye", threeTasks)
	label(second, person)
	st.ended(s.store, second)
	st.processed(s)
	if said := strings.Join(st.said(second.Number), "\n"); strings.Contains(said, "I'm on it.") {
		t.Errorf("it explains itself again: %s", said)
	}
}
