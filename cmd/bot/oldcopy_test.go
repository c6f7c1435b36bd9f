package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// outside is what people see of the run of an issue.
type outside struct {
	Commits, Comments, Labels, Checks []string
	Reactions, PRs                    int
	Draft                             bool
}

func (st *stage) outside(n int) outside {
	st.t.Helper()
	issue := st.issue(n)
	prs, err := st.sim.PRs(person, repoOf)
	if err != nil {
		st.t.Fatal(err)
	}
	o := outside{Labels: slices.Sorted(slices.Values(issue.Labels)), Reactions: len(issue.Reactions), PRs: len(prs)}
	for _, c := range issue.Comments {
		o.Comments = append(o.Comments, c.Body)
	}
	for _, pr := range prs {
		o.Commits, o.Draft = append(o.Commits, subjects(pr.Commits)...), o.Draft || pr.Draft
		o.Comments = append(o.Comments, st.said(pr.Number)...)
	}
	checks, err := st.sim.CheckRuns(person, repoOf)
	if err != nil {
		st.t.Fatal(err)
	}
	for _, c := range checks {
		o.Checks = append(o.Checks, c.HeadOID+" "+c.Status+" "+c.Conclusion)
	}
	return o
}

// TestOldCopyOfTheDataDirectory: a server that is started on a copy of its data directory, ten
// task commits old, does nothing twice: neither while the run goes on nor once it has ended, nor for an
// issue that was labelled and worked since.
func TestOldCopyOfTheDataDirectory(t *testing.T) {
	t.Parallel()
	const tasks = 12
	st := newStage(t, setting{agent: config.Agent{Name: config.AgentCommand}})
	var mu sync.Mutex
	done, calls := 0, filepath.Join(st.dir, "calls")
	watch := func(ev run.Event) {
		mu.Lock()
		defer mu.Unlock()
		if ev.Kind == run.EventTaskDone {
			done = ev.Done
		}
	}
	landed := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return done >= n
		}
	}
	// Each call writes the next file; the agent waits before the second, and before the last task.
	script := filepath.Join(st.dir, "agent.sh")
	if err := os.WriteFile(script, []byte(strings.ReplaceAll(`#!/bin/sh
cat > DIR/prompt
id=$(sed -n 's/.*Write \(n[0-9]*\).*/\1/p' DIR/prompt | head -n 1)
head -n 1 DIR/prompt >> DIR/calls
while [ $id = n3 -a ! -e DIR/go-n3 ] || [ $id = n12 -a ! -e DIR/go-n12 ]; do sleep 0.05; done
echo $id > $id.txt
echo RALPH_RESULT: done
`, "DIR", st.dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	st.config.Agent.Command = "sh " + script
	var body strings.Builder
	want := make([]string, 0, tasks+1)
	for n := range tasks {
		fmt.Fprintf(&body, "- [ ] Write n%d\n", n+1)
		want = append(want, fmt.Sprintf("feat: write n%d", n+1))
	}
	want = append(want, "chore: remove the progress file of a finished run")
	copyTo := func(name string) string {
		t.Helper()
		to := filepath.Join(st.dir, name)
		if out, err := exec.CommandContext(t.Context(), "cp", "-a", st.config.DataDir, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return to
	}
	goOn := func(task string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(st.dir, "go-"+task), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	s := st.serveWith(watch)
	issue := st.label("Count", body.String())
	st.await("the first tasks to land", landed(1))
	s.stop()
	old, older := copyTo("old"), copyTo("older")
	s = st.serveWith(watch)
	goOn("n3")
	st.await("all but the last task to land", landed(tasks-1))
	s.stop() // and is lost

	st.config.DataDir = old
	s = st.serveWith(watch)
	goOn("n12")
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	got := st.outside(issue.Number)
	if diff := cmp.Diff(want, got.Commits); diff != "" || got.PRs != 1 || got.Reactions != 1 || got.Draft {
		t.Errorf("%+v\n%s", got, diff)
	}
	if slices.Sort(got.Comments); len(slices.Compact(slices.Clone(got.Comments))) != len(got.Comments) {
		t.Errorf("said twice: %q", got.Comments)
	}

	record := func() []string {
		t.Helper()
		b, err := os.ReadFile(calls)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
	second := st.label("Count more", "- [ ] Write n3\n")
	if state := st.ended(s.store, second); state.End != run.EndAllTasksComplete {
		t.Errorf("#%d ended %s: %s", second.Number, state.End, state.EndDetail)
	}
	st.processed(s)
	s.stop()
	all := []outside{st.outside(issue.Number), st.outside(second.Number)}
	before, labels := record(), st.sim.AllDeliveries()
	labels = slices.DeleteFunc(labels, func(d ghsim.Delivery) bool {
		return d.Action != "labeled" || !strings.Contains(string(d.Payload), "Count more")
	})

	st.clock.pass(20 * time.Minute)
	st.config.DataDir = older
	s = st.serveWith(watch)
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s once more: %s", state.End, state.EndDetail)
	}
	st.await("what the copy does not know to come again", func() bool {
		return slices.ContainsFunc(labels, func(sent ghsim.Delivery) bool {
			d, err := s.store.Delivery(t.Context(), sent.GUID)
			return err == nil && d.Outcome == "taken in before"
		})
	})
	st.processed(s)
	s.stop()
	if diff := cmp.Diff(all, []outside{st.outside(issue.Number), st.outside(second.Number)}); diff != "" {
		t.Errorf("of runs that had ended: %s", diff)
	}
	// What the review of the whole said is nowhere but in the store.
	if diff := cmp.Diff(append(before, "Mode: review"), record()); diff != "" {
		t.Errorf("calls of the agent for a run that had ended: %s", diff)
	}
}
