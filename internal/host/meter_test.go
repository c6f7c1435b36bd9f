package host_test

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/gateway/spend/spendtest"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// box is a sandbox in memory, with one process that runs until it is told to
// end, and says nothing.
type box struct {
	sandbox.Sandbox
	status sandbox.Status
	ended  chan struct{}
	spec   sandbox.Spec
	// stopped are the names of what was told to end.
	stopped []string
}

func (b *box) About() sandbox.About { return sandbox.About{Name: "docker"} }

func (b *box) Prepare(context.Context, string) error { return nil }

func (b *box) Start(_ context.Context, name string, spec sandbox.Spec) (sandbox.Handle, error) {
	b.spec = spec
	b.status = sandbox.Status{State: sandbox.Running, StartedAt: time.Unix(1, 0)}
	return sandbox.Handle{Name: name, RunDir: spec.RunDir}, nil
}

func (b *box) Inspect(context.Context, sandbox.Handle) (sandbox.Status, error) { return b.status, nil }

func (b *box) Wait(ctx context.Context, _ sandbox.Handle) (sandbox.Status, error) {
	select {
	case <-b.ended:
		return b.status, nil
	case <-ctx.Done():
		return sandbox.Status{}, ctx.Err()
	}
}

func (b *box) Stop(_ context.Context, h sandbox.Handle, _ string) error {
	b.stopped = append(b.stopped, h.Name)
	b.end(sandbox.Status{Reason: sandbox.ReasonStopped, ExitCode: 143, Signal: "SIGTERM"})
	return nil
}

func (b *box) Remove(context.Context, sandbox.Handle) error { return nil }

func (b *box) end(s sandbox.Status) {
	if b.status.State == sandbox.Exited {
		return // it may be told to end again while it ends
	}
	s.State, s.StartedAt, s.FinishedAt = sandbox.Exited, time.Unix(1, 0), time.Unix(9, 0)
	b.status = s
	close(b.ended)
}

// talker is an agent that says what it is told to.
type talker struct {
	agent.Backend
	result agent.Result
	// final: its last message is seen from the beginning.
	final bool
}

func (talker) Command(inv agent.Invocation) (agent.Command, error) {
	return agent.Command{Argv: []string{"agent", inv.Token}}, nil
}

func (talker) About() agent.About { return agent.About{} }

func (t talker) NewParser(func(agent.Activity)) agent.Parser {
	return said{result: t.result, final: t.final}
}

type said struct {
	io.Writer
	result agent.Result
	final  bool
}

func (s said) Write(p []byte) (int, error) { return len(p), nil }

func (s said) Final() bool { return s.final }

func (s said) Close() agent.Result { return s.result }

// metered starts an agent of a run with a budget of a dollar, half of it for the
// task.
func metered(t *testing.T, says agent.Result, change ...func(*host.Gateway)) (*host.Host, *box, *spend.Meter, loop.Handle) {
	t.Helper()
	ledger := spendtest.Open(t, t.TempDir())
	meter, b := spend.NewMeter(ledger, run.ListPrices()), &box{ended: make(chan struct{})}
	gw := &host.Gateway{
		Dir: t.TempDir(), Token: func(start string) string { return "token of " + start }, Meter: meter,
		Scopes: func() []spend.Scope { return []spend.Scope{spend.DayScope("R_1", "2026-03-01", spend.Dollars(9))} },
	}
	for _, with := range change {
		with(gw)
	}
	h := host.New(host.Config{
		Dir: filepath.Join(t.TempDir(), "run"), Source: newSource(t, map[string]string{"README": "hello\n"}), Sandbox: b,
		Backend: talker{result: says, final: says.Outcome == agent.OutcomeCompleted}, Gateway: gw,
		Limits: func(asked run.Limits) run.Limits { return asked },
	})
	s := loop.State{
		Request: loop.Request{Run: "r1", Settings: loop.Settings{Limits: run.Limits{BudgetUSD: 1, TaskBudgetUSD: 0.5}}},
		Call:    loop.Call{Attempt: loop.Attempt{TaskID: "T1"}},
	}
	opened, err := h.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	s.HeadTree = opened.HeadTree
	handle, err := h.StartAgent(t.Context(), s, agentStart("r1-1"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"agent", "token of r1-1"}, b.spec.Argv); diff != "" {
		t.Error(diff)
	}
	if b.spec.Env["TZ"] != "UTC" { // by which the hours are read that agents name
		t.Errorf("the zone in a container is %q", b.spec.Env["TZ"])
	}
	start, err := meter.Start(t.Context(), "r1-1")
	want := []spend.Scope{
		spend.RunScope("r1", spend.Dollars(1)), spend.TaskScope("r1", "T1", spend.Dollars(0.5)),
		spend.DayScope("R_1", "2026-03-01", spend.Dollars(9)),
	}
	if diff := cmp.Diff(want, start.Scopes); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	return h, b, meter, handle
}

// use has the agent make a request.
func use(t *testing.T, m *spend.Meter, in, out int64) {
	t.Helper()
	s, err := m.Start(t.Context(), "r1-1")
	if err != nil {
		t.Fatal(err)
	}
	a, err := m.Admit(t.Context(), s, spend.Request{Model: "claude-haiku-4-5", Input: in, Output: out})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context(), spend.Tokens{Input: in, Output: out}); err != nil {
		t.Fatal(err)
	}
}

