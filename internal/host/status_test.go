package host

import (
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/sandbox"
)

func TestAgentStatus(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	began := sandbox.Status{
		State: sandbox.Exited, Reason: sandbox.ReasonExited, StartedAt: at, FinishedAt: at.Add(time.Minute),
	}
	failed := began
	failed.ExitCode, failed.Stderr = 3, "line 41: no such table\n"
	missing := began
	missing.ExitCode, missing.Stderr = 127, "sh: 1: my-agent: not found\n"
	hungry, slow := began, began
	hungry.OOMKilled = true
	slow.Reason = sandbox.ReasonWallTimeout
	never := sandbox.Status{State: sandbox.Exited, Reason: sandbox.ReasonStartFailed, Detail: "no room", FinishedAt: at}
	for name, tt := range map[string]struct {
		result  agent.Result
		status  sandbox.Status
		want    loop.Outcome
		says    string
		doFirst string
		took    time.Duration
	}{
		"refused": {
			agent.Result{Outcome: agent.OutcomeCredit, Error: "no credit"}, began, loop.AgentBroken, "no credit", "add credit",
			time.Minute,
		},
		"words, exit 3": {
			agent.Result{Outcome: agent.OutcomeByExit}, failed, loop.AgentGaveUp, "code 3; it said: line 41: no such table", "",
			time.Minute,
		},
		"not there": {
			agent.Result{Outcome: agent.OutcomeByExit}, missing, loop.AgentBroken, "my-agent was not found", "put the program",
			time.Minute,
		},
		"could not ask": {
			agent.Result{Outcome: agent.OutcomeRateLimited, Error: "429"}, began, loop.AgentRateLimited, "429", "", time.Minute,
		},
		"never began": {
			agent.Result{Outcome: agent.OutcomeEmpty}, never, loop.AgentBroken, "could not be started: no room", "", 0,
		},
		"unheard of": {
			agent.Result{Outcome: agent.OutcomeErrored, Error: "not today"}, began, loop.AgentRateLimited, "not today", "",
			time.Minute,
		},
		"unheard of, out of memory": {
			agent.Result{Outcome: agent.OutcomeErrored, Error: "a tool was killed"}, hungry, loop.AgentGaveUp, "out of memory", "",
			time.Minute,
		},
		"unheard of, out of time": {
			agent.Result{Outcome: agent.OutcomeErrored, Error: "aborted"}, slow, loop.AgentTimedOut, "took too long", "",
			time.Minute,
		},
		"crash, no word": {
			agent.Result{Outcome: agent.OutcomeEmpty}, failed, loop.AgentBroken, "it said: line 41", "", time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := agentStatus(tt.result, tt.status, time.UTC)
			if got.Outcome != tt.want || !strings.Contains(got.Detail, tt.says) || got.Finished.Sub(got.Started) != tt.took {
				t.Errorf("%s after %s: %q", got.Outcome, got.Finished.Sub(got.Started), got.Detail)
			}
			if !strings.HasPrefix(got.DoFirst, tt.doFirst) || tt.doFirst == "" && got.DoFirst != "" {
				t.Errorf("do first %q", got.DoFirst)
			}
		})
	}
}

// TestHoursAreThoseOfTheAgentsClock: a program names them without a zone.
func TestHoursAreThoseOfTheAgentsClock(t *testing.T) {
	t.Parallel()
	ended := sandbox.Status{
		State: sandbox.Exited, Reason: sandbox.ReasonExited, ExitCode: 1, FinishedAt: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC),
	}
	for zone, want := range map[*time.Location]time.Time{
		time.UTC:                        time.Date(2026, 11, 22, 21, 0, 0, 0, time.UTC),
		time.FixedZone("Tokyo", 9*3600): time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC),
	} {
		said := agent.Result{Outcome: agent.OutcomeRateLimited, Error: "You've hit your limit · resets 9pm"}
		if got := agentStatus(said, ended, zone).RetryAt; !got.Equal(want) {
			t.Errorf("%s: %s, want %s", zone, got, want)
		}
	}
}
