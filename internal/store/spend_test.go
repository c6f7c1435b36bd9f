package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/run"
)

// TestSpend: what starts used and were refused, to the next process, which takes over after
// the first one was killed.
func TestSpend(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ralph.db")
	open := func() spend.Ledger {
		s, err := Open(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s.Spend()
	}
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	l, ctx := open(), t.Context()
	task, day := spend.TaskScope("r1", "T1", 500), spend.DayScope("R_1", "2026-03-01", 0)
	one := spend.Start{
		Name: "r1-1", Scopes: []spend.Scope{spend.RunScope("r1", 1000), task, day}, Hosts: []string{"preset:npm", "*.host.example"},
	}
	again := one
	again.Hosts = nil // beginning again changes nothing
	must(l.Begin(ctx, one), l.Begin(ctx, again), l.Begin(ctx, spend.Start{Name: "r1-2", Scopes: []spend.Scope{day}}))
	if got, err := l.Start(ctx, "r1-1"); err != nil || !cmp.Equal(got, one) {
		t.Errorf("%+v, %v", got, err)
	}
	tokens := spend.Tokens{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, CacheWriteLong: 5}
	must(l.Charge(ctx, "r1-1", spend.Charge{Model: "m", Tokens: tokens, Cost: 7}))
	l = open()
	must(l.Charge(ctx, "r1-1", spend.Charge{Model: "m", Tokens: tokens, Cost: 7}),
		l.Charge(ctx, "r1-1", spend.Charge{Model: "a", Cost: 1}), l.Charge(ctx, "r1-2", spend.Charge{Model: "m", Cost: 100}))
	for range 2 { // refusals are kept once each
		must(l.Refuse(ctx, "r1-1", spend.Refusal{Reason: "b"}), l.Refuse(ctx, "r1-1", spend.Refusal{Reason: "a", Budget: true}))
	}
	must(l.Reach(ctx, "r1-1", run.HostUse{Host: "h", Count: 1}), l.Reach(ctx, "r1-1", run.HostUse{Host: "h", Blocked: "why", Count: 1}),
		l.Reach(ctx, "r1-1", run.HostUse{Host: "h", Sent: 10, Received: 20}))
	want := spend.Report{
		Models: []spend.ModelUse{
			{Model: "a", Requests: 1, Cost: 1},
			{Model: "m", Requests: 2, Cost: 14, Tokens: spend.Tokens{Input: 2, Output: 4, CacheRead: 6, CacheWrite: 8, CacheWriteLong: 10}},
		},
		Refused: []spend.Refusal{{Reason: "b"}, {Reason: "a", Budget: true}},
		Hosts:   []run.HostUse{{Host: "h", Count: 1, Sent: 10, Received: 20}, {Host: "h", Blocked: "why", Count: 1}},
	}
	got, err := l.Report(ctx, "r1-1")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("report: %v\n%s", err, diff)
	}
	for key, want := range map[string]spend.USD{"run:r1": 15, task.Key: 15, day.Key: 115, "run:r2": 0} {
		if got, err := l.Spent(ctx, key); err != nil || got != want {
			t.Errorf("%s: spent %d, %v, want %d", key, got, err, want)
		}
	}
	must(l.End(ctx, "r1-1"), l.End(ctx, "r1-1"), l.Begin(ctx, one)) // too late
	for _, name := range []string{"r1-1", "r1-3"} {
		if _, err := l.Start(ctx, name); !errors.Is(err, spend.ErrUnknownStart) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(l.Charge(ctx, "r1-1", spend.Charge{Model: "m", Cost: 5})) // what was under way at the end
	if got, err := l.Spent(ctx, "run:r1"); err != nil || got != 20 {
		t.Errorf("after the end: %d, %v", got, err)
	}
	if err := l.Charge(ctx, "r1-3", spend.Charge{Model: "m"}); err == nil {
		t.Error("a start that nobody began was charged")
	}
	// An agent chooses what it asks for.
	for i := range 100 {
		must(l.Reach(ctx, "r1-2", run.HostUse{Host: fmt.Sprint(i), Blocked: "why", Count: 1}),
			l.Refuse(ctx, "r1-2", spend.Refusal{Reason: fmt.Sprint(i)}),
			l.Refuse(ctx, "r1-2", spend.Refusal{Reason: fmt.Sprint(i), Budget: true}))
	}
	got, err = l.Report(ctx, "r1-2")
	if err != nil || len(got.Refused) != 2*spend.MaxRefusals || len(got.Hosts) != spend.MaxHosts+1 {
		t.Fatalf("%d refusals, %d hosts, %v", len(got.Refused), len(got.Hosts), err)
	}
	rest := run.HostUse{Host: run.OtherHosts, Blocked: "why", Count: 100 - spend.MaxHosts}
	if diff := cmp.Diff(rest, got.Hosts[spend.MaxHosts]); diff != "" {
		t.Error(diff)
	}
}
