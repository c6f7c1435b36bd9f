package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

func TestPause(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	paused := func(want time.Time) {
		t.Helper()
		if got, err := st.Paused(t.Context()); err != nil || !got.Equal(want) {
			t.Errorf("paused since %v, %v; want %v", got, err, want)
		}
	}
	paused(time.Time{})
	for i := range 2 { // the first word stays
		inTx(t, st, func(tx *store.Tx) error {
			return st.Pause(t.Context(), tx, t0().Add(time.Duration(i)*time.Hour))
		})
		paused(t0())
	}
	inTx(t, st, func(tx *store.Tx) error { return st.Resume(t.Context(), tx) })
	paused(time.Time{})
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	for i, d := range []store.Decision{
		{Repo: "ada/widgets", Issue: 1, Person: "eve", Action: "label", Reason: "permission: triage"},
		{Repo: "ada/widgets", Issue: 1, Person: "ada", Action: "/ralph start", Allowed: true, Reason: "write"},
		{Person: "operator", Action: strings.Repeat("pause\n\x1b[2J", 100), Allowed: true},
	} {
		d.At = t0().Add(time.Duration(i) * time.Hour)
		inTx(t, st, func(tx *store.Tx) error { return st.AddDecision(t.Context(), tx, d) })
	}
	for name, tc := range map[string]struct {
		f    store.DecisionFilter
		want string
	}{
		"all":     {store.DecisionFilter{}, "eve ada operator"},
		"newest":  {store.DecisionFilter{Limit: 2}, "ada operator"},
		"refused": {store.DecisionFilter{Refused: true}, "eve"},
		"person":  {store.DecisionFilter{Person: "EVE"}, "eve"},
		"issue":   {store.DecisionFilter{Repo: "Ada/Widgets", Issue: 1, Since: t0().Add(time.Minute)}, "ada"},
	} {
		got, err := st.Decisions(t.Context(), tc.f)
		if err != nil {
			t.Fatal(err)
		}
		var who []string
		for _, d := range got {
			who = append(who, d.Person)
			if len(d.Action) > 210 || strings.ContainsAny(d.Action, "\n\x1b") {
				t.Errorf("%s: %q", name, d.Action)
			}
		}
		if s := strings.Join(who, " "); s != tc.want {
			t.Errorf("%s: %s, want %s", name, s, tc.want)
		}
	}
	got, err := st.Prune(t.Context(), t0().Add(store.KeepDecisions+time.Minute), nil)
	if err != nil || got != (store.Pruned{Decisions: 1}) {
		t.Errorf("pruned %+v, %v", got, err)
	}
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	createRun(t, st, aRun("r-1", 1))
	for i := range 3 {
		deliver(t, st, store.Delivery{GUID: string(rune('a' + i)), Event: "push", ReceivedAt: t0().Add(time.Duration(i) * time.Minute)},
			time.Time{})
	}
	b, err := st.Backlog(t.Context())
	if err != nil || b.Waiting != 3 || !b.Oldest.Equal(t0()) || b.Runs[run.PhaseQueued] != 1 || b.Bytes == 0 {
		t.Errorf("%+v, %v", b, err)
	}
	for n, want := range map[int]time.Time{1: t0(), 3: t0().Add(2 * time.Minute), 4: {}} {
		if got, err := st.WaitingSince(t.Context(), n); err != nil || !got.Equal(want) {
			t.Errorf("the %dth waits since %v, %v", n, got, err)
		}
	}
}
