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

// Digest says of the state of a run what stays when the run is removed: what it cost in
// dollars and how many iterations it had. The store does not look into states itself.
type Digest func(state []byte) (costUSD float64, iterations int, err error)

// pruning removes rows of one kind.
type pruning struct {
	// where chooses the rows, by one time: those from before it go.
	where  string
	before time.Time
	drop   func(ctx context.Context, tx *Tx, where string, before int64) (int64, error)
	count  *int64
}

// prunings are what Prune does, counting in p.
func (s *Store) prunings(now time.Time, digest Digest, p *Pruned) []pruning {
	return []pruning{
		{
			where:  "processed_at > 0 AND processed_at < ? AND length(body) > 0",
			before: now.Add(-KeepBodies), drop: dropBodies, count: &p.Bodies,
		},
		{
			where:  "processed_at > 0 AND labelled = '' AND received_at < ?",
			before: now.Add(-KeepDeliveries), drop: dropDeliveries, count: &p.Deliveries,
		},
		{
			where: "active = 0 AND ended_at < ?", before: now.Add(-KeepRuns), count: &p.Runs,
			drop: func(ctx context.Context, tx *Tx, where string, before int64) (int64, error) {
				return dropRuns(ctx, tx, where, before, digest)
			},
		},
	}
}

// Prune removes what is older than it is kept, in small transactions, and gives the
// room back to the file system. Of a run that is removed a row stays, see PastRuns. It
// ends between two transactions when ctx does.
func (s *Store) Prune(ctx context.Context, now time.Time, digest Digest) (Pruned, error) {
	var done Pruned
	for _, p := range s.prunings(now, digest, &done) {
		for n := int64(pruneBatch); n >= pruneBatch; {
			err := s.InTx(ctx, func(tx *Tx) (err error) {
				n, err = p.drop(ctx, tx, p.where, micros(p.before))
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

// dropBodies moves what is left of each row to the end of the table: at its
// place it would keep the page that its body needed nearly empty, and the file twice as
// large.
func dropBodies(ctx context.Context, tx *Tx, where string, before int64) (int64, error) {
	guids, err := texts[string](ctx, tx, `SELECT guid FROM deliveries WHERE `+where+` LIMIT ?`, before, pruneBatch)
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

func dropDeliveries(ctx context.Context, tx *Tx, where string, before int64) (int64, error) {
	return changed(tx.ExecContext(ctx, `DELETE FROM deliveries WHERE guid IN (
		SELECT guid FROM deliveries WHERE `+where+` LIMIT ?)`, before, pruneBatch))
}

// dropRuns removes runs with their effects, what people said to them, and what
// their requests cost in detail; the sums of that stay, and a row that says how each ended.
// What starts a run makes is named after it.
func dropRuns(ctx context.Context, tx *Tx, where string, before int64, digest Digest) (int64, error) {
	ids, err := texts[string](ctx, tx, `SELECT id FROM runs WHERE `+where+` LIMIT ?`, before, pruneBatch)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		var state []byte
		if err := tx.QueryRowContext(ctx, `SELECT state FROM runs WHERE id = ?`, id).Scan(&state); err != nil {
			return 0, fmt.Errorf("run %s: %w", id, err)
		}
		// A state that cannot be read any more keeps no run for ever.
		var cost float64
		var iterations int
		if state, err = unpacked(state); err == nil {
			cost, iterations, _ = digest(state)
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO past_runs (id, repo_owner, repo_name, repo_node, issue_number, end_reason, cost_usd, iterations,
				created_at, ended_at)
			SELECT id, repo_owner, repo_name, repo_node, issue_number, end_reason, ?, ?, created_at, updated_at
			FROM runs WHERE id = ?
			ON CONFLICT DO NOTHING`, cost, iterations, id); err != nil {
			return 0, fmt.Errorf("run %s: %w", id, err)
		}
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
