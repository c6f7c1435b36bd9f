//go:build postgres

package queue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
	"github.com/org/ralph-action/internal/store/pgtest"
	"github.com/org/ralph-action/internal/store/queue"
)

func TestPostgres(t *testing.T) {
	t.Parallel()
	testQueue(t, pgtest.URL)
}

func TestKilledProcessOnPostgres(t *testing.T) {
	t.Parallel()
	testKilledProcess(t, pgtest.URL)
}

// idle are handlers of a queue that has nothing to do.
func idle() queue.Handlers {
	return queue.Handlers{
		Delivery: func(context.Context, string) error { return nil },
		Advance:  func(context.Context, run.ID) (time.Duration, error) { return 0, nil },
	}
}

func exec(t *testing.T, st *store.Store, statement string) {
	t.Helper()
	if _, err := st.DB().ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// start starts a queue of a node, which is stopped with the test.
func start(t *testing.T, st *store.Store, opts queue.Options) error {
	t.Helper()
	q, err := queue.Open(t.Context(), st, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return q.Start(context.WithoutCancel(t.Context()), idle())
}

// TestNodeTakesThePlaceOfAnother: once that is gone, and not while it may come back.
func TestNodeTakesThePlaceOfAnother(t *testing.T) {
	t.Parallel()
	st := open(t, pgtest.URL(t))
	moved := 0
	move := func(context.Context) error {
		moved++
		return nil
	}
	// The first node was killed a moment ago, and has left its row: its lock is free.
	exec(t, st, `INSERT INTO node (name) VALUES ('first')`)
	exec(t, st, `INSERT INTO processes (id, node) VALUES ('1-x', 'first')`)
	if err := start(t, st, queue.Options{Node: "second", Moved: move}); !errors.Is(err, queue.ErrOtherNode) || moved != 0 {
		t.Fatalf("beside a node that was alive a moment ago: %v", err)
	}
	exec(t, st, `UPDATE processes SET seen_at = now() - interval '1 minute'`)
	if err := start(t, st, queue.Options{Node: "second", Moved: move}); err != nil || moved != 1 {
		t.Fatalf("after a node that is gone: %v, moved %d times", err, moved)
	}
	if err := start(t, open(t, nameOf(t, st)), queue.Options{Node: "second", Moved: move}); err != nil || moved != 1 {
		t.Fatalf("beside another process of the node: %v, moved %d times", err, moved)
	}
}

// nameOf is a name by which the database of st can be opened again.
func nameOf(t *testing.T, st *store.Store) string {
	t.Helper()
	return st.Connections().Config().ConnString()
}

// TestReplacedNodeStaysAway: a server that lost its connection for so long that another node
// has taken its place works nothing any more.
func TestReplacedNodeStaysAway(t *testing.T) {
	t.Parallel()
	st := open(t, pgtest.URL(t))
	said := make(lines, 100)
	if err := start(t, st, queue.Options{Node: "first", Log: zerolog.New(said)}); err != nil {
		t.Fatal(err)
	}
	exec(t, st, `UPDATE node SET name = 'second'`)
	exec(t, st, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	for line := range said {
		if strings.Contains(line, "taken for dead") {
			return
		}
	}
}

// lines is a log whose lines a test reads.
type lines chan string

// Write implements io.Writer.
func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}
