package store_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

func deliver(t testing.TB, st *store.Store, d store.Delivery, processed time.Time) {
	t.Helper()
	inTx(t, st, func(tx *store.Tx) error {
		if _, err := st.InsertDelivery(t.Context(), tx, d); err != nil || processed.IsZero() {
			return err
		}
		return st.MarkDelivery(t.Context(), tx, d.GUID, "ignored", processed)
	})
}

// Bodies go first, then the rows; what nobody has dealt with stays.
func TestPruneDeliveries(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	other := func(guid string) store.Delivery {
		return store.Delivery{GUID: guid, Event: "push", RepoNode: "R_1", Body: []byte("{}"), ReceivedAt: t0()}
	}
	deliver(t, st, other("waits"), time.Time{})
	for i := range 1200 { // more than one transaction
		deliver(t, st, other(fmt.Sprintf("done-%d", i)), t0())
	}
	prune := func(after time.Duration) store.Pruned {
		t.Helper()
		got, err := st.Prune(t.Context(), t0().Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := prune(store.KeepBodies); got != (store.Pruned{}) {
		t.Errorf("pruned %+v too soon", got)
	}
	if got := prune(store.KeepBodies + time.Second); got != (store.Pruned{Bodies: 1200}) {
		t.Errorf("pruned %+v", got)
	}
	deliver(t, st, other("done-0"), time.Time{}) // GitHub delivers it again
	if d, err := st.Delivery(t.Context(), "done-0"); err != nil || len(d.Body) > 0 || d.ProcessedAt.IsZero() {
		t.Errorf("delivered again: %+v, %v", d, err)
	}
	if got := prune(store.KeepDeliveries + time.Second); got != (store.Pruned{Deliveries: 1200}) {
		t.Errorf("pruned %+v", got)
	}
	for guid, want := range map[string]error{"waits": nil, "done-0": store.ErrNotFound} {
		if _, err := st.Delivery(t.Context(), guid); !errors.Is(err, want) {
			t.Errorf("delivery %s: %v, want %v", guid, err, want)
		}
	}
}

// TestPruneRuns: what belongs to a run goes with it, and what belongs to none by its age.
func TestPruneRuns(t *testing.T) {
	t.Parallel()
	st, ctx := fresh(t), t.Context()
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	old, young := t0(), t0().Add(time.Hour)
	day := func(at time.Time) spend.Scope { return spend.DayScope("R_1", at.Format(time.DateOnly), 0) }
	for issue, id := range []run.ID{"r-1", "r-11", "r-2"} { // one's id begins like another's
		r := aRun(id, issue+1)
		createRun(t, st, r)
		_, err := st.BeginEffect(ctx, string(id)+":comment", id, "comment", nil, old)
		must(err)
		start, ledger := string(id)+"-1", st.Spend()
		must(ledger.Begin(ctx, spend.Start{Name: start, Scopes: []spend.Scope{spend.RunScope(id, 0), spend.TaskScope(id, "T1", 0),
			spend.IssueScope(r.IssueNode, 0), day(old)}}))
		must(ledger.Charge(ctx, start, spend.Charge{Model: "m", Cost: 5}), ledger.Refuse(ctx, start, spend.Refusal{Reason: "r"}),
			ledger.Reach(ctx, start, run.HostUse{Host: "h", Count: 1}))
	}
	must(st.Spend().Begin(ctx, spend.Start{Name: "r-11-2", Scopes: []spend.Scope{day(old.AddDate(0, 0, 1))}}))
	must(st.Spend().Charge(ctx, "r-11-2", spend.Charge{Model: "m"}))
	for n, at := range []time.Time{old, young} {
		_, err := st.BeginEffect(ctx, fmt.Sprintf("comment::%d", n), "", "comment", nil, at)
		must(err)
		inTx(t, st, func(tx *store.Tx) error {
			for source, by := range map[string]run.ID{"help": "", "retry": "r-1"} {
				_, _, err := st.AddInput(ctx, tx, store.Input{RepoNode: "R_1", Issue: 1, Kind: store.InputCommand,
					Source: fmt.Sprintf("%s:%d", source, n), State: store.InputDone, Run: by, ReceivedAt: at})
				must(err)
			}
			return nil
		})
	}
	end(t, st, "r-1", []byte(`{}`))
	end(t, st, "r-2", []byte(`{}`))
	before := rows(t, st)
	if got, err := st.Prune(ctx, old.Add(store.KeepRuns)); err != nil || got.Runs != 0 || cmp.Diff(before, rows(t, st)) != "" {
		t.Errorf("pruned %+v too soon, %v", got, err)
	}
	if got, err := st.Prune(ctx, old.AddDate(0, 0, 1).Add(store.KeepRuns)); err != nil || got != (store.Pruned{Runs: 2}) {
		t.Errorf("pruned %+v, %v", got, err)
	}
	want := map[string]int{"runs": 1, "effects": 1, "inputs": 0, "spend_starts": 2, "spend_models": 2, "spend_hosts": 1,
		"spend_refusals": 1, "spend_totals": 4} // of the run, its task, its issue and a day
	if diff := cmp.Diff(want, rows(t, st)); diff != "" {
		t.Errorf("rows that stay (-want +got):\n%s", diff)
	}
	if r, err := st.Run(ctx, "r-11"); err != nil || r.Phase.Terminal() {
		t.Errorf("the run that goes on: %+v, %v", r, err)
	}
	if report, err := st.Spend().Report(ctx, "r-11-1"); err != nil || len(report.Models) != 1 {
		t.Errorf("what it spent: %+v, %v", report, err)
	}
}

// end has a run end with that state.
func end(t testing.TB, st *store.Store, id run.ID, state []byte) {
	t.Helper()
	if err := st.SaveState(t.Context(), id, run.PhaseDone, run.EndAllTasksComplete, state, t0()); err != nil {
		t.Fatal(err)
	}
}

func rows(t testing.TB, st *store.Store) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, table := range []string{"runs", "effects", "inputs", "spend_starts", "spend_models", "spend_hosts", "spend_refusals", "spend_totals"} {
		var count int
		if err := st.DB().QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&count); err != nil {
			t.Fatal(err)
		}
		n[table] = count
	}
	return n
}

