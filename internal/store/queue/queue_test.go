package queue_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
	"github.com/org/ralph-action/internal/store/queue"
	"github.com/org/ralph-action/internal/store/queue/queuetest"
)

// childEnv makes the test binary the process that is killed; it holds the name
// of the database.
const childEnv = "QUEUE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		err := child(context.Background(), path)
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, func(t *testing.T) queuetest.Database {
		name := newFile(t)
		return func(t *testing.T) *store.Store { return open(t, name) }
	})
}

// newFile gives the name of a new database.
func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "bot.db") }

func open(t *testing.T, name string) *store.Store {
	t.Helper()
	st, err := store.Open(context.WithoutCancel(t.Context()), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// child works one delivery and one run, with a lease that lasts for long, and
// never ends; it has no worker left for anything else.
func child(ctx context.Context, path string) error {
	st, err := store.Open(ctx, path)
	if err != nil {
		return err
	}
	q, err := queue.Open(ctx, st, queue.Options{Workers: 2})
	if err != nil {
		return err
	}
	say := make(chan string)
	err = q.Start(ctx, queue.Handlers{
		Delivery: func(context.Context, string) error {
			say <- "delivery\n"
			select {}
		},
		Advance: func(ctx context.Context, id run.ID) (time.Duration, error) {
			if _, err := st.ClaimRun(ctx, id, q.ID(), time.Hour, time.Now()); err != nil {
				say <- err.Error() + "\n"
			}
			say <- "run\n"
			select {}
		},
	})
	if err != nil {
		return err
	}
	for line := range say {
		if _, err := os.Stdout.WriteString(line); err != nil {
			return err
		}
	}
	return nil
}

// startChild starts child and waits until it is in the middle of both jobs.
func startChild(t *testing.T, path string) (kill func()) {
	t.Helper()
	said, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess(exe, []string{exe}, &os.ProcAttr{
		Env:   append(os.Environ(), childEnv+"="+path),
		Files: []*os.File{nil, stdout, os.Stderr},
	})
	if err := errors.Join(err, stdout.Close()); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if killed {
			return
		}
		killed = true
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
		if err := said.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(kill)
	r := bufio.NewReader(said)
	lines := map[string]bool{}
	for range 2 {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("child said %v, then %v", lines, err)
		}
		lines[line] = true
	}
	if !lines["delivery\n"] || !lines["run\n"] {
		t.Fatalf("child said %v", lines)
	}
	return kill
}

// jobs are the states of the first n jobs and how often each was begun.
func jobs(t *testing.T, st *store.Store, n int) []string {
	t.Helper()
	rows, err := st.DB().QueryContext(t.Context(),
		fmt.Sprintf("SELECT id || ' ' || state || ' ' || attempt FROM river_job ORDER BY id LIMIT %d", n))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}()
	var got []string
	for rows.Next() {
		var job string
		if err := rows.Scan(&job); err != nil {
			t.Fatal(err)
		}
		got = append(got, job)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if len(got) != n {
		t.Fatalf("%d jobs, want %d: %v", len(got), n, got)
	}
	return got
}

// withWork gives a queue with a delivery and a run to be worked.
func withWork(t *testing.T, st *store.Store) *queue.Queue {
	t.Helper()
	ctx := t.Context()
	q, err := queue.Open(ctx, st, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.InTx(ctx, func(tx *store.Tx) error {
		_, err := st.InsertDelivery(ctx, tx, store.Delivery{GUID: "g-1", ReceivedAt: time.Now()})
		return errors.Join(err,
			st.CreateRun(ctx, tx, store.Run{ID: "r-1", Phase: run.PhaseQueued, CreatedAt: time.Now()}),
			q.EnqueueDelivery(ctx, tx, "g-1"),
			q.EnqueueAdvance(ctx, tx, "r-1"))
	}); err != nil {
		t.Fatal(err)
	}
	return q
}

// What a killed process was doing is done by another one within seconds: its
// jobs, and the lease it held for another hour.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	for _, survivor := range []bool{true, false} {
		title := "one starts afterwards"
		if survivor {
			title = "one was there"
		}
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			name := newFile(t)
			st := open(t, name)
			q := withWork(t, st)
			kill := startChild(t, name)

			worked := make(chan error, 100)
			later := make(chan error, 100)
			begin := func() {
				t.Helper()
				err := q.Start(context.WithoutCancel(ctx), queue.Handlers{
					Delivery: func(ctx context.Context, guid string) error {
						err := st.InTx(ctx, func(tx *store.Tx) error { return st.MarkDelivery(ctx, tx, guid, "done", time.Now()) })
						if guid == "g-2" {
							later <- err
						} else {
							worked <- err
						}
						return err
					},
					Advance: func(ctx context.Context, id run.ID) (time.Duration, error) {
						lease, err := st.ClaimRun(ctx, id, q.ID(), time.Hour, time.Now())
						if errors.Is(err, store.ErrLeaseTaken) {
							return 0, queue.ErrBusy
						}
						if err == nil {
							err = st.SaveState(ctx, id, lease, run.PhaseDone, run.EndAllTasksComplete, nil, time.Now())
						}
						worked <- err
						return 0, err
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := q.Stop(context.WithoutCancel(ctx)); err != nil {
						t.Error(err)
					}
				})
			}
			if survivor {
				// A process that is alive keeps what it has: when the other one
				// has looked for dead processes, which it does before it works
				// anything, and has worked what came later, the jobs are as
				// they were.
				before := jobs(t, st, 2)
				begin()
				if err := st.InTx(ctx, func(tx *store.Tx) error {
					_, err := st.InsertDelivery(ctx, tx, store.Delivery{GUID: "g-2", ReceivedAt: time.Now()})
					return errors.Join(err, q.EnqueueDelivery(ctx, tx, "g-2"))
				}); err != nil {
					t.Fatal(err)
				}
				if err := <-later; err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(before, jobs(t, st, 2)); diff != "" || len(worked) > 0 {
					t.Errorf("took over from a living process: %s", diff)
				}
				kill()
			} else {
				kill()
				begin()
			}
			for range 2 {
				if err := <-worked; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A copy of the database is worked where the process that had it is not known.
func TestCopyOfADatabase(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "bot.db")
	st := open(t, path)
	withWork(t, st)
	defer startChild(t, path)()
	elsewhere := filepath.Join(t.TempDir(), "bot.db")
	if err := store.Backup(ctx, path, elsewhere); err != nil {
		t.Fatal(err)
	}
	at := open(t, elsewhere)
	there, err := queue.Open(ctx, at, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	worked := make(chan error, 100)
	if err := there.Start(context.WithoutCancel(ctx), queue.Handlers{
		Delivery: func(ctx context.Context, guid string) error {
			err := at.InTx(ctx, func(tx *store.Tx) error { return at.MarkDelivery(ctx, tx, guid, "done", time.Now()) })
			worked <- err
			return err
		},
		Advance: func(ctx context.Context, id run.ID) (time.Duration, error) {
			_, err := at.ClaimRun(ctx, id, there.ID(), time.Hour, time.Now())
			worked <- err
			return 0, err
		},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := there.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		if err := <-worked; err != nil {
			t.Error(err)
		}
	}
}

// A tick may take minutes, a delivery may not; one that waits for someone else
// comes back without complaint.
func TestTimeForJobs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	st := open(t, filepath.Join(t.TempDir(), "bot.db"))
	var log bytes.Buffer
	q, err := queue.Open(ctx, st, queue.Options{Log: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	left := func(ctx context.Context) time.Duration {
		deadline, ok := ctx.Deadline()
		if !ok {
			return time.Hour
		}
		return time.Until(deadline)
	}
	ticks, deliveries := make(chan time.Duration, 10), make(chan time.Duration, 10)
	calls := 0
	if err := q.Start(context.WithoutCancel(ctx), queue.Handlers{
		Delivery: func(ctx context.Context, guid string) error {
			if calls++; calls == 1 { // one job, worked once at a time
				return fmt.Errorf("an earlier run is ending: %w", queue.ErrBusy)
			}
			deliveries <- left(ctx)
			return st.InTx(ctx, func(tx *store.Tx) error { return st.MarkDelivery(ctx, tx, guid, "done", time.Now()) })
		},
		Advance: func(ctx context.Context, _ run.ID) (time.Duration, error) {
			ticks <- left(ctx)
			return 0, nil
		},
	}); err != nil {
		t.Fatal(err)
	}
	if err := st.InTx(ctx, func(tx *store.Tx) error {
		_, err := st.InsertDelivery(ctx, tx, store.Delivery{GUID: "g-1", ReceivedAt: time.Now()})
		return errors.Join(err, q.EnqueueDelivery(ctx, tx, "g-1"), q.EnqueueAdvance(ctx, tx, "r-1"), q.Wake(ctx, tx, "r-1"))
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the polling job and the wake
		if got := <-ticks; got < 14*time.Minute || got > 15*time.Minute {
			t.Errorf("a tick has %v", got)
		}
	}
	if got := <-deliveries; got > time.Minute {
		t.Errorf("a delivery has %v", got)
	}
	if err := q.Stop(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", log.String())
	}
}
