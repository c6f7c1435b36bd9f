package spend_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
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

func TestAdmission(t *testing.T) {
	t.Parallel()
	m := spend.NewMeter(spendtest.Open(t, t.TempDir()), prices())
	limited := spend.Start{Name: "r1-1", Scopes: []spend.Scope{spend.RunScope("r1", 1000)}}
	free := spend.Start{Name: "r2-1", Scopes: []spend.Scope{spend.RunScope("r2", 0)}}
	for _, s := range []spend.Start{limited, free} {
		if err := m.Begin(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Admit(t.Context(), limited, spend.Request{Model: "other"}); err == nil ||
		!strings.Contains(err.Error(), `model "other"`) {
		t.Errorf("a model without a price under a budget: %v", err)
	}
	a, err := m.Admit(t.Context(), free, spend.Request{Model: "other", Input: 10, Output: 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context(), spend.Use{Tokens: spend.Tokens{Input: 9, Output: 3}}); err != nil {
		t.Fatal(err)
	}
	got, err := m.Report(t.Context(), "r2-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(run.Usage{InputTokens: 9, OutputTokens: 3, Turns: 1}, got.Usage()); diff != "" {
		t.Error(diff)
	}
	if a, err = m.Admit(t.Context(), limited, spend.Request{Model: "m", Input: 100, Output: 400}); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context(), spend.Use{Tokens: spend.Tokens{Input: 100, Output: 50, CacheRead: 10}}); err != nil {
		t.Fatal(err)
	}
	_, err = m.Admit(t.Context(), limited, spend.Request{Model: "m", Input: 800})
	over, ok := errors.AsType[*spend.OverError](err)
	if !ok || over.Spent != 210 || over.Worst != 800 || !strings.Contains(err.Error(), "budget exhausted") {
		t.Errorf("%v", err)
	}
	if exhausted, err := m.Exhausted(t.Context(), "r1-1"); err != nil || exhausted {
		t.Errorf("exhausted %t, %v before the refusal was noted", exhausted, err)
	}
	if err := m.Refuse(t.Context(), "r1-1", spend.Refusal{Reason: over.Error(), Budget: true}); err != nil {
		t.Fatal(err)
	}
	if a, err = m.Admit(t.Context(), limited, spend.Request{Model: "m", Input: 700}); err != nil {
		t.Fatalf("a smaller request: %v", err)
	}
	if exhausted, err := m.Exhausted(t.Context(), "r1-1"); err != nil || exhausted {
		t.Errorf("exhausted %t, %v with a request under way", exhausted, err)
	}
	if err := a.SettleCut(t.Context(), spend.Use{}); err != nil {
		t.Fatal(err)
	}
	if exhausted, err := m.Exhausted(t.Context(), "r1-1"); err != nil || !exhausted {
		t.Errorf("exhausted %t, %v", exhausted, err)
	}
	if err := m.End(t.Context(), "r1-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Admit(t.Context(), limited, spend.Request{Model: "m"}); !errors.Is(err, spend.ErrUnknownStart) {
		t.Errorf("a start that has ended: %v", err)
	}
}

// An agent chooses what it is refused for.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	m := spend.NewMeter(spendtest.Open(t, t.TempDir()), prices())
	if err := m.Begin(t.Context(), spend.Start{Name: "r1-1"}); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := m.Refuse(t.Context(), "r1-1", spend.Refusal{Reason: strings.Repeat("x", i)}); err != nil {
			t.Fatal(err)
		}
	}
	// So are amounts and the names of models, which it chooses too.
	for i := range 1000 {
		reason := "money"
		if i > 0 {
			reason = fmt.Sprintf("money %d%s", i, strings.Repeat("y", 100_000))
		}
		if err := m.Refuse(t.Context(), "r1-1", spend.Refusal{Reason: reason, Budget: true}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := m.Report(t.Context(), "r1-1")
	if err != nil {
		t.Fatal(err)
	}
	if reason, over := r.OverBudget(); len(r.Refused) != 40 || !over || reason != "money" {
		t.Errorf("%d refusals, over budget %t: %q", len(r.Refused), over, reason)
	}
	for _, refused := range r.Refused {
		if len(refused.Reason) > 2100 {
			t.Errorf("a reason of %d bytes", len(refused.Reason))
		}
	}
}

// A request that does not fit beside another that is under way waits for what
// that leaves; one that cannot fit is refused at once.
func TestWaitsForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	m := spend.NewMeter(spendtest.Open(t, t.TempDir()), prices())
	s := spend.Start{Name: "r1-1", Scopes: []spend.Scope{spend.RunScope("r1", 1000)}}
	if err := m.Begin(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	first, err := m.Admit(t.Context(), s, spend.Request{Model: "m", Input: 900})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Admit(t.Context(), s, spend.Request{Model: "m", Input: 1001}); err == nil {
		t.Error("admitted more than the budget")
	}
	done := make(chan error, 1)
	go func() {
		_, err := m.Admit(t.Context(), s, spend.Request{Model: "m", Input: 950})
		done <- err
	}()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := m.Admit(ctx, s, spend.Request{Model: "m", Input: 999})
		gone <- err
	}()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("a client that went away: %v", err)
	}
	select {
	case err := <-done:
		t.Fatalf("did not wait: %v", err)
	default:
	}
	if err := first.Settle(t.Context(), spend.Use{Tokens: spend.Tokens{Input: 50}}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Whatever runs at the same time, whatever it turns out to cost, and however
// often the process is killed: what was charged never exceeds the budget, and
// never falls short of what was used.
func TestBudgetIsNeverExceeded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		limit := spend.USD(rapid.Int64Range(1, 5000).Draw(rt, "limit"))
		dir := t.TempDir()
		s := spend.Start{
			Name: "r1-1", Scopes: []spend.Scope{spend.RunScope("r1", limit), spend.TaskScope("r1", "T1", limit/2)},
		}
		var used int64
		var mu sync.Mutex
		for range rapid.IntRange(1, 3).Draw(rt, "lives") {
			l := spendtest.Open(rt, dir)
			m := spend.NewMeter(l, prices())
			if err := m.Begin(rt.Context(), s); err != nil {
				rt.Fatal(err)
			}
			within := func() {
				for _, scope := range s.Scopes {
					spent, err := l.Spent(rt.Context(), scope.Key)
					if err != nil || scope.Limit > 0 && spent > scope.Limit {
						t.Errorf("%s: spent %d of %d, %v", scope.Key, spent, scope.Limit, err)
					}
				}
			}
			type request struct {
				input, output, realIn, realOut int64
				fate                           int
			}
			requests := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) request {
				r := request{input: rapid.Int64Range(0, 800).Draw(rt, "in"), output: rapid.Int64Range(0, 800).Draw(rt, "out")}
				r.realIn, r.realOut = rapid.Int64Range(0, r.input).Draw(rt, "real in"),
					rapid.Int64Range(0, r.output).Draw(rt, "real out")
				r.fate = rapid.IntRange(0, 9).Draw(rt, "fate")
				return r
			}), 1, 20).Draw(rt, "requests")
			// A request of a process that was killed is never settled: it is waited
			// for by nobody after that.
			ctx, kill := context.WithCancel(rt.Context())
			var wg sync.WaitGroup
			for _, r := range requests {
				wg.Go(func() {
					a, err := m.Admit(ctx, s, spend.Request{Model: "m", Input: r.input, Output: r.output})
					if err != nil {
						return
					}
					within()
					mu.Lock()
					used += r.realIn + 2*r.realOut
					mu.Unlock()
					switch r.fate {
					case 0: // the process is killed
						kill()
						return
					case 1:
						err = a.SettleCut(rt.Context(), spend.Use{})
					default:
						err = a.Settle(rt.Context(), spend.Use{Tokens: spend.Tokens{Input: r.realIn, Output: r.realOut}})
					}
					if err != nil {
						t.Error(err)
					}
					within()
				})
			}
			wg.Wait()
			kill()
			spent, err := l.Spent(rt.Context(), "run:r1")
			if err != nil || spent < spend.USD(used) {
				rt.Errorf("charged %d of %d that were used, %v", spent, used, err)
			}
		}
	})
}

