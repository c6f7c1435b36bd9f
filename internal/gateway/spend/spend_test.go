package spend_test

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/gateway/spend/spendtest"
	"github.com/org/ralph-action/internal/run"
)

// Properties are tried on the same values each time; `make seeds` draws others.
var _ = flag.Set("rapid.seed", "1")

// prices make a token of input cost a billionth of a dollar and one of output
// two.
func prices() run.Prices {
	return run.Prices{"m": {Input: 0.001, Output: 0.002, CacheRead: 0.001, CacheWrite: 0.001}}
}

// begin opens a meter over the ledger in a directory, and starts in it.
func begin(t *testing.T, dir string, starts ...spend.Start) *spend.Meter {
	t.Helper()
	m := spend.NewMeter(spendtest.Open(t, dir), prices())
	for _, s := range starts {
		if err := m.Begin(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	limited := spend.Start{Name: "r1-1", Scopes: []spend.Scope{spend.RunScope("r1", 1000), spend.TaskScope("r1", "T1", 0)}}
	free := spend.Start{Name: "r2-1", Scopes: []spend.Scope{spend.RunScope("r2", 0)}}
	m := begin(t, t.TempDir(), limited, free)
	if _, _, err := m.Admit(t.Context(), limited, spend.Request{Model: "other"}); err == nil ||
		!strings.Contains(err.Error(), `model "other"`) {
		t.Errorf("a model without a price under a budget: %v", err)
	}
	// Under a budget or not, of a known price or not: what was used is written down.
	for _, r := range []struct {
		start spend.Start
		model string
		used  spend.Tokens
	}{
		{free, "other", spend.Tokens{Input: 9, Output: 3}},
		{free, "other", spend.Tokens{}}, // failed, and leaves no trace
		{limited, "m", spend.Tokens{Input: 100, Output: 50, CacheRead: 10}},
	} {
		a, _, err := m.Admit(t.Context(), r.start, spend.Request{Model: r.model, Input: 100, Output: 400})
		if err == nil {
			err = a.Settle(t.Context(), r.used)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := m.Report(t.Context(), "r2-1")
	if diff := cmp.Diff(run.Usage{InputTokens: 9, OutputTokens: 3, Turns: 1}, got.Usage()); diff != "" || err != nil {
		t.Error(diff, err)
	}
	under, _, err := m.Admit(t.Context(), limited, spend.Request{Model: "m", Input: 700, Output: 100})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel() // as where the client has gone
	if err := m.Refuse(gone, "r1-1", spend.Refusal{Reason: strings.Repeat("y", 100_000), Budget: true}); err != nil {
		t.Fatal(err)
	}
	if exhausted, err := m.Exhausted(t.Context(), "r1-1"); err != nil || exhausted {
		t.Errorf("exhausted %t, %v with a request under way", exhausted, err)
	}
	if err := under.SettleCut(gone, spend.Tokens{}); err != nil {
		t.Fatal(err)
	}
	if exhausted, err := m.Exhausted(t.Context(), "r1-1"); err != nil || !exhausted {
		t.Errorf("exhausted %t, %v", exhausted, err)
	}
	_, _, err = m.Admit(t.Context(), limited, spend.Request{Model: "m", Input: 1})
	over, ok := errors.AsType[*spend.OverError](err)
	if !ok || over.Spent != 1110 || over.Scope != limited.Scopes[0] || !strings.Contains(err.Error(), "budget exhausted") {
		t.Errorf("%v", err)
	}
	if r, err := m.Report(t.Context(), "r1-1"); err != nil || len(r.Refused) != 1 || len(r.Refused[0].Reason) > 2100 {
		t.Errorf("%+v, %v", r.Refused, err)
	}
}

// Whatever runs at the same time, whatever it turns out to cost, and however often the process
// is killed: a budget lets nothing through once it is used up, and is overrun by no more than
// what was under way then. What is known to be used is charged.
func TestBudgetStopsTheRun(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		limit := spend.USD(rapid.Int64Range(1, 5000).Draw(rt, "limit"))
		dir := t.TempDir()
		s := spend.Start{Name: "r1-1", Scopes: []spend.Scope{spend.RunScope("r1", limit)}}
		var used, under, most int64 // of all requests, of those under way, and of all of those at once
		for range rapid.IntRange(1, 3).Draw(rt, "lives") {
			l := spendtest.Open(rt, dir)
			m := spend.NewMeter(l, prices())
			if err := m.Begin(rt.Context(), s); err != nil {
				rt.Fatal(err)
			}
			type request struct {
				*spend.Admission
				cost int64
			}
			var open []request
			for range rapid.IntRange(1, 20).Draw(rt, "steps") {
				if len(open) > 0 && rapid.Bool().Draw(rt, "an answer comes") {
					r := open[0]
					open = open[1:]
					var err error
					if rapid.Bool().Draw(rt, "and breaks off") {
						err = r.SettleCut(rt.Context(), spend.Tokens{})
					} else {
						err = r.Settle(rt.Context(), spend.Tokens{Input: r.cost})
					}
					if err != nil {
						rt.Fatal(err)
					}
					used, under = used+r.cost, under-r.cost
					continue
				}
				before, err := l.Spent(rt.Context(), "run:r1")
				if err != nil {
					rt.Fatal(err)
				}
				cost := rapid.Int64Range(0, 800).Draw(rt, "cost")
				a, _, err := m.Admit(rt.Context(), s, spend.Request{Model: "m", Input: cost})
				if _, over := errors.AsType[*spend.OverError](err); over != (before >= limit) || err != nil && !over {
					rt.Fatalf("with %d of %d spent: %v", before, limit, err)
				}
				if err == nil {
					open = append(open, request{a, cost})
					under += cost
					most = max(most, under)
				}
			}
			spent, err := l.Spent(rt.Context(), "run:r1")
			if err != nil || spent < spend.USD(used) {
				rt.Errorf("charged %d of %d that were used, %v", spent, used, err)
			}
			if used > int64(limit)+most {
				rt.Errorf("used %d of %d, with at most %d under way", used, limit, most)
			}
			under = 0 // the process is killed
		}
	})
}

func TestCostOf(t *testing.T) {
	t.Parallel()
	price := run.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}
	for _, tt := range []struct {
		used spend.Tokens
		want float64
	}{
		{spend.Tokens{Input: 1000, Output: 100, CacheRead: 10_000, CacheWrite: 2000}, 0.003 + 0.0015 + 0.003 + 0.0075},
		{spend.Tokens{CacheWriteLong: 1000}, 0.006},
		{spend.Tokens{Input: 100_000, CacheRead: 100_001, Output: 1000}, 0.6 + 0.0600006 + 0.0225}, // long
		{spend.Tokens{}, 0},
		{spend.Tokens{Input: -5, Output: -5}, 0},
	} {
		if got, want := spend.CostOf(price, tt.used), spend.Dollars(tt.want); got != want {
			t.Errorf("%+v: cost %d, want %d", tt.used, got, want)
		}
	}
}

func TestUSD(t *testing.T) {
	t.Parallel()
	for amount, want := range map[spend.USD]string{
		0: "$0.00", spend.Dollars(1.5): "$1.50", spend.Dollars(0.0042): "$0.0042", spend.Dollars(0.7): "$0.70",
	} {
		if got := amount.String(); got != want {
			t.Errorf("%d is %s, want %s", amount, got, want)
		}
	}
	if spend.Dollars(0.1) != 100_000_000 || spend.Dollars(2).Dollars() != 2 {
		t.Error("dollars are not what they were")
	}
}

func TestOverTask(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scope spend.Scope
		want  bool
	}{
		"task":  {spend.TaskScope("r1", "T1", spend.Dollars(1)), true},
		"run":   {spend.RunScope("r1", spend.Dollars(1)), false},
		"issue": {spend.IssueScope("I_1", spend.Dollars(1)), false},
	} {
		err := &spend.OverError{Scope: tc.scope, Spent: spend.Dollars(2)}
		r := spend.Report{Refused: []spend.Refusal{{Reason: "other"}, {Reason: err.Error(), Budget: true}}}
		if got := r.OverTask(); got != tc.want {
			t.Errorf("%s: %v for %q", name, got, err)
		}
	}
	if (spend.Report{}).OverTask() {
		t.Error("nothing was refused")
	}
}

