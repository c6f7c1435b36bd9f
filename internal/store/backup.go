package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// Backup writes a copy of the database file at path to a new file. It may be open
// elsewhere, and written to: the copy is the database as it was at one moment. Neither
// file's tables are changed. It returns ErrDamaged for a file that is not whole.
func Backup(ctx context.Context, path, to string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	db, err := openPool(path, 1, "deferred")
	if err != nil {
		return fmt.Errorf("back up %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, `VACUUM INTO ?`, to); err != nil {
		return fmt.Errorf("back up %s: %w", path, trouble(err))
	}
	if err := os.Chmod(to, 0o600); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	return nil
}

// Restored says that the database is the copy of an earlier moment: each run that has
// not ended gets the state that outdated makes of its own, and the
// effects of every run so far may have happened without being known. It returns how
// many runs have not ended.
func (s *Store) Restored(ctx context.Context, now time.Time, outdated func(state []byte) ([]byte, error)) (int, error) {
	rows, err := s.ActiveRuns(ctx)
	if err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	err = s.InTx(ctx, func(tx *Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO restores (at) VALUES (?)`, micros(now)); err != nil {
			return err
		}
		for _, r := range rows {
			state, err := outdated(r.State)
			if err != nil {
				return fmt.Errorf("run %s: %w", r.ID, err)
			}
			if _, err := tx.ExecContext(ctx,
				`UPDATE runs SET state = ? WHERE id = ?`, blob(state), r.ID); err != nil {
				return fmt.Errorf("run %s: %w", r.ID, err)
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	return len(rows), nil
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

// mayBeUnknown says whether an effect of this run, "" for none, may have happened after
// the backup that the database was restored from.
func mayBeUnknown(ctx context.Context, tx *Tx, id run.ID) (bool, error) {
	var unknown bool
	err := tx.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM restores
			WHERE ? = '' OR at >= (SELECT created_at FROM runs WHERE id = ?))`, id, id).Scan(&unknown)
	if err != nil {
		return false, fmt.Errorf("look for restores: %w", err)
	}
	return unknown, nil
}