// What was pruned is room for others, on the disk, too.
func TestPruneGivesRoomBack(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	big := store.Delivery{GUID: "big", Event: "push", Body: bytes.Repeat([]byte(" "), 8<<20), ReceivedAt: t0()}
	deliver(t, st, big, t0())
	if _, err := st.Prune(t.Context(), t0().Add(2*store.KeepBodies)); err != nil {
		t.Fatal(err)
	}
	var pages, size int64
	if err := st.DB().QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if err := st.DB().QueryRowContext(t.Context(), "PRAGMA page_size").Scan(&size); err != nil {
		t.Fatal(err)
	}
	if pages*size > 1<<20 {
		t.Errorf("the database takes %d bytes", pages*size)
	}
}

// The state of a run that has ended is kept small, and reads as it was.
func TestEndedStatesAreCompressed(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	createRun(t, st, aRun("r-1", 1))
	state := bytes.Repeat([]byte(`{"Progress": "# Progress\n"}`), 4000)
	end(t, st, "r-1", state)
	r, err := st.Run(t.Context(), "r-1")
	if err != nil || !bytes.Equal(r.State, state) {
		t.Errorf("%d bytes came back instead of %d, %v", len(r.State), len(state), err)
	}
	var stored int
	if err := st.DB().QueryRowContext(t.Context(), "SELECT length(state) FROM runs").Scan(&stored); err != nil || stored > len(state)/10 {
		t.Errorf("stored in %d bytes, %v", stored, err)
	}
}

// A day of many webhooks leaves little when their bodies are gone: 50,000 of them at
// most 20 MB. This inserts a tenth.
func TestADayOfDeliveriesIsSmall(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	const scale, perDay, most = 10, 50_000, 20_000_000
	body := bytes.Repeat([]byte("x"), 8<<10)
	for at := 0; at < perDay/scale; at += 500 {
		inTx(t, st, func(tx *store.Tx) error {
			for i := at; i < at+500; i++ {
				sum := sha256.Sum256(fmt.Append(nil, i))
				d := store.Delivery{
					GUID: fmt.Sprintf("%x-%04x-%04x-%04x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]), Event: "issue_comment",
					Action: "created", Installation: 12345678, RepoNode: "R_kgDOABCDEFG", Body: body, Digest: sum[:], ReceivedAt: t0(),
				}
				if _, err := st.InsertDelivery(t.Context(), tx, d); err != nil {
					return err
				}
				if err := st.MarkDelivery(t.Context(), tx, d.GUID, "nothing to do", t0()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if _, err := st.Prune(t.Context(), t0().Add(store.KeepBodies+time.Second)); err != nil {
		t.Fatal(err)
	}
	b, err := st.Backlog(t.Context())
	t.Logf("%d deliveries take %d bytes", perDay/scale, b.Bytes)
	if err != nil || b.Bytes > most/scale {
		t.Errorf("%d deliveries take %d bytes, %v", perDay/scale, b.Bytes, err)
	}
}
