//go:build postgres

package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/history"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
	"github.com/org/ralph-action/internal/store/pgtest"
)

// furnish writes into every table that Copy copies.
func furnish(t *testing.T, st *store.Store) store.Lease {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	createRun(t, st, aRun("r-1", 7))
	createRun(t, st, aRun("r-2", 8))
	lease, err := st.ClaimRun(ctx, "r-1", "me", "", time.Hour, t0())
	must(err)
	must(st.SaveState(ctx, "r-1", lease, run.PhaseIterating, "", []byte("{\"text\":\"\x00\xff\"}"), t0()))
	inTx(t, st, func(tx *store.Tx) error {
		_, err := st.InsertDelivery(ctx, tx, store.Delivery{GUID: "g-1", Body: []byte("{}"), ReceivedAt: t0()})
		must(err)
		_, _, err = st.AddInput(ctx, tx, store.Input{RepoNode: "R_1", Issue: 7, Kind: store.InputCommand, Source: "comment:1",
			Text: "a byte \x00 and \xff that no text has", ReceivedAt: t0()})
		must(err)
		_, err = st.Refused(ctx, tx, "R_1", 7, "eve", "no")
		must(err)
		must(st.AskPlace(ctx, tx, store.Place{Run: "r-1", Process: "p-1", CameAt: t0(), SeenAt: t0(), Answer: true}))
		must(st.GrantPlace(ctx, tx, "p-1", t0(), "acme"))
		must(st.Pause(ctx, tx, "operator", t0()))
		return st.AddDecision(ctx, tx, store.Decision{At: t0(), Repo: "acme/app", Person: "eve", Action: "stop"})
	})
	_, err = st.BeginEffect(ctx, "k-1", "r-1", "comment", []byte("i"), t0())
	must(err)
	must(st.FinishEffect(ctx, "k-1", []byte("done"), t0()))
	must(st.Keep(ctx, "r-1", "tree", []byte("work")))
	must(st.Blobs(t0).Put(ctx, "runs/r-1/a", strings.NewReader("said")))
	must(st.Lessons("R_1").Remember(ctx, history.Lesson{Key: "r-1/t-1", At: t0(), Title: "Add a parser for invoices"}))
	must(st.MergeLessons(ctx, "R_1", "r-1"))
	l := st.Spend()
	must(l.Begin(ctx, spend.Start{Name: "r-1-1", Scopes: []spend.Scope{{Key: "run:r-1", Limit: 1000}}}))
	id, err := l.Reserve(ctx, "r-1-1", "m", 500)
	must(err)
	must(l.Settle(ctx, id, spend.Charge{Cost: 300}))
	must(l.Refuse(ctx, "r-1-1", spend.Refusal{Reason: "no"}))
	must(l.Reach(ctx, "r-1-1", run.HostUse{Host: "example.com", Count: 1}))
	_, err = st.Restored(ctx, t0(), func(state []byte) ([]byte, error) { return state, nil })
	must(err)
	lease, err = st.ClaimRun(ctx, "r-1", "me", "", time.Hour, t0())
	must(err)
	// The rest is what Prune leaves of a run.
	old := aRun("r-0", 3)
	old.CreatedAt = t0().Add(-2 * store.KeepRuns)
	createRun(t, st, old)
	gone, err := st.ClaimRun(ctx, "r-0", "me", "", time.Hour, old.CreatedAt)
	must(err)
	must(st.SaveState(ctx, "r-0", gone, run.PhaseDone, run.EndAllTasksComplete, []byte("{}"), old.CreatedAt))
	_, err = st.Prune(ctx, t0(), func([]byte) (float64, int, error) { return 1.25, 3, nil })
	must(err)
	return lease
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	suite(t, engine{store.Postgres, pgtest.URL})
}

func TestReach(t *testing.T) {
	t.Parallel()
	if version, err := store.Reach(t.Context(), pgtest.URL(t)); err != nil || version < 15 {
		t.Errorf("version %d, %v", version, err)
	}
	_, err := store.Reach(t.Context(), "postgres://bot:hunter2@127.0.0.1:1/bot")
	wantErr(t, err, store.ErrUnreachable)
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error shows the password: %v", err)
	}
	_, err = store.Open(t.Context(), "postgres://bot:hunter2@127.0.0.1:1/bot")
	wantErr(t, err, store.ErrUnreachable)
}

