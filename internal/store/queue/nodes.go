package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// moveBatch is how many runs are moved in one transaction.
const moveBatch = 50

// queueOf is the name of River's queue for the jobs of a node's runs. Those of runs that no node
// has, and all webhooks, are in the queue that every process works.
func queueOf(node string) string {
	if node == "" {
		return river.QueueDefault
	}
	sum := sha256.Sum256([]byte(node))
	return "node-" + hex.EncodeToString(sum[:12])
}

// queueOfRun is the queue for the jobs of a run.
func (q *Queue) queueOfRun(ctx context.Context, tx *store.Tx, id run.ID) (string, error) {
	if q.node == "" {
		return river.QueueDefault, nil
	}
	node, err := q.st.NodeOf(ctx, tx, id)
	return queueOf(node), err
}

// takeOverNodes takes the runs from nodes that are gone, so that others go on with them.
func (q *Queue) takeOverNodes(ctx context.Context) error {
	// When all have been away, one that comes back first leaves the others the time to do so.
	if !q.presence().sure() || time.Since(q.began) < store.NodeGone {
		return nil
	}
	gone, err := q.st.GoneNodes(ctx, nil)
	if err != nil {
		return err
	}
	var errs []error
	for _, node := range gone {
		runs, err := q.moveAll(ctx, node)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if runs > 0 {
			q.log.Warn().Str("node", node).Int("runs", runs).Msg("queue: a node is gone; its runs go on elsewhere")
		}
	}
	return errors.Join(errs...)
}

// moveAll moves the runs of a node that is gone.
func (q *Queue) moveAll(ctx context.Context, node string) (moved int, err error) {
	for more := true; more; {
		err := q.st.InTx(ctx, func(tx *store.Tx) error {
			// Or a node that comes back just now would go on beside those that have its runs.
			if err := q.st.LockNode(ctx, tx, node); err != nil {
				return err
			}
			gone, err := q.st.GoneNodes(ctx, tx)
			if err != nil {
				return err
			}
			if more = slices.Contains(gone, node); !more {
				return nil // it is back, or another process has moved the rest
			}
			ids, err := q.st.RunsOfNode(ctx, tx, node)
			if err != nil {
				return err
			}
			more = len(ids) > moveBatch
			for _, id := range ids[:min(len(ids), moveBatch)] {
				if err := q.st.MoveRun(ctx, tx, id, node, q.moved); err != nil {
					return err
				}
				moved++
			}
			if more {
				return nil
			}
			if err := reroute(ctx, tx, `queue = $1`, queueOf(node)); err != nil {
				return err
			}
			return q.st.ForgetNode(ctx, tx, node)
		})
		if err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// reroute has every process work the jobs that where holds for.
func reroute(ctx context.Context, tx *store.Tx, where string, args ...any) error {
	return tx.Conn(func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, `UPDATE river_job SET queue = '`+river.QueueDefault+`'
			WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled') AND `+where, args...)
		return err
	})
}

// HandOver takes a run from this node, under its lease, so that another goes on with it.
func (q *Queue) HandOver(ctx context.Context, id run.ID) error {
	return q.st.InTx(ctx, func(tx *store.Tx) error {
		if err := q.st.MoveRun(ctx, tx, id, q.node, q.moved); err != nil {
			return err
		}
		return reroute(ctx, tx, `queue = $1 AND args ->> 'run_id' = $2`, queueOf(q.node), string(id))
	})
}

// cleanUp tells of each return after an absence.
func (q *Queue) cleanUp() func(context.Context) error {
	done := 0
	return func(ctx context.Context) error {
		n := q.presence().absences()
		if n == done || q.returned == nil {
			return nil
		}
		if err := q.returned(ctx); err != nil {
			return err
		}
		done = n
		return nil
	}
}
