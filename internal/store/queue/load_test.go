//go:build postgres

package queue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
	"github.com/org/ralph-action/internal/store/pgtest"
	"github.com/org/ralph-action/internal/store/queue"
)

// ticker is a node whose ticks take a while, in which it does nothing, and save a state.
type ticker struct {
	*queue.Queue

	st    *store.Store
	ticks atomic.Int64
	// woken hears how late the tick after each signal was.
	mu    sync.Mutex
	asked map[run.ID]time.Time
	late  []time.Duration
}

func startTicker(b *testing.B, url, name string, takes, snooze time.Duration) *ticker {
	b.Helper()
	st, err := store.Open(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	n := &ticker{st: st, asked: map[run.ID]time.Time{}}
	n.Queue, err = queue.Open(b.Context(), st, queue.Options{
		Node: name, Agents: func() int { return 100 }, Moved: func(state []byte) ([]byte, error) { return state, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	h := idle()
	h.Advance = func(ctx context.Context, id run.ID) (time.Duration, error) {
		lease, err := st.ClaimRun(ctx, id, n.ID(), name, time.Minute, time.Now())
		if errors.Is(err, store.ErrLeaseTaken) {
			return 0, queue.ErrBusy
		}
		if err != nil {
			return 0, err
		}
		n.mu.Lock()
		if asked, ok := n.asked[id]; ok && queue.Woken(ctx) {
			n.late = append(n.late, time.Since(asked))
			delete(n.asked, id)
		}
		n.mu.Unlock()
		<-time.After(takes)
		if err := st.SaveState(ctx, id, lease, run.PhaseIterating, "", []byte("state"), time.Now()); err != nil {
			return 0, err
		}
		n.ticks.Add(1)
		return snooze, st.ReleaseRun(ctx, id, lease)
	}
	b.Cleanup(func() {
		if err := errors.Join(n.Stop(context.WithoutCancel(b.Context())), st.Close()); err != nil {
			b.Error(err)
		}
	})
	if err := n.Start(context.WithoutCancel(b.Context()), h); err != nil {
		b.Fatal(err)
	}
	return n
}

// begin makes runs.
func (n *ticker) begin(b *testing.B, runs int) (ids []run.ID) {
	b.Helper()
	for i := range runs {
		id := run.ID(fmt.Sprintf("r-%05d", i))
		ids = append(ids, id)
		if err := n.st.InTx(b.Context(), func(tx *store.Tx) error {
			return errors.Join(n.st.CreateRun(b.Context(), tx, store.Run{
				ID: id, RepoNode: string(id), Phase: run.PhaseQueued, CreatedAt: time.Now(), State: []byte("state"),
			}), n.EnqueueAdvance(b.Context(), tx, id))
		}); err != nil {
			b.Fatal(err)
		}
	}
	return ids
}

// BenchmarkNodes measures the ticks of three nodes together against those of one, where a tick
// takes 100 ms in which nobody computes, as one does that waits for GitHub or for a process: the bar
// is 2.5.
func BenchmarkNodes(b *testing.B) {
	rate := func(nodes int) float64 {
		url := pgtest.Start(b).URL(b)
		var all []*ticker
		for i := range nodes {
			all = append(all, startTicker(b, url, fmt.Sprint("n", i), 100*time.Millisecond, time.Millisecond))
		}
		all[0].begin(b, 150)
		<-time.After(2 * time.Second) // until all have been given to a node
		sum := func() (ticks int64) {
			for _, n := range all {
				ticks += n.ticks.Load()
			}
			return ticks
		}
		before, begin := sum(), time.Now()
		<-time.After(10 * time.Second)
		return float64(sum()-before) / time.Since(begin).Seconds()
	}
	for range b.N {
		one, three := rate(1), rate(3)
		b.ReportMetric(one, "ticks/s-of-one")
		b.ReportMetric(three, "ticks/s-of-three")
		b.ReportMetric(three/one, "times")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkLongTransaction measures the ticks of a server while somebody keeps a transaction open that
// has read from the tables, as a dump does, against those before: the bar is 0.8. LONG is for how long
// (20s).
func BenchmarkLongTransaction(b *testing.B) {
	lasts := 20 * time.Second
	if text := os.Getenv("LONG"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			b.Fatal(err)
		}
	}
	for range b.N {
		n := startTicker(b, pgtest.Start(b).URL(b), "n", 5*time.Millisecond, time.Millisecond)
		n.begin(b, 50)
		rate := func(lasts time.Duration) float64 {
			before, begin := n.ticks.Load(), time.Now()
			<-time.After(lasts)
			return float64(n.ticks.Load()-before) / time.Since(begin).Seconds()
		}
		rate(2 * time.Second)
		before := rate(10 * time.Second)
		conn, err := n.st.Connect(b.Context())
		if err == nil {
			_, err = conn.Exec(b.Context(), `SET idle_in_transaction_session_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ;
				SELECT count(*) FROM runs`)
		}
		if err != nil {
			b.Fatal(err)
		}
		rate(max(lasts-10*time.Second, 0))
		late := rate(10 * time.Second)
		if err := conn.Close(b.Context()); err != nil {
			b.Error(err)
		}
		b.ReportMetric(before, "ticks/s-before")
		b.ReportMetric(late, "ticks/s-at-its-end")
		b.ReportMetric(late/before, "ratio")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkThousandRuns measures how late a signal has a run ticked while a thousand runs are polled:
// the bar for 95 of 100 is a second.
func BenchmarkThousandRuns(b *testing.B) {
	for range b.N {
		n := startTicker(b, pgtest.Start(b).URL(b), "n", time.Millisecond, 2*time.Second)
		ids := n.begin(b, 1000)
		for i := range 500 {
			id := ids[(i*7)%len(ids)]
			n.mu.Lock()
			n.asked[id] = time.Now()
			n.mu.Unlock()
			if err := n.st.InTx(b.Context(), func(tx *store.Tx) error { return n.Wake(b.Context(), tx, id) }); err != nil {
				b.Fatal(err)
			}
			<-time.After(10 * time.Millisecond)
		}
		for waiting := 1; waiting > 0; <-time.After(10 * time.Millisecond) {
			n.mu.Lock()
			waiting = len(n.asked)
			n.mu.Unlock()
		}
		slices.Sort(n.late)
		b.ReportMetric(n.late[len(n.late)/2].Seconds()*1000, "p50-ms")
		b.ReportMetric(n.late[len(n.late)*95/100].Seconds()*1000, "p95-ms")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFinishedRuns measures what a tick costs the database beside a million runs that have ended,
// against what it costs beside none, in turns: the bar is that it does not grow.
func BenchmarkFinishedRuns(b *testing.B) {
	none, many := besideFinished(b, 0), besideFinished(b, 1_000_000)
	var withNone, withMany time.Duration
	for b.Loop() {
		withNone += none()
		withMany += many()
	}
	b.ReportMetric(float64(withNone.Microseconds())/float64(b.N), "us-beside-none")
	b.ReportMetric(float64(withMany.Microseconds())/float64(b.N), "us-beside-a-million")
	b.ReportMetric(float64(withMany)/float64(withNone), "times")
}

// besideFinished makes a database with runs that have ended and one that has not, and gives what ticks
// that one and says how long it took.
func besideFinished(b *testing.B, finished int) func() time.Duration {
	b.Helper()
	st, err := store.Open(b.Context(), pgtest.URL(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	})
	for _, statement := range []string{
		fmt.Sprintf(`INSERT INTO runs (id, repo_owner, repo_name, repo_node, installation_id,
			issue_number, issue_node, phase, active, state, created_at, updated_at)
			SELECT 'old-' || n, 'ada', 'widgets', 'R_' || n %% 10000, 1, n, 'I_' || n, 'done', 0, '\x7b7d', n, n
			FROM generate_series(1, %d) AS n`, finished),
		`VACUUM ANALYZE`, `CHECKPOINT`, // or they go on beside the measurement
	} {
		if _, err := st.DB().ExecContext(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	const id = run.ID("r-1")
	if err := st.InTx(b.Context(), func(tx *store.Tx) error {
		return st.CreateRun(b.Context(), tx, store.Run{
			ID: id, RepoNode: "R_1", IssueNumber: 7, Phase: run.PhaseQueued, CreatedAt: time.Now(),
		})
	}); err != nil {
		b.Fatal(err)
	}
	return func() time.Duration {
		begin := time.Now()
		lease, err := st.ClaimRun(b.Context(), id, "me", "", time.Minute, time.Now())
		if err == nil {
			_, err = st.Run(b.Context(), id)
		}
		if err == nil {
			_, err = st.ActiveRuns(b.Context())
		}
		if err == nil {
			_, _, err = st.Places(b.Context())
		}
		if err == nil {
			err = st.SaveState(b.Context(), id, lease, run.PhaseIterating, "", []byte("state"), time.Now())
		}
		if err == nil {
			err = st.ReleaseRun(b.Context(), id, lease)
		}
		if err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
}