// TestPasswordIsReplaced: new connections have the password that is in the file by now.
func TestPasswordIsReplaced(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pg := pgtest.Start(t)
	url := pg.URL(t)
	admin, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	passfile := filepath.Join(t.TempDir(), "pgpass")
	password := func(how, password string) {
		t.Helper()
		_, err := admin.Exec(ctx, how+` ROLE guarded SUPERUSER LOGIN PASSWORD '`+password+`'`)
		if err = errors.Join(err, os.WriteFile(passfile, []byte("*:*:*:guarded:"+password+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	password("CREATE", "the-first-password")
	st := open(t, strings.Replace(url, "bot@", "guarded@", 1)+"&passfile="+passfile)
	password("ALTER", "the-second-password")
	if err := admin.Close(ctx); err != nil {
		t.Fatal(err)
	}
	pg.Restart(t)
	// Each connection of before is found broken once.
	for range 50 {
		if err = st.Check(ctx); err == nil {
			break
		}
	}
	if err != nil {
		t.Error(err)
	}
	c, err := st.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	from, to := open(t, filepath.Join(t.TempDir(), "bot.db")), open(t, pgtest.URL(t))
	lease := furnish(t, from)
	done, err := store.Copy(ctx, from, to, "here", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range done {
		if c.Rows == 0 {
			t.Errorf("nothing of %s was copied", c.Table)
		}
	}
	again, err := store.Copy(ctx, from, to, "here", false)
	if err != nil {
		t.Fatalf("the second time: %v", err)
	}
	if diff := cmp.Diff(done, again); diff != "" {
		t.Error(diff)
	}

	// It goes on where it was: leases, numbers and what is found by its words.
	if err := to.SaveState(ctx, "r-1", lease, run.PhaseIterating, "", []byte("{}"), t0()); err != nil {
		t.Error(err)
	}
	createRun(t, to, aRun("r-3", 9))
	if before, err := to.RunBefore(ctx, "R_1", 9, "r-3"); err == nil {
		t.Errorf("before the first run of an issue came %s", before.ID)
	}
	if runs, err := to.ActiveRuns(ctx); err != nil || len(runs) != 3 || runs[2].ID != "r-3" {
		t.Errorf("active runs %v, %v", runs, err)
	}
	found, err := to.Lessons("R_1").Similar(ctx, history.Query{Title: "Add a parser for invoices"}, 5)
	if err != nil || len(found) != 1 {
		t.Errorf("lessons %v, %v", found, err)
	}
	if spent, err := to.Spend().Spent(ctx, "run:r-1"); err != nil || spent != 300 {
		t.Errorf("spent %d, %v", spent, err)
	}

	_, err = store.Copy(ctx, from, to, "here", false)
	wantErr(t, err, store.ErrNotEmpty)
	if _, err := to.Run(ctx, "r-3"); err != nil {
		t.Errorf("what was there is gone: %v", err)
	}
	if done, err = store.Copy(ctx, from, to, "here", true); err != nil || !cmp.Equal(done, again) {
		t.Errorf("replaced: %v, %v", done, err)
	}
	_, err = to.Run(ctx, "r-3")
	wantErr(t, err, store.ErrNotFound)
}

// TestEnginesHaveTheSameColumns: what one has in a table the other has as well.
func TestEnginesHaveTheSameColumns(t *testing.T) {
	t.Parallel()
	from, to := open(t, filepath.Join(t.TempDir(), "bot.db")), open(t, pgtest.URL(t))
	columns := func(st *store.Store, query string) (all []string) {
		t.Helper()
		rows, err := st.DB().QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := rows.Close(); err != nil {
				t.Error(err)
			}
		}()
		for rows.Next() {
			var column string
			if err := rows.Scan(&column); err != nil {
				t.Fatal(err)
			}
			all = append(all, column)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return all
	}
	want := columns(from, `SELECT m.name || '.' || c.name AS line FROM sqlite_schema m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' AND m.name NOT LIKE 'goose%' AND m.name NOT LIKE 'lessons_words%' ORDER BY line`)
	got := columns(to, `SELECT line FROM (SELECT table_name || '.' || column_name AS line FROM information_schema.columns
		WHERE table_schema = current_schema() AND column_name <> 'rowid' AND table_name NOT LIKE 'goose%'
			AND table_name NOT IN ('lessons_words', 'processes', 'timeline', 'compatible')) AS columns
		ORDER BY line COLLATE "C"`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns (-SQLite +PostgreSQL):\n%s", diff)
	}
}

// TestTurns: whoever asks, a few come at once and then one at a time, by one clock.
func TestTurns(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	stores := []*store.Store{open(t, url), open(t, url)}
	take := func(n int, name string, most time.Duration) time.Duration {
		t.Helper()
		wait, err := stores[n%2].TakeTurn(t.Context(), name, time.Hour, most, 3)
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	for n := range 3 {
		if wait := take(n, "a", 0); wait != 0 {
			t.Errorf("turn %d is %s off", n, wait)
		}
	}
	for n, most := range []time.Duration{time.Minute, 2 * time.Hour, 2 * time.Hour} { // the first is not taken
		if wait, want := take(n, "a", most), time.Duration(max(n, 1))*time.Hour; wait > want || wait < want-time.Minute {
			t.Errorf("turn %d of those that wait is %s off, want %s", n, wait, want)
		}
	}
	if wait := take(0, "b", 0); wait != 0 {
		t.Errorf("another name's is %s off", wait)
	}
}

// TestTwoVersions: a program works on tables that a newer one has added to, unless that one says that
// it cannot.
func TestTwoVersions(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	st := open(t, url)
	exec := func(statement string) {
		t.Helper()
		if _, err := st.DB().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	// What a newer version does to the tables.
	exec(`ALTER TABLE runs ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue'`)
	exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)`)
	older := open(t, url)
	createRun(t, older, aRun("r-1", 7))
	lease, err := older.ClaimRun(t.Context(), "r-1", "me", "", time.Hour, t0())
	if err == nil {
		err = older.SaveState(t.Context(), "r-1", lease, run.PhaseIterating, "", []byte("{}"), t0())
	}
	if err != nil {
		t.Error(err)
	}
	exec(`UPDATE compatible SET oldest = 999`)
	if _, err := store.Open(t.Context(), url); !errors.Is(err, store.ErrNewer) {
		t.Errorf("on tables that it cannot work on: %v", err)
	}

	// And a newer one that cannot work beside an older one waits until that is gone.
	exec(`DELETE FROM goose_db_version WHERE version_id = 999`)
	exec(`INSERT INTO processes (id, node, tables) VALUES ('1-x', 'old', 15)`)
	if _, err := store.Open(t.Context(), url); !errors.Is(err, store.ErrOlderWorks) {
		t.Errorf("beside a server that cannot work on its tables: %v", err)
	}
	exec(`UPDATE processes SET seen_at = now() - interval '1 minute'`)
	open(t, url)
}

// TestFailover: a standby that has taken over is a copy of an earlier moment, once for all servers.
func TestFailover(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	st := open(t, url)
	createRun(t, st, aRun("r-1", 7))
	told := 0
	follow := func(st *store.Store) {
		t.Helper()
		if err := st.FollowFailovers(t.Context(), func(state []byte) ([]byte, error) {
			return append(state, '+'), nil
		}, func(runs int) { told += runs }); err != nil {
			t.Fatal(err)
		}
	}
	follow(st)
	follow(open(t, url))
	if told != 0 {
		t.Errorf("told of %d runs where nothing happened", told)
	}
	lease, err := st.ClaimRun(t.Context(), "r-1", "me", "", time.Hour, t0())
	if err != nil {
		t.Fatal(err)
	}
	// The rows come from another server.
	if _, err := st.DB().ExecContext(t.Context(), `UPDATE timeline SET name = '000000FF'`); err != nil {
		t.Fatal(err)
	}
	other := open(t, url)
	follow(other)
	follow(open(t, url))
	row, err := other.Run(t.Context(), "r-1")
	if err != nil || told != 1 || !bytes.HasSuffix(row.State, []byte("+")) || row.LeaseOwner != "" {
		t.Errorf("told of %d runs, %q, lease of %q, %v", told, row.State, row.LeaseOwner, err)
	}
	if err := st.SaveState(t.Context(), "r-1", lease, run.PhaseIterating, "", nil, t0()); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("a save of before: %v", err)
	}
	e, err := st.BeginEffect(t.Context(), "pr:r-1:x", "r-1", "pr", nil, t0())
	if err != nil || e.Fresh {
		t.Errorf("an effect of the run is taken for new: %v", err)
	}
	if at, err := st.LastRestore(t.Context()); err != nil || time.Since(at) > time.Minute {
		t.Errorf("restored at %s, %v", at, err)
	}
}
