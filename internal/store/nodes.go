package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// NodeGone is how long a node must not have been seen for its runs to go on elsewhere. A server
// that is started again within that time has them still.
const NodeGone = 15 * time.Second

// gone is NodeGone as the statements have it. Times are those of the database's clock: the
// nodes' own need not agree.
const gone = `interval '15 seconds'`

// Node is one of the servers that share a database in PostgreSQL: a data directory, and whichever
// process has it.
type Node struct {
	Name    string
	Version string
	// Agents is how many agents and checks it takes at once, and Working how many are at work.
	Agents, Working int
	// Runs are those it has which have not ended.
	Runs int
	// Draining: it takes no more runs, and gives away those it has once nothing of them is at work.
	Draining bool
	// Gone: it was not seen for NodeGone.
	Gone              bool
	StartedAt, SeenAt time.Time
}

// Nodes lists the nodes, by name.
func (s *Store) Nodes(ctx context.Context) (out []Node, err error) {
	if s.engine != Postgres {
		return nil, nil
	}
	err = each(ctx, s.reader, `
		SELECT name, version, agents, draining, seen_at < clock_timestamp() - `+gone+`, started_at, seen_at,
			(SELECT count(*) FROM runs WHERE active = 1 AND node = name),
			(SELECT count(*) FROM places JOIN runs ON id = run_id WHERE granted_at > 0 AND node = name)
		FROM nodes ORDER BY name`, func(scan func(...any) error) error {
		var n Node
		var draining int
		if err := scan(&n.Name, &n.Version, &n.Agents, &draining, &n.Gone, &n.StartedAt, &n.SeenAt, &n.Runs,
			&n.Working); err != nil {
			return err
		}
		n.Draining, n.StartedAt, n.SeenAt = draining == 1, n.StartedAt.UTC(), n.SeenAt.UTC()
		out = append(out, n)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return out, nil
}

// DrainNode has a node take no more runs, or take some again; ErrNotFound where there is none.
func (s *Store) DrainNode(ctx context.Context, tx *Tx, name string, drain bool) error {
	res, err := tx.ExecContext(ctx, `UPDATE nodes SET draining = ? WHERE name = ?`, drain, name)
	if err != nil {
		return fmt.Errorf("drain node %s: %w", name, err)
	}
	return mustAffect(res, "drain node "+name, ErrNotFound)
}

// accepting are the nodes that take runs, the one first that has the fewest for what it takes.
const accepting = `SELECT name FROM nodes WHERE draining = 0 AND seen_at > clock_timestamp() - ` + gone + `
	ORDER BY (SELECT count(*) FROM runs AS had WHERE had.active = 1 AND had.node = name)::float8 / greatest(agents, 1),
		name`

// AssignRun gives a run that no node has to the one that has the fewest for what it takes, and
// returns the node that the run has then: "" where no node takes any.
func (s *Store) AssignRun(ctx context.Context, tx *Tx, id run.ID) (node string, err error) {
	err = tx.QueryRowContext(ctx, `
		UPDATE runs SET node = coalesce((`+accepting+` LIMIT 1), '')
		WHERE id = ? AND node = '' RETURNING node`, id).Scan(&node)
	if errors.Is(err, sql.ErrNoRows) {
		node, err = s.NodeOf(ctx, tx, id)
	}
	if err != nil {
		return "", fmt.Errorf("assign run %s: %w", id, err)
	}
	return node, nil
}

// OthersAccept says whether a node other than this one takes runs.
func (s *Store) OthersAccept(ctx context.Context, node string) (ok bool, err error) {
	if s.engine != Postgres {
		return false, nil
	}
	err = s.reader.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM (`+accepting+`) AS takes WHERE name <> ?)`, node).Scan(&ok)
	if err != nil {
		return false, fmt.Errorf("look for other nodes: %w", err)
	}
	return ok, nil
}

// NodeOf is the node that has a run, "" for none, or where there is no such run.
func (s *Store) NodeOf(ctx context.Context, tx *Tx, id run.ID) (node string, err error) {
	err = tx.QueryRowContext(ctx, `SELECT node FROM runs WHERE id = ?`, id).Scan(&node)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("look who has run %s: %w", id, err)
	}
	return node, nil
}

// GoneNodes are the nodes that are gone and have not been forgotten; tx may be nil.
func (s *Store) GoneNodes(ctx context.Context, tx *Tx) (names []string, err error) {
	var db rowsQueryer = s.reader
	if tx != nil {
		db = tx
	}
	names, err = texts(ctx, db, `
		SELECT name FROM nodes WHERE seen_at < clock_timestamp() - `+gone+`
		UNION SELECT node FROM runs WHERE active = 1 AND node <> '' AND node NOT IN (SELECT name FROM nodes)`)
	if err != nil {
		return nil, fmt.Errorf("look for nodes that are gone: %w", err)
	}
	return names, nil
}

// ForgetNode forgets a node that is gone, with its part in runs that have ended.
func (s *Store) ForgetNode(ctx context.Context, tx *Tx, name string) error {
	for _, q := range []string{`UPDATE runs SET node = '' WHERE node = ?`, `DELETE FROM nodes WHERE name = ?`} {
		if _, err := tx.ExecContext(ctx, q, name); err != nil {
			return fmt.Errorf("forget node %s: %w", name, err)
		}
	}
	return nil
}

// LockNode has signs of life of a node wait for the transaction.
func (s *Store) LockNode(ctx context.Context, tx *Tx, name string) error {
	if _, err := texts(ctx, tx, `SELECT name FROM nodes WHERE name = ? FOR UPDATE`, name); err != nil {
		return fmt.Errorf("lock node %s: %w", name, err)
	}
	return nil
}

// MoveRun takes a run from its node, if it still has it, so that another goes on with the state that moved makes of
// the run's own. Its places are free, and its requests to models that are not settled stay charged
// and are its last: what is still at work on the node is no part of the run.
func (s *Store) MoveRun(ctx context.Context, tx *Tx, id run.ID, node string,
	moved func(state []byte) ([]byte, error)) error {
	var state []byte
	err := tx.QueryRowContext(ctx, `
		SELECT state FROM runs WHERE id = ? AND active = 1 AND node = ?`, id, node).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // it has ended, or another node has it
	}
	if err == nil {
		state, err = moved(filled(state))
	}
	if err != nil {
		return fmt.Errorf("move run %s: %w", id, err)
	}
	if _, err := tx.ExecContext(ctx, `
		UPDATE runs SET node = '', state = ?, lease_owner = '', lease_until = 0, generation = generation + 1
		WHERE id = ?`,
		blob(state), id); err != nil {
		return fmt.Errorf("move run %s: %w", id, err)
	}
	for _, q := range []string{
		`DELETE FROM places WHERE run_id = ?1`,
		`UPDATE spend_starts SET ended = 1 WHERE name >= ?1 || '-' AND name < ?1 || '.'`,
	} {
		if _, err := tx.ExecContext(ctx, q, id); err != nil {
			return fmt.Errorf("move run %s: %w", id, err)
		}
	}
	return nil
}

// RunsOfNode are the runs of a node that have not ended.
func (s *Store) RunsOfNode(ctx context.Context, tx *Tx, node string) ([]run.ID, error) {
	names, err := texts(ctx, tx, `SELECT id FROM runs WHERE active = 1 AND node = ? ORDER BY created_at, rowid`, node)
	if err != nil {
		return nil, fmt.Errorf("runs of node %s: %w", node, err)
	}
	out := make([]run.ID, len(names))
	for i, id := range names {
		out[i] = run.ID(id)
	}
	return out, nil
}
