package store_test

import (
	"testing"
	"time"

	"github.com/org/ralph-action/internal/store"
)

func TestPlaces(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	do := func(f func(tx *store.Tx) error) {
		t.Helper()
		if err := st.InTx(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(process string, now time.Time) {
		t.Helper()
		do(func(tx *store.Tx) error {
			return st.AskPlace(t.Context(), tx, store.Place{Run: "r-1", Process: process, Repo: "R", Owner: "o", Person: "ada",
				CameAt: at, SeenAt: now, Line: 3, Why: "full"})
		})
	}
	only := func() store.Place {
		t.Helper()
		places, _, err := st.Places(t.Context())
		if err != nil || len(places) != 1 {
			t.Fatalf("%v, %v", places, err)
		}
		return places[0]
	}
	free := func(process string) (freed bool) {
		t.Helper()
		do(func(tx *store.Tx) (err error) {
			freed, err = st.FreePlace(t.Context(), tx, process)
			return err
		})
		return freed
	}

	ask("r-1-1", at)
	ask("r-1-1", at.Add(time.Minute))
	if p := only(); !p.AskedAt.Equal(at) || !p.SeenAt.Equal(at.Add(time.Minute)) || !p.GrantedAt.IsZero() || p.Line != 3 {
		t.Errorf("%+v", p)
	}
	do(func(tx *store.Tx) error { return st.GrantPlace(t.Context(), tx, "r-1-1", at, "owner:o") })
	ask("r-1-1", at.Add(time.Hour)) // a start that is repeated keeps its place
	if p := only(); !p.GrantedAt.Equal(at) {
		t.Errorf("%+v", p)
	}
	if _, turns, err := st.Places(t.Context()); err != nil || !turns["owner:o"].Equal(at) {
		t.Errorf("turns %v, %v", turns, err)
	}
	ask("r-1-2", at) // another process of the run waits for its own
	do(func(tx *store.Tx) error {
		if got, err := st.PlacesOf(t.Context(), tx, "r-1"); err != nil || len(got) != 2 {
			t.Errorf("the run has places for %v, %v", got, err)
		}
		return nil
	})
	if free("r-1-2") { // it only waited
		t.Error("a claim counts as a place")
	}
	if !free("r-1-1") || free("r-1-1") {
		t.Error("the place was not freed, or twice")
	}
	ask("r-1-4", at)
	do(func(tx *store.Tx) error { return st.PrunePlaces(t.Context(), tx, at.Add(time.Second)) })
	if places, turns, err := st.Places(t.Context()); err != nil || len(places)+len(turns) != 0 {
		t.Errorf("a run that is not there has %v, turns %v, %v", places, turns, err)
	}
}