// A host is in the report before it is reached, and what went over a connection once that
// ends, which it does with the start.
func TestPassages(t *testing.T) {
	t.Parallel()
	m := begin(t, t.TempDir(), spend.Start{Name: "r1-1"})
	hosts := func(want ...run.HostUse) {
		t.Helper()
		r, err := m.Report(t.Context(), "r1-1")
		if diff := cmp.Diff(want, r.Hosts); diff != "" || err != nil {
			t.Error(diff, err)
		}
	}
	gone, cancel := context.WithCancelCause(t.Context())
	p, open, err := m.Pass(t.Context(), "r1-1", "a.example")
	if err != nil {
		t.Fatal(err)
	}
	hosts(run.HostUse{Host: "a.example", Count: 1})
	enough := errors.New("enough")
	context.AfterFunc(open, func() { cancel(enough) }) // End waits for the connection
	if err := m.End(gone, "r1-1"); !errors.Is(err, enough) {
		t.Errorf("a connection that nobody closes: %v", err)
	}
	p.Close(gone, 3, 4)
	if err := m.End(t.Context(), "r1-1"); err != nil {
		t.Fatal(err)
	}
	if err := m.Block(gone, "r1-1", "b.example", "why"); err != nil {
		t.Fatal(err)
	}
	hosts(run.HostUse{Host: "a.example", Count: 1, Sent: 3, Received: 4}, run.HostUse{Host: "b.example", Blocked: "why", Count: 1})
	if _, _, err := m.Pass(t.Context(), "r1-1", "a.example"); !errors.Is(err, spend.ErrUnknownStart) {
		t.Errorf("after the end: %v", err)
	}
}

