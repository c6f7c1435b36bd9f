package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/run"
)

// openSpend opens the ledger in a database. Opening it again is what the next process
// does: the first may have been killed, so that it is not closed before.
func openSpend(t *testing.T, name string) spend.Ledger {
	t.Helper()
	s, err := Open(t.Context(), name)
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

func TestSpend(t *testing.T) {
	t.Parallel()
	id := run.ID("r1")
	start := func(name string, limit spend.USD, more ...spend.Scope) spend.Start {
		return spend.Start{Name: name, Scopes: append([]spend.Scope{spend.RunScope(id, limit)}, more...)}
	}
	begin := func(t *testing.T, l spend.Ledger, starts ...spend.Start) {
		t.Helper()
		for _, s := range starts {
			if err := l.Begin(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	admit := func(t *testing.T, l spend.Ledger, name string) int64 {
		t.Helper()
		got, err := l.Admit(t.Context(), name, "m")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	settle := func(t *testing.T, l spend.Ledger, id int64, cost spend.USD) {
		t.Helper()
		if err := l.Settle(t.Context(), id, spend.Charge{Tokens: spend.Tokens{Output: int64(cost)}, Cost: cost}); err != nil {
			t.Fatal(err)
		}
	}
	refuses := func(t *testing.T, l spend.Ledger, name string, want spend.Scope, spent spend.USD) {
		t.Helper()
		_, err := l.Admit(t.Context(), name, "m")
		over, ok := errors.AsType[*spend.OverError](err)
		if !ok || over.Spent != spent || over.Scope != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	spent := func(t *testing.T, l spend.Ledger, key string, want spend.USD) {
		t.Helper()
		if got, err := l.Spent(t.Context(), key); err != nil || got != want {
			t.Errorf("%s: spent %d, %v, want %d", key, got, err, want)
		}
	}

	t.Run("a start is found until it ends", func(t *testing.T) {
		l := openSpend(t, filepath.Join(t.TempDir(), "ralph.db"))
		want := start("r1-1", 1000, spend.TaskScope(id, "T1", 500))
		want.Hosts = []string{"preset:npm", "*.host.example"}
		begin(t, l, want)
		if got, err := l.Start(t.Context(), "r1-1"); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := l.Start(t.Context(), "r1-2"); !errors.Is(err, spend.ErrUnknownStart) {
			t.Errorf("a start that was never begun: %v", err)
		}
		open := admit(t, l, "r1-1")
		for range 2 {
			if err := l.End(t.Context(), "r1-1"); err != nil {
				t.Fatal(err)
			}
		}
		begin(t, l, want) // too late
		if _, err := l.Start(t.Context(), "r1-1"); !errors.Is(err, spend.ErrUnknownStart) {
			t.Errorf("a start that has ended: %v", err)
		}
		if _, err := l.Admit(t.Context(), "r1-1", "m"); !errors.Is(err, spend.ErrUnknownStart) {
			t.Errorf("a request of a start that has ended: %v", err)
		}
		if err := l.Settle(t.Context(), open, spend.Charge{Cost: 7}); err != nil {
			t.Error(err)
		}
		spent(t, l, "run:r1", 7)
	})

	t.Run("beginning again changes nothing", func(t *testing.T) {
		l := openSpend(t, filepath.Join(t.TempDir(), "ralph.db"))
		begin(t, l, start("r1-1", 1000), start("r1-1", 5))
		admit(t, l, "r1-1")
	})

	t.Run("what is under way counts as the run's requests did on average", func(t *testing.T) {
		l := openSpend(t, filepath.Join(t.TempDir(), "ralph.db"))
		begin(t, l, start("r1-1", 1000, spend.TaskScope(id, "T1", 0)))
		first := admit(t, l, "r1-1")
		spent(t, l, "run:r1", 0)
		settle(t, l, first, 9)
		settle(t, l, first, 400) // the last word counts
		second, third := admit(t, l, "r1-1"), admit(t, l, "r1-1")
		spent(t, l, "run:r1", 1200)
		spent(t, l, "task:r1/T1", 1200)
		refuses(t, l, "r1-1", spend.RunScope(id, 1000), 1200)
		settle(t, l, second, 100)
		admit(t, l, "r1-1")
		got, err := l.Report(t.Context(), "r1-1")
		want := spend.Report{
			Models: []spend.ModelUse{
				{Model: "m", Requests: 4, Open: 2, Tokens: spend.Tokens{Output: 500}, Cost: 1200},
			},
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("report: %v\n%s", err, diff)
		}
		if err := l.Settle(t.Context(), third+100, spend.Charge{}); err == nil {
			t.Error("a request that nobody made was settled")
		}
	})

	t.Run("every limit holds, and none is charged for another's refusal", func(t *testing.T) {
		l := openSpend(t, filepath.Join(t.TempDir(), "ralph.db"))
		day, task := spend.DayScope("R_1", "2026-03-01", 800), spend.TaskScope(id, "T1", 400)
		begin(t, l, start("r1-1", 0, task, day),
			start("r1-2", 0, spend.TaskScope(id, "T2", 500), day), start("r1-3", 0, spend.TaskScope(id, "T3", 0), day))
		settle(t, l, admit(t, l, "r1-1"), 400)
		refuses(t, l, "r1-1", task, 400)
		settle(t, l, admit(t, l, "r1-2"), 400)
		refuses(t, l, "r1-3", day, 800)
		spent(t, l, "task:r1/T3", 0)
		spent(t, l, "run:r1", 800)
		spent(t, l, day.Key, 800)
	})

	t.Run("refusals are kept once each", func(t *testing.T) {
		l := openSpend(t, filepath.Join(t.TempDir(), "ralph.db"))
		begin(t, l, start("r1-1", 0))
		want := []spend.Refusal{{Reason: "b"}, {Reason: "a", Budget: true}}
		for _, r := range append(want, want...) {
			if err := l.Refuse(t.Context(), "r1-1", r); err != nil {
				t.Fatal(err)
			}
		}
		got, err := l.Report(t.Context(), "r1-1")
		if diff := cmp.Diff(spend.Report{Refused: want}, got); diff != "" || err != nil {
			t.Errorf("report: %v\n%s", err, diff)
		}
		if err := l.Refuse(t.Context(), "r1-9", want[0]); !errors.Is(err, spend.ErrUnknownStart) {
			t.Errorf("a refusal of nobody: %v", err)
		}
	})

	t.Run("hosts are kept with their last figures, once for each reason", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "ralph.db")
		l := openSpend(t, dir)
		begin(t, l, start("r1-1", 0), start("r1-2", 0))
		if err := l.End(t.Context(), "r1-1"); err != nil {
			t.Fatal(err) // what it did may be known later
		}
		want := []run.HostUse{
			{Host: "b.example", Count: 3, Sent: 1 << 40, Received: 9},
			{Host: "a.example", Blocked: "why", Count: 1},
			{Host: "b.example", Blocked: "why", Count: 2},
		}
		for _, u := range append([]run.HostUse{{Host: "b.example", Count: 1, Sent: 5}, want[1], want[2]}, want...) {
			if err := l.Reach(t.Context(), "r1-1", u); err != nil {
				t.Fatal(err)
			}
		}
		for _, l := range []spend.Ledger{l, openSpend(t, dir)} {
			got, err := l.Report(t.Context(), "r1-1")
			if diff := cmp.Diff(spend.Report{Hosts: want}, got); diff != "" || err != nil {
				t.Errorf("report: %v\n%s", err, diff)
			}
			if got, err := l.Report(t.Context(), "r1-2"); err != nil || len(got.Hosts) != 0 {
				t.Errorf("another start's: %+v, %v", got, err)
			}
			if err := l.Reach(t.Context(), "r1-9", want[0]); !errors.Is(err, spend.ErrUnknownStart) {
				t.Errorf("a host of nobody: %v", err)
			}
		}
	})

	t.Run("what was under way when the process was killed goes on counting", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "ralph.db")
		l := openSpend(t, dir)
		begin(t, l, start("r1-1", 1000))
		settle(t, l, admit(t, l, "r1-1"), 50)
		under := admit(t, l, "r1-1")
		next := openSpend(t, dir)
		spent(t, next, "run:r1", 100)
		if _, err := next.Start(t.Context(), "r1-1"); err != nil {
			t.Error(err)
		}
		settle(t, next, under, 60)
		spent(t, next, "run:r1", 110)
	})

	t.Run("many at once", func(t *testing.T) {
		l := openSpend(t, filepath.Join(t.TempDir(), "ralph.db"))
		begin(t, l, start("r1-1", 1000))
		settle(t, l, admit(t, l, "r1-1"), 100)
		var wg sync.WaitGroup
		var mu sync.Mutex
		admitted := 0
		for i := range 25 {
			wg.Go(func() {
				_, err := l.Admit(t.Context(), "r1-1", fmt.Sprintf("m%d", i%3))
				if _, over := errors.AsType[*spend.OverError](err); err != nil && !over {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					admitted++
				}
			})
		}
		wg.Wait()
		if admitted != 9 {
			t.Errorf("%d requests of 100 were admitted beside one, under a limit of 1000", admitted)
		}
		spent(t, l, "run:r1", 1000)
	})
}
