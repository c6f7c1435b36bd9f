//go:build postgres

package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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

// node is a server that works on a database with others.
type node struct {
	*queue.Queue

	st *store.Store
	// ticked hears of each run that is ticked here.
	ticked chan run.ID
	// returned hears when the node was away.
	returned chan struct{}
}

// startNode starts a node that gives back the lease of each run at once, which never ends.
func startNode(t *testing.T, url, name string, agents int) *node {
	t.Helper()
	n := &node{st: open(t, url), ticked: make(chan run.ID, 10_000), returned: make(chan struct{}, 10)}
	q, err := queue.Open(t.Context(), n.st, queue.Options{
		Node: name, Version: "v1", Agents: func() int { return agents },
		Moved: func(state []byte) ([]byte, error) { return append(state, "+"...), nil },
		Returned: func(context.Context) error {
			n.returned <- struct{}{}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Queue = q
	t.Cleanup(n.end(t))
	h := idle()
	h.Advance = func(ctx context.Context, id run.ID) (time.Duration, error) {
		lease, err := n.st.ClaimRun(ctx, id, q.ID(), name, time.Minute, time.Now())
		if errors.Is(err, store.ErrLeaseTaken) {
			return 0, queue.ErrBusy
		}
		if err != nil {
			return 0, err
		}
		n.ticked <- id
		return 20 * time.Millisecond, n.st.ReleaseRun(ctx, id, lease)
	}
	if err := q.Start(context.WithoutCancel(t.Context()), h); err != nil {
		t.Fatal(err)
	}
	return n
}

// end stops the node, once.
func (n *node) end(t *testing.T) func() {
	return func() {
		if err := n.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

// begin makes runs with a job each.
func (n *node) begin(t *testing.T, ids ...run.ID) {
	t.Helper()
	for _, id := range ids {
		if err := n.st.InTx(t.Context(), func(tx *store.Tx) error {
			return errors.Join(n.st.CreateRun(t.Context(), tx, store.Run{
				ID: id, RepoNode: string(id), Phase: run.PhaseQueued, CreatedAt: time.Now(), State: []byte("s"),
			}), n.EnqueueAdvance(t.Context(), tx, id))
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// await waits until the node ticks a run.
func (n *node) await(t *testing.T, want run.ID) {
	t.Helper()
	for id := range n.ticked {
		if id == want {
			return
		}
	}
}

func (n *node) row(t *testing.T, id run.ID) store.Run {
	t.Helper()
	row, err := n.st.Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func TestNodesShareRuns(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	one, three := startNode(t, url, "one", 1), startNode(t, url, "three", 3)
	var ids []run.ID
	for i := range 40 {
		ids = append(ids, run.ID(fmt.Sprintf("r-%02d", i)))
	}
	one.begin(t, ids...)
	had := map[string]map[run.ID]bool{"one": {}, "three": {}}
	for len(had["one"])+len(had["three"]) < len(ids) {
		select {
		case id := <-one.ticked:
			had["one"][id] = true
		case id := <-three.ticked:
			had["three"][id] = true
		}
	}
	if len(had["one"]) != 10 || len(had["three"]) != 30 {
		t.Errorf("one has %d, three has %d", len(had["one"]), len(had["three"]))
	}
	for name, runs := range had {
		for id := range runs {
			if row := one.row(t, id); row.Node != name {
				t.Errorf("%s ticks run %s, which %q has", name, id, row.Node)
			}
		}
	}
	// A signal that comes to any node reaches the one that has the run.
	for _, n := range []*node{one, three} {
		if err := n.st.InTx(t.Context(), func(tx *store.Tx) error { return n.Wake(t.Context(), tx, ids[0]) }); err != nil {
			t.Fatal(err)
		}
	}
	nodes, err := one.st.Nodes(t.Context())
	if err != nil || len(nodes) != 2 || nodes[0].Name != "one" || nodes[0].Runs != 10 || nodes[1].Agents != 3 || nodes[1].Gone {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
}

func TestNodeIsGone(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first := startNode(t, url, "first", 1)
	first.begin(t, "r-1")
	first.await(t, "r-1")
	second := startNode(t, url, "second", 1)
	first.end(t)()
	// It may be started again: its runs wait for it.
	if row := second.row(t, "r-1"); row.Node != "first" {
		t.Fatalf("%q has the run", row.Node)
	}
	exec(t, second.st, `UPDATE nodes SET seen_at = now() - interval '1 minute' WHERE name = 'first'`)
	second.await(t, "r-1")
	if row := second.row(t, "r-1"); row.Node != "second" || string(row.State) != "s+" {
		t.Errorf("%q has the run, its state is %s", row.Node, row.State)
	}
	if nodes, err := second.st.Nodes(t.Context()); err != nil || len(nodes) != 1 {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
}

func TestNodeReturns(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first := startNode(t, url, "first", 1)
	first.begin(t, "r-1")
	first.await(t, "r-1")
	exec(t, first.st, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	<-first.returned
	if err := first.Present(); err != nil {
		t.Error(err)
	}
	for range len(first.ticked) {
		<-first.ticked
	}
	first.await(t, "r-1")
	if row := first.row(t, "r-1"); row.Node != "first" || string(row.State) != "s" {
		t.Errorf("%q has the run, its state is %s", row.Node, row.State)
	}
}

func TestNodeIsDrained(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first := startNode(t, url, "first", 1)
	first.begin(t, "r-1")
	first.await(t, "r-1")
	drain := func(yes bool) {
		t.Helper()
		if err := first.st.InTx(t.Context(), func(tx *store.Tx) error {
			return first.st.DrainNode(t.Context(), tx, "first", yes)
		}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the node to hear of it", func() bool { return first.Draining() == yes })
	}
	drain(true)
	if ok, err := first.st.OthersAccept(t.Context(), "first"); err != nil || ok {
		t.Errorf("another node takes runs: %t, %v", ok, err)
	}
	second := startNode(t, url, "second", 1)
	if ok, err := first.st.OthersAccept(t.Context(), "first"); err != nil || !ok {
		t.Errorf("another node takes runs: %t, %v", ok, err)
	}
	first.begin(t, "r-2")
	second.await(t, "r-2")
	if err := first.HandOver(t.Context(), "r-1"); err != nil {
		t.Fatal(err)
	}
	second.await(t, "r-1")
	drain(false)
	second.begin(t, "r-3")
	first.await(t, "r-3")
}

func TestOneNodeLeads(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first, second := startNode(t, url, "first", 1), startNode(t, url, "second", 1)
	if !first.Leads() || second.Leads() {
		t.Fatalf("first leads: %t, second leads: %t", first.Leads(), second.Leads())
	}
	first.end(t)()
	eventually(t, "the second to lead", second.Leads)
}

// eventually waits until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