// Attack I1: the budget is used up in the middle of an iteration, and the agent
// does not care: it is stopped, what it cost is known, and the run learns why,
// whatever the agent says of it.
func TestI1BudgetHitStopsTheAgent(t *testing.T) {
	t.Parallel()
	const why = "budget exhausted: the test says so"
	for name, says := range map[string]agent.Result{
		"silent": {Outcome: agent.OutcomeEmpty}, "polled": {Outcome: agent.OutcomeEmpty},
		"blames the rate": {Outcome: agent.OutcomeRateLimited, Error: "429", RetryAt: time.Unix(99, 0)},
		"blames the key":  {Outcome: agent.OutcomeAuth, Error: "401"},
		"counts wrongly":  {Outcome: agent.OutcomeErrored, Usage: run.Usage{CostUSD: 99, Turns: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, b, meter, handle := metered(t, says)
			use(t, meter, 1000, 200)
			status, err := h.ObserveAgent(t.Context(), handle)
			if err != nil || !status.Running || b.status.State != sandbox.Running {
				t.Fatalf("%+v, %v", status, err)
			}
			if err := meter.Refuse(t.Context(), "r1-1", spend.Refusal{Reason: why, Budget: true}); err != nil {
				t.Fatal(err)
			}
			if name == "polled" { // where the App looks instead of waiting, that stops it
				status, err = h.ObserveAgent(t.Context(), handle)
				if err != nil || !status.Running || b.status.Reason != sandbox.ReasonStopped {
					t.Errorf("%+v, %v, the process %+v", status, err, b.status)
				}
			} else if err := h.Await(t.Context(), handle); err != nil { // returns once it was stopped
				t.Fatal(err)
			}
			status, err = h.ObserveAgent(t.Context(), handle)
			want := run.Usage{InputTokens: 1000, OutputTokens: 200, CostUSD: 0.002, Turns: max(says.Usage.Turns, 1)}
			if err != nil || status.Running || status.Outcome != loop.AgentOverBudget || status.Detail != why ||
				status.Usage != want {
				t.Errorf("%+v, %v", status, err)
			}
			if _, err := meter.Start(t.Context(), "r1-1"); err == nil {
				t.Error("its token is still good")
			}
		})
	}
}

// What the gateway counted goes before what the agent says, also where the agent
// was killed; what it refused is told.
func TestGatewayKnowsTheUse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		says    agent.Result
		exit    sandbox.Status
		outcome loop.Outcome
	}{
		"ended well": {
			agent.Result{Outcome: agent.OutcomeCompleted, Usage: run.Usage{InputTokens: 5, CostUSD: 7, Turns: 2}, Model: "m"},
			sandbox.Status{Reason: sandbox.ReasonExited}, loop.AgentCompleted,
		},
		"killed": {
			agent.Result{Outcome: agent.OutcomeEmpty},
			sandbox.Status{Reason: sandbox.ReasonWallTimeout, ExitCode: 137, Signal: "SIGKILL"}, loop.AgentTimedOut,
		},
		"out of room": {
			agent.Result{Outcome: agent.OutcomeEmpty}, sandbox.Status{Reason: sandbox.ReasonLost, OOMKilled: true},
			loop.AgentGaveUp,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, b, meter, handle := metered(t, tt.says)
			use(t, meter, 1000, 200)
			use(t, meter, 1000, 0)
			if err := meter.Refuse(t.Context(), "r1-1", spend.Refusal{Reason: "no such path"}); err != nil {
				t.Fatal(err)
			}
			b.end(tt.exit)
			got, err := h.ObserveAgent(t.Context(), handle)
			want := run.Usage{InputTokens: 2000, OutputTokens: 200, CostUSD: 0.003, Turns: 2}
			if err != nil || got.Outcome != tt.outcome || got.Usage != want ||
				!strings.HasSuffix(got.Detail, "the gateway refused: no such path") {
				t.Errorf("%+v, %v", got, err)
			}
			if model := map[bool]string{true: "m", false: "claude-haiku-4-5"}[tt.says.Model != ""]; got.Model != model {
				t.Errorf("model %q, want %q", got.Model, model)
			}
		})
	}
}

// What the gateway refuses each time is no wait, and no task's failure.
func TestGatewayRefusesAllOfIt(t *testing.T) {
	t.Parallel()
	h, b, meter, handle := metered(t, agent.Result{Outcome: agent.OutcomeErrored, Error: "API Error: 400 no"})
	if err := meter.Refuse(t.Context(), "r1-1", spend.Refusal{Reason: "the model \"x\" is not allowed here"}); err != nil {
		t.Fatal(err)
	}
	b.end(sandbox.Status{Reason: sandbox.ReasonExited, ExitCode: 1})
	got, err := h.ObserveAgent(t.Context(), handle)
	if err != nil || got.Outcome != loop.AgentBroken || !got.Lasts || got.DoFirst == "" ||
		!strings.HasSuffix(got.Detail, `the gateway refused: the model "x" is not allowed here`) {
		t.Errorf("%+v, %v", got, err)
	}
}