// full is a ledger that cannot be written for a time.
type full struct {
	spend.Ledger
	err error
}

func (f *full) Charge(ctx context.Context, start string, c spend.Charge) error {
	if f.err != nil {
		return f.err
	}
	return f.Ledger.Charge(ctx, start, c)
}

// A charge that cannot be written is not lost: until it is, nothing passes under a budget.
func TestChargesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	limited := spend.Start{Name: "r1-1", Scopes: []spend.Scope{spend.RunScope("r1", 1000)}}
	free := spend.Start{Name: "r2-1", Scopes: []spend.Scope{spend.RunScope("r2", 0)}}
	ledger := &full{Ledger: spendtest.Open(t, t.TempDir())}
	m := spend.NewMeter(ledger, prices())
	logged := 0
	m.Log = func(error) { logged++ }
	gone := spend.Start{Name: "r3-1"}
	for _, s := range []spend.Start{limited, free} {
		if err := m.Begin(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	admit := func(s spend.Start) (*spend.Admission, error) {
		a, _, err := m.Admit(t.Context(), s, spend.Request{Model: "m", Input: 600})
		return a, err
	}
	var open []*spend.Admission
	for _, s := range []spend.Start{limited, limited, free} {
		a, err := admit(s)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, a)
	}
	if _, err := admit(gone); !errors.Is(err, spend.ErrUnknownStart) {
		t.Errorf("a start that is not known: %v", err)
	}
	ledger.err = errors.New("database or disk is full")
	for _, a := range open {
		if err := a.SettleCut(t.Context(), spend.Tokens{}); !errors.Is(err, ledger.err) {
			t.Error(err)
		}
	}
	if _, err := admit(limited); !errors.Is(err, ledger.err) || logged != 1 {
		t.Errorf("under a budget: %v; logged %d times", err, logged)
	}
	if a, err := admit(free); err != nil {
		t.Error(err)
	} else if err := a.Settle(t.Context(), spend.Tokens{}); err != nil {
		t.Error(err)
	}
	if err := m.End(t.Context(), "r2-1"); !errors.Is(err, ledger.err) {
		t.Errorf("the end: %v", err)
	}
	if err := m.Close(t.Context()); !errors.Is(err, ledger.err) || !strings.Contains(err.Error(), "lost, which could not be written: 3:") {
		t.Errorf("the close: %v", err)
	}
	ledger.err = nil
	if _, err := admit(limited); err == nil || !strings.Contains(err.Error(), "budget exhausted") {
		t.Errorf("once it can be written: %v", err)
	}
	for name, want := range map[string]int64{"r1-1": 1200, "r2-1": 600} {
		if r, err := m.Report(t.Context(), name); err != nil || r.Usage().InputTokens != want {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// What is owed is written at the close. Without a budget it is so much at most.
func TestWhatIsOwedIsBounded(t *testing.T) {
	t.Parallel()
	const many, most = 5000, 4096
	limited := spend.Start{Name: "r1-1", Scopes: []spend.Scope{spend.RunScope("r1", 1000)}}
	free := spend.Start{Name: "r2-1", Scopes: []spend.Scope{spend.RunScope("r2", 0)}}
	ledger := &count{Ledger: spendtest.Open(t, t.TempDir()), charged: map[string]int{}}
	ledger.err = errors.New("database or disk is full")
	m := spend.NewMeter(ledger, prices())
	for _, s := range []spend.Start{limited, free} {
		if err := m.Begin(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	last, _, err := m.Admit(t.Context(), limited, spend.Request{Model: "m", Input: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range many {
		a, _, err := m.Admit(t.Context(), free, spend.Request{Model: "m", Input: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.SettleCut(t.Context(), spend.Tokens{}); !errors.Is(err, ledger.err) {
			t.Fatal(err)
		}
	}
	if err := last.SettleCut(t.Context(), spend.Tokens{}); !errors.Is(err, ledger.err) {
		t.Fatal(err)
	}
	ledger.err = nil
	gone, cancel := context.WithCancel(t.Context())
	cancel() // as where the time to stop is over
	if err := m.Close(gone); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"r1-1": 1, "r2-1": most}, ledger.charged); diff != "" {
		t.Errorf("charged (-want +got)\n%s", diff)
	}
}

// count is a ledger that counts charges, and cannot be written for a time.
type count struct {
	spend.Ledger
	err     error
	charged map[string]int
}

func (c *count) Charge(_ context.Context, start string, _ spend.Charge) error {
	if c.err == nil {
		c.charged[start]++
	}
	return c.err
}
