package spend_test

import (
	"errors"
	"flag"
	"fmt"
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
	under, err := m.Admit(t.Context(), limited, spend.Request{Model: "m", Input: 700, Output: 100})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Refuse(t.Context(), "r1-1", spend.Refusal{Reason: "no money", Budget: true}); err != nil {
		t.Fatal(err)
	}
	if exhausted, err := m.Exhausted(t.Context(), "r1-1"); err != nil || exhausted {
		t.Errorf("exhausted %t, %v with a request under way", exhausted, err)
	}
	if err := under.SettleCut(t.Context(), spend.Use{}); err != nil {
		t.Fatal(err)
	}
	if exhausted, err := m.Exhausted(t.Context(), "r1-1"); err != nil || !exhausted {
		t.Errorf("exhausted %t, %v", exhausted, err)
	}
	_, err = m.Admit(t.Context(), limited, spend.Request{Model: "m", Input: 1})
	over, ok := errors.AsType[*spend.OverError](err)
	if !ok || over.Spent != 1110 || !strings.Contains(err.Error(), "budget exhausted") {
		t.Errorf("%v", err)
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

// Whatever runs at the same time, whatever it turns out to cost, and however often the process
// is killed: a budget lets nothing through once it is used up, is overrun by no more than what
// was under way then, and what was charged never falls short of what is known to be used.
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
						err = r.SettleCut(rt.Context(), spend.Use{})
					} else {
						err = r.Settle(rt.Context(), spend.Use{Tokens: spend.Tokens{Input: r.cost}})
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
				a, err := m.Admit(rt.Context(), s, spend.Request{Model: "m", Input: cost})
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

func TestLongPromptsAndCaches(t *testing.T) {
	t.Parallel()
	list := run.Prices{"m": {Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}}
	for _, tt := range []struct {
		name string
		used spend.Tokens
		want float64
	}{
		{
			"all kinds", spend.Tokens{Input: 1000, Output: 100, CacheRead: 10_000, CacheWrite: 2000},
			0.003 + 0.0015 + 0.003 + 0.0075,
		},
		{"cached for an hour", spend.Tokens{CacheWriteLong: 1000}, 0.006},
		{"a long prompt", spend.Tokens{Input: 100_000, CacheRead: 100_001, Output: 1000}, 0.6 + 0.0600006 + 0.0225},
		{"nothing", spend.Tokens{}, 0},
		{"less than nothing", spend.Tokens{Input: -5, Output: -5}, 0},
	} {
		m := spend.NewMeter(spendtest.Open(t, t.TempDir()), list)
		s := spend.Start{Name: "r1-1"}
		if err := m.Begin(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		a, err := m.Admit(t.Context(), s, spend.Request{Model: "m"})
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
		if got, want := after.Models[0].Cost, spend.Dollars(tt.want); got != want {
			t.Errorf("%s: cost %d, want %d", tt.name, got, want)
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
