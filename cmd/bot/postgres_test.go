//go:build postgres

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store/pgtest"
)

// onPostgres is a change of a configuration.
func onPostgres(url string) func(*config.Server) {
	return func(c *config.Server) { c.DatabaseURL = url }
}

// finish waits until a run has done all its tasks, stops the server, and holds the world
// against itself.
func (st *stage) finish(s *serving, issue ghsim.Issue) {
	st.t.Helper()
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
		st.t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	s.stop()
	if diff := cmp.Diff(wantSubjects, subjects(st.onlyPR().Commits)); diff != "" {
		st.t.Error(diff)
	}
	st.checkWorld()
}

func TestLabelBecomesPullRequestOnPostgres(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{
		script: writesAll, change: onPostgres(pgtest.URL(t)),
		gates: []config.Gate{{Name: "not empty", Run: "test -s one.txt", When: "task", Timeout: time.Minute}},
	})
	s := st.serve()
	issue := st.label("Say hello to everybody", threeTasks)
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	if diff := cmp.Diff(wantSubjects, subjects(st.onlyPR().Commits)); diff != "" {
		t.Error(diff)
	}
	s.stop()
	st.checkWorld()
}

// TestKilledOnPostgres is TestKilledAtEveryStep there, at every third unless in full size.
func TestKilledOnPostgres(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll, change: onPostgres(pgtest.URL(t))})
	if !fullSize() {
		st.steps = 3
	}
	_, state := st.killed(func() ghsim.Issue { return st.label("Say hello to everybody", threeTasks) })
	if state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	if diff := cmp.Diff(wantSubjects, subjects(st.onlyPR().Commits)); diff != "" {
		t.Error(diff)
	}
}

// TestMigratedToPostgres: a run goes on there where it was in the file.
func TestMigratedToPostgres(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	landed := make(chan struct{}, 10)
	s := st.serveWith(func(ev run.Event) {
		if ev.Kind == run.EventTaskDone {
			landed <- struct{}{}
		}
	})
	issue := st.label("Say hello to everybody", threeTasks)
	<-landed
	url := pgtest.URL(t)
	migrate := func(wants ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), theProgram(t), "migrate", "--config", st.writeConfig(), "--to", url)
		out, err := cmd.CombinedOutput()
		for _, want := range wants {
			if !strings.Contains(string(out), want) {
				t.Errorf("%v, %s; want %q", err, out, want)
			}
		}
	}
	migrate("the server is running")
	s.stop()
	migrate("1  runs", "All rows are there.")
	migrate("1  runs", "All rows are there.") // changes nothing
	st.config.DatabaseURL = url
	migrate("is in PostgreSQL already")

	s = st.serve()
	st.finish(s, issue)
	st.carried(st.config.DataDir)
}

// TestPostgresGoesAway: runs go on when PostgreSQL does, whether it was restarted or killed,
// and nothing is done twice.
func TestPostgresGoesAway(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t)
	st := newStage(t, setting{script: writesAll, change: onPostgres(pg.URL(t))})
	landed := make(chan struct{}, 100)
	s := st.serveApp(zerolog.Nop(), func(ev run.Event) {
		if ev.Kind == run.EventTaskDone {
			landed <- struct{}{}
		}
	})
	var issues []ghsim.Issue
	for range 3 {
		issues = append(issues, st.label("Say hello to everybody", threeTasks))
	}
	<-landed
	begun := time.Now()
	pg.Restart(t)
	<-landed
	pg.Kill(t)
	pg.Up(t)
	for _, issue := range issues {
		st.await(fmt.Sprintf("the end of #%d", issue.Number), func() bool {
			row, err := s.store.LatestRunByIssue(t.Context(), st.repo.NodeID, issue.Number)
			return err == nil && row.Phase.Terminal()
		})
		st.complete(issue, wantSubjects[:3]...)
	}
	// Twice the time of a lease is what it took when runs waited for theirs to run out.
	if took := time.Since(begun); took > 3*time.Minute {
		t.Errorf("it took %s", took)
	}
	st.processed(s)
	s.stop()
	st.checkWorld()
}

// TestOtherMachineTakesOver: a server that finds nothing on its disk goes on with the runs
// of one that is gone, from what is on the branch and in the database.
func TestOtherMachineTakesOver(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]run.EventKind{
		"when a task has landed": run.EventTaskDone, "when an agent has begun": run.EventAgentStarted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, setting{script: writesAll, change: onPostgres(pgtest.URL(t))})
			reached := make(chan struct{}, 100)
			s := st.serveWith(func(ev run.Event) {
				if ev.Kind == kind {
					reached <- struct{}{}
				}
			})
			issue := st.label("Say hello to everybody", threeTasks)
			<-reached
			s.stop()
			st.config.DataDir = filepath.Join(st.dir, "other")
			s = st.serve()
			st.finish(s, issue)
		})
	}
}

// TestWebhooksComeFastToPostgres is TestWebhooksComeFast there, with a disk that is waited for.
func TestWebhooksComeFastToPostgres(t *testing.T) {
	t.Parallel()
	newStage(t, setting{change: onPostgres(pgtest.Start(t).URL(t))}).webhooksComeFast(true)
}

// TestChaosOnPostgres is TestChaos there.
func TestChaosOnPostgres(t *testing.T) {
	t.Parallel()
	chaos(t, onPostgres(pgtest.URL(t)))
}
