package store

import (
	"context"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// How long rows are kept.
const (
	// KeepBodies is how long the body of a webhook stays that was dealt with: nobody
	// reads it again, and most of the database would be bodies.
	KeepBodies = time.Hour
	// KeepDeliveries is how long the rest of it stays. GitHub redelivers for three days.
	KeepDeliveries = 30 * 24 * time.Hour
	// KeepRuns is how long a run stays that has ended, with all that belongs to it, and how
	// long what belongs to no run: what people said that came to nothing, and the answers.
	KeepRuns = 180 * 24 * time.Hour
)

// pruneBatch is how many rows go in one transaction, so that nobody waits long for
// the writer.
const pruneBatch = 500

// Pruned counts what Prune removed.
type Pruned struct {
	Bodies, Deliveries, Runs int64
}

// Prune removes what is older than it is kept, in small transactions, and gives the
// room back to the file system. It ends between two transactions when ctx does.
func (s *Store) Prune(ctx context.Context, now time.Time) (Pruned, error) {
	var done Pruned
	var others int64
	day := now.Add(-KeepRuns).UTC().Format(time.DateOnly)
	for _, p := range []struct {
		count *int64
		// drop removes at most pruneBatch rows, and says how many.
		drop func(ctx context.Context, tx *Tx) (int64, error)
	}{
		{&done.Bodies, func(ctx context.Context, tx *Tx) (int64, error) { return dropBodies(ctx, tx, now.Add(-KeepBodies)) }},
		{&done.Deliveries, dropRows(`DELETE FROM deliveries WHERE rowid IN (
			SELECT rowid FROM deliveries WHERE processed_at > 0 AND received_at < ? LIMIT ?)`, micros(now.Add(-KeepDeliveries)))},
		{&done.Runs, func(ctx context.Context, tx *Tx) (int64, error) { return dropRuns(ctx, tx, now.Add(-KeepRuns)) }},
		{&others, dropRows(`DELETE FROM effects WHERE rowid IN (
			SELECT rowid FROM effects WHERE run_id = '' AND created_at < ? LIMIT ?)`, micros(now.Add(-KeepRuns)))},
		{&others, dropRows(`DELETE FROM inputs WHERE rowid IN (
			SELECT rowid FROM inputs WHERE run_id = '' AND received_at < ? LIMIT ?)`, micros(now.Add(-KeepRuns)))},
		{&others, dropRows(`DELETE FROM spend_totals WHERE scope IN (
			SELECT scope FROM spend_totals WHERE scope >= 'day:' AND scope < 'day;' AND substr(scope, -10) < ? LIMIT ?)`, day)},
	} {
		for n := int64(pruneBatch); n >= pruneBatch; {
			err := s.InTx(ctx, func(tx *Tx) (err error) {
				n, err = p.drop(ctx, tx)
				return err
			})
			if err != nil {
				return done, fmt.Errorf("prune: %w", err)
			}
			*p.count += n
		}
	}
	if done != (Pruned{}) || others > 0 {
		if _, err := s.writer.ExecContext(ctx, `PRAGMA incremental_vacuum`); err != nil {
			return done, fmt.Errorf("prune: give room back: %w", err)
		}
	}
	return done, nil
}

// dropRows removes the rows that a statement chooses by an age and a number.
func dropRows(query string, before any) func(ctx context.Context, tx *Tx) (int64, error) {
	return func(ctx context.Context, tx *Tx) (int64, error) {
		return change(ctx, tx, "old rows", query, before, pruneBatch)
	}
}

// dropBodies moves what is left of each row to the end of the table: at its
// place it would keep the page that its body needed nearly empty, and the file twice as
// large.
func dropBodies(ctx context.Context, tx *Tx, before time.Time) (int64, error) {
	guids, err := list(ctx, tx, "bodies", column[string], `SELECT guid FROM deliveries
		WHERE processed_at > 0 AND processed_at < ? AND length(body) > 0 LIMIT ?`, micros(before), pruneBatch)
	if err != nil {
		return 0, err
	}
	for _, guid := range guids {
		if _, err := tx.ExecContext(ctx, `
			UPDATE deliveries SET body = ?, rowid = (SELECT max(rowid) + 1 FROM deliveries) WHERE guid = ?`,
			blob(nil), guid); err != nil {
			return 0, err
		}
	}
	return int64(len(guids)), nil
}

// dropRuns removes runs with their effects, what they took in of what people said, and what
// their requests cost. What the runs of an issue cost together goes with the last of them.
func dropRuns(ctx context.Context, tx *Tx, before time.Time) (int64, error) {
	ids, err := list(ctx, tx, "old runs", column[run.ID], `SELECT id FROM runs WHERE active = 0 AND ended_at < ? LIMIT ?`, micros(before),
		pruneBatch)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		for _, query := range []string{
			`DELETE FROM effects WHERE run_id = ?1`,
			`DELETE FROM inputs WHERE run_id = ?1`,
			`DELETE FROM spend_totals WHERE scope = (SELECT 'issue:' || issue_node FROM runs WHERE id = ?1)
				AND 1 = (SELECT count(*) FROM runs WHERE (repo_node, issue_number, issue_node) =
					(SELECT repo_node, issue_number, issue_node FROM runs WHERE id = ?1))`,
		} {
			if _, err := tx.ExecContext(ctx, query, string(id)); err != nil {
				return 0, fmt.Errorf("run %s: %w", id, err)
			}
		}
		if err := forgetRun(ctx, tx, id); err != nil {
			return 0, err
		}
	}
	return int64(len(ids)), nil
}