func TestLongPromptsAndCaches(t *testing.T) {
	t.Parallel()
	list := run.Prices{"m": {Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}}
	tests := []struct {
		name  string
		used  spend.Tokens
		worst spend.Request
		want  float64
	}{
		{
			"all kinds", spend.Tokens{Input: 1000, Output: 100, CacheRead: 10_000, CacheWrite: 2000},
			spend.Request{Input: 13_000, Output: 100}, 0.003 + 0.0015 + 0.003 + 0.0075,
		},
		{"cached for an hour", spend.Tokens{CacheWriteLong: 1000}, spend.Request{Input: 1000, LongCache: true}, 0.006},
		{
			"a long prompt", spend.Tokens{Input: 100_000, CacheRead: 100_001, Output: 1000},
			spend.Request{Input: 200_001, Output: 1000}, 0.6 + 0.0600006 + 0.0225,
		},
		{"nothing", spend.Tokens{}, spend.Request{}, 0},
		{"less than nothing", spend.Tokens{Input: -5, Output: -5}, spend.Request{Input: -5, Output: -5}, 0},
	}
	for _, tt := range tests {
		m := spend.NewMeter(spendtest.Open(t, t.TempDir()), list)
		s := spend.Start{Name: "r1-1"}
		if err := m.Begin(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		tt.worst.Model = "m"
		a, err := m.Admit(t.Context(), s, tt.worst)
		if err != nil {
			t.Fatal(err)
		}
		before, err := m.Report(t.Context(), "r1-1")
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Settle(t.Context(), spend.Use{Tokens: tt.used}); err != nil {
			t.Fatal(err)
		}
		after, err := m.Report(t.Context(), "r1-1")
		if err != nil {
			t.Fatal(err)
		}
		worst, got := before.Models[0].Cost, after.Models[0].Cost
		if want := spend.Dollars(tt.want); got != want || worst < got {
			t.Errorf("%s: cost %d, want %d, of at most %d", tt.name, got, want, worst)
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

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"claude-sonnet-*", "claude-sonnet-4-5", true},
		{"claude-sonnet-*", "claude-opus-4-5", false},
		{"gpt-5", "gpt-5", true},
		{"gpt-5", "gpt-5-pro", false},
		{"*", "anything", true},
		{"", "", true},
	} {
		if got := spend.Match(tt.pattern, tt.name); got != tt.want {
			t.Errorf("%q fits %q: %t", tt.name, tt.pattern, got)
		}
	}
}
