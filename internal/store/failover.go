package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/org/ralph-action/internal/run"
)

// failover is what is done when a standby has taken over; see FollowFailovers.
type failover struct {
	outdated func(state []byte) ([]byte, error)
	told     func(runs int)
}

// FollowFailovers has the database, when a standby has taken over that may lack what was committed
// last, be taken for a copy of an earlier moment; see Restored. That is so before anything else is
// written. told hears how many runs have not ended. On SQLite, and where PostgreSQL does not tell
// its timeline, it does nothing.
func (s *Store) FollowFailovers(ctx context.Context, outdated func(state []byte) ([]byte, error),
	told func(runs int)) error {
	if s.engine != Postgres {
		return nil
	}
	s.failover.Store(&failover{outdated, told})
	conn, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	return errors.Join(s.afterConnect(ctx, conn), conn.Close(ctx))
}

// afterConnect looks whether the server is the one that the rows were written to.
func (s *Store) afterConnect(ctx context.Context, conn *pgx.Conn) error {
	f := s.failover.Load()
	if f == nil {
		return nil
	}
	var timeline string
	err := conn.QueryRow(ctx, `SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`).Scan(&timeline)
	if err != nil {
		return nil //nolint:nilerr // some services do not say
	}
	runs := -1
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
		runs, err = f.follow(ctx, tx, timeline)
		return err
	})
	if err != nil {
		return fmt.Errorf("look whether a standby has taken over: %w", err)
	}
	if runs >= 0 {
		f.told(runs)
	}
	return nil
}

// follow says how many runs have not ended, -1 where no standby has taken over.
func (f *failover) follow(ctx context.Context, tx pgx.Tx, timeline string) (int, error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lockWrites); err != nil {
		return -1, err
	}
	var known string
	err := tx.QueryRow(ctx, `SELECT name FROM timeline`).Scan(&known)
	if errors.Is(err, pgx.ErrNoRows) {
		_, err = tx.Exec(ctx, `INSERT INTO timeline (name) VALUES ($1)`, timeline)
		return -1, err
	}
	if err != nil || known == timeline {
		return -1, err
	}
	rows, err := tx.Query(ctx, `SELECT id, state FROM runs WHERE active = 1`)
	if err != nil {
		return -1, err
	}
	states := map[run.ID][]byte{}
	var id run.ID
	var state []byte
	if _, err := pgx.ForEachRow(rows, []any{&id, &state}, func() error {
		outdated, err := f.outdated(filled(state))
		states[id] = outdated
		return err
	}); err != nil {
		return -1, err
	}
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE timeline SET name = $1`, timeline)
	batch.Queue(`INSERT INTO restores (at) VALUES ($1)`, micros(time.Now()))
	batch.Queue(`DELETE FROM places WHERE run_id IN (SELECT id FROM runs WHERE active = 1)`)
	for id, state := range states {
		batch.Queue(`UPDATE runs SET state = $1, lease_owner = '', lease_until = 0, generation = generation + 2
			WHERE id = $2`, blob(state), id)
	}
	return len(states), tx.SendBatch(ctx, batch).Close()
}

// LastRestore is when the database was last found to be a copy of an earlier moment, the zero time
// for never.
func (s *Store) LastRestore(ctx context.Context) (time.Time, error) {
	var at int64
	if err := s.reader.QueryRowContext(ctx, `SELECT coalesce(max(at), 0) FROM restores`).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("look for restores: %w", err)
	}
	return fromMicros(at), nil
}
