package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/org/ralph-action/internal/ghaction"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// find runs the first job of an example: with the permissions that it has there,
// and with none of the inputs of the job that works.
func (r *runner) find(example, name string, event map[string]any) step {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "examples", "workflows", example))
	if err != nil {
		r.t.Fatal(err)
	}
	var w struct {
		Jobs map[string]struct{ Permissions map[string]string }
	}
	if err := yaml.Unmarshal(b, &w); err != nil {
		r.t.Fatal(err)
	}
	granted := map[string]string{}
	for permission, level := range w.Jobs["find"].Permissions {
		granted[strings.ReplaceAll(permission, "-", "_")] = level
	}
	if len(granted) == 0 {
		r.t.Fatalf("%s has no job find with permissions", example)
	}
	token, err := r.sim.Token(r.install.ID, granted)
	if err != nil {
		r.t.Fatal(err)
	}
	with := r.with
	defer func() { r.with = with }()
	r.with = map[string]string{"mode": ghaction.ModeFind, "github_token": token}
	j := r.job(name, event)
	got := j.step()
	if _, err := os.Stat(filepath.Join(j.dir, "ralph", "mirrors")); !errors.Is(err, fs.ErrNotExist) {
		r.t.Errorf("the repository was fetched: %v", err)
	}
	return got
}

// finds: a step has found the issue of that number, "" for none.
func finds(t *testing.T, what string, got step, issue, end string) {
	t.Helper()
	if got.code != 0 || got.outputs["issue"] != issue || got.outputs["end_reason"] != end {
		t.Errorf("%s: exit code %d, outputs %v\n%s", what, got.code, got.outputs, got.log)
	}
}

// last is the newest comment on an issue or pull request.
func (r *runner) last(number int) ghsim.Comment {
	r.t.Helper()
	all := r.issue(number).Comments
	if len(all) == 0 {
		r.t.Fatalf("there is no comment on #%d", number)
	}
	return all[len(all)-1]
}

// Every command about an issue gets to the one queue of the issue, and the run that
// is at work there is stopped by the job before the queue. Who may not write gets
// into no queue.
func TestActionFindsTheQueueOfACommand(t *testing.T) {
	t.Parallel()
	r := newRunner(t, setting{script: stuckOnTwo})
	cmd, rest := r.job("issues", r.labelled("Say hello", threeTasks)).until("::group::Iteration 2")
	r.user("eve", ghsim.RoleTriage)
	pr := r.onlyPR()
	if strings.Contains(pr.Body, "/ralph") || !strings.Contains(pr.Body,
		"To stop the run, remove the label `ralph` from the issue or close the issue") {
		t.Errorf("the pull request says:\n%s", pr.Body)
	}
	commanded := func(number int, login, text string) step {
		t.Helper()
		return r.find("commands.yml", "issue_comment", r.commented(number, login, text))
	}

	finds(t, "resume", commanded(pr.Number, person, "/ralph resume"), "1", ghaction.EndQueued)
	finds(t, "resume by eve", commanded(pr.Number, "eve", "/ralph resume"), "", ghaction.EndRefused)
	if c := r.last(pr.Number); !strings.Contains(c.Body, "`eve` has the role `triage`") {
		t.Errorf("eve is told %q", c.Body)
	}
	finds(t, "status", commanded(pr.Number, person, "/ralph status"), "", ghaction.EndNothing)
	if c := r.last(pr.Number); !strings.Contains(c.Body, fmt.Sprintf("See the description of #%d", pr.Number)) {
		t.Errorf("the status is %q", c.Body)
	}
	finds(t, "stop by eve", commanded(pr.Number, "eve", "/ralph stop"), "", ghaction.EndRefused)
	if !slices.Contains(r.issue(1).Labels, "ralph") {
		t.Fatal("eve has stopped the run")
	}
	finds(t, "stop", commanded(pr.Number, person, "/ralph stop"), "", ghaction.EndNothing)
	log := rest()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != run.ExitCancelled {
		t.Errorf("the job at work ended with %v\n%s", err, log)
	}
}

// The same of reviews, also where they are handed on.
func TestActionFindsTheQueueOfAReview(t *testing.T) {
	t.Parallel()
	r := newRunner(t, setting{files: quick, script: writesLog})
	if got := r.job("issues", r.labelled("Say hello", "- [ ] Write the log\n")).step(); got.code != 0 ||
		got.outputs["issue"] != "1" {
		t.Fatalf("exit code %d, outputs %v\n%s", got.code, got.outputs, got.log)
	}
	r.user("grace", ghsim.RoleWrite)
	r.user("eve", ghsim.RoleRead)
	pr := r.onlyPR().Number
	told := len(r.issue(pr).Comments)
	r.review("eve", "CHANGES_REQUESTED", "Mine coins.",
		ghsim.ReviewLine{Path: "log.txt", Line: 1, Body: "/ralph do Mine coins"})
	finds(t, "by eve", r.find("review.yml", "workflow_run", r.relayed(r.event("submitted"))), "", ghaction.EndRefused)
	if all := r.issue(pr).Comments; len(all) != told+1 || !strings.Contains(all[told].Body, "`eve` has the role `read`") {
		t.Errorf("eve is told %+v", all[told:])
	}
	r.review("grace", "COMMENTED", "", ghsim.ReviewLine{Path: "log.txt", Line: 1, Body: "Say more."})
	event := r.event("submitted")
	handed := r.relayed(event)
	finds(t, "by grace, handed on", r.find("review.yml", "workflow_run", handed), "1", ghaction.EndQueued)
	handed["workflow_run"].(map[string]any)["head_repository"] = map[string]any{"node_id": "R_other"}
	finds(t, "of a fork", r.find("review.yml", "workflow_run", handed), "", ghaction.EndNothing)
}

// On a schedule the first job chooses, and the other works that issue or none: what
// could not be started does not keep what comes after it from its turn.
func TestActionFindsWhatWaits(t *testing.T) {
	t.Parallel()
	clock := &slowClock{}
	clock.pass(-30 * time.Minute)
	r := newRunner(t, setting{script: writesAll, gitHubClock: clock.now})
	const byEve, begun = 1, 2
	r.user("eve", ghsim.RoleTriage)
	issue, err := r.sim.CreateIssue(person, repoOf, "eve", "Mine coins", threeTasks)
	if err != nil {
		t.Fatal(err)
	}
	r.relabel(issue, "eve")
	for range 3 {
		r.label("Say hello", threeTasks)
	}
	r.react(begun, ghapp.ReactionSeen)

	event := map[string]any{"schedule": "17 * * * *"}
	finds(t, "what waits", r.find("schedule.yml", "schedule", event), "3", ghaction.EndQueued)
	if c := r.last(byEve); !strings.Contains(c.Body, "`eve` has the role `triage`") {
		t.Errorf("eve is told %q", c.Body)
	}
	r.with["issue"] = "2"
	finds(t, "begun", r.job("schedule", event).step(), "", ghaction.EndNothing)
	r.with["issue"] = "3"
	got := r.job("schedule", event).step()
	if got.code != 0 || got.outputs["issue"] != "3" || got.outputs["tasks_done"] != "3" || r.onlyPR().Head != "ralph/3" {
		t.Errorf("exit code %d, outputs %v\n%s", got.code, got.outputs, got.log)
	}
	finds(t, "again", r.job("schedule", event).step(), "", ghaction.EndNothing)
	finds(t, "the next", r.find("schedule.yml", "schedule", event), "4", ghaction.EndQueued)
}
