package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// How long rows are kept.
const (
	// KeepBodies is how long the body of a webhook stays that was dealt with: nobody
	// reads it again, and most of the database would be bodies.
	KeepBodies = time.Hour
	// KeepDeliveries is how long the rest of it stays. GitHub redelivers for three days.
	// What gave an issue a label stays: without it the label would count as missed.
	KeepDeliveries = 30 * 24 * time.Hour
	// KeepRuns is how long a run stays that has ended, with all that belongs to it.
	KeepRuns = 180 * 24 * time.Hour
)

// pruneBatch is how many rows go in one transaction, so that nobody waits long for
// the writer.
const pruneBatch = 500

// Pruned counts what Prune removed.
type Pruned struct {
	Bodies, Deliveries, Runs int64
}

// prunings are what Prune does, each with the time before which it applies.
func (p *Pruned) prunings(now time.Time) []pruning {
	return []pruning{
		{&p.Bodies, now.Add(-KeepBodies), "processed_at > 0 AND processed_at < ? AND length(body) > 0", (*Store).dropBodies},
		{
			&p.Deliveries, now.Add(-KeepDeliveries), "processed_at > 0 AND labelled = '' AND received_at < ?",
			(*Store).dropDeliveries,
		},
		{&p.Runs, now.Add(-KeepRuns), "active = 0 AND updated_at < ?", (*Store).dropRuns},
	}
}

// pruning removes rows of one kind.
type pruning struct {
	count  *int64
	before time.Time
	// where chooses the rows, by one time.
	where string
	drop  func(s *Store, ctx context.Context, tx *sql.Tx, where string, before int64) (int64, error)
}

// Prune removes what is older than it is kept, in small transactions, and gives the
// room back to the file system. It ends between two of them when ctx does.
func (s *Store) Prune(ctx context.Context, now time.Time) (Pruned, error) {
	var done Pruned
	for _, p := range done.prunings(now) {
		for n := int64(pruneBatch); n >= pruneBatch; {
			err := s.InTx(ctx, func(tx *sql.Tx) (err error) {
				n, err = p.drop(s, ctx, tx, p.where, micros(p.before))
				return err
			})
			if err != nil {
				return done, fmt.Errorf("prune: %w", err)
			}
			*p.count += n
		}
	}
	if done != (Pruned{}) {
		if _, err := s.writer.ExecContext(ctx, `PRAGMA incremental_vacuum`); err != nil {
			return done, fmt.Errorf("prune: give room back: %w", err)
		}
	}
	return done, nil
}

// Prunable says what Prune would remove.
func (s *Store) Prunable(ctx context.Context, now time.Time) (Pruned, error) {
	var found Pruned
	for i, p := range found.prunings(now) {
		table := "deliveries"
		if i == 2 {
			table = "runs"
		}
		if err := s.reader.QueryRowContext(ctx, `SELECT count(*) FROM `+table+` WHERE `+p.where,
			micros(p.before)).Scan(p.count); err != nil {
			return Pruned{}, fmt.Errorf("look for what to prune: %w", err)
		}
	}
	return found, nil
}

func (s *Store) dropBodies(ctx context.Context, tx *sql.Tx, where string, before int64) (int64, error) {
	return changed(tx.ExecContext(ctx, `UPDATE deliveries SET body = x'' WHERE guid IN (
		SELECT guid FROM deliveries WHERE `+where+` LIMIT ?)`, before, pruneBatch))
}

func (s *Store) dropDeliveries(ctx context.Context, tx *sql.Tx, where string, before int64) (int64, error) {
	return changed(tx.ExecContext(ctx, `DELETE FROM deliveries WHERE guid IN (
		SELECT guid FROM deliveries WHERE `+where+` LIMIT ?)`, before, pruneBatch))
}

// dropRuns removes runs with their effects, what people said to them, and what their
// requests cost in detail; the sums of that stay. What starts a run makes is named
// after it.
func (s *Store) dropRuns(ctx context.Context, tx *sql.Tx, where string, before int64) (int64, error) {
	ids, err := texts(ctx, tx, `SELECT id FROM runs WHERE `+where+` LIMIT ?`, before, pruneBatch)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		for _, q := range []string{
			`DELETE FROM effects WHERE run_id = ?1`,
			`DELETE FROM inputs WHERE run_id = ?1 AND state <> 'pending'`,
			`DELETE FROM spend_hosts WHERE start >= ?1 || '-' AND start < ?1 || '.'`,
			`DELETE FROM spend_refusals WHERE start >= ?1 || '-' AND start < ?1 || '.'`,
			`DELETE FROM spend_requests WHERE start >= ?1 || '-' AND start < ?1 || '.'`,
			`DELETE FROM spend_starts WHERE name >= ?1 || '-' AND name < ?1 || '.'`,
			`DELETE FROM runs WHERE id = ?1`,
		} {
			if _, err := tx.ExecContext(ctx, q, id); err != nil {
				return 0, fmt.Errorf("run %s: %w", id, err)
			}
		}
	}
	return int64(len(ids)), nil
}

// changed is how many rows a statement changed.
func changed(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
