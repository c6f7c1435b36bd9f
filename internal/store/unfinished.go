package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/org/ralph-action/internal/run"
)

// Keep stores the unfinished work of a run in the place of what was kept before. It
// is gone when the run has ended.
func (s *Store) Keep(ctx context.Context, id run.ID, tree string, data []byte) error {
	err := s.InTx(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO unfinished (run_id, tree, data) VALUES (?, ?, ?)
			ON CONFLICT (run_id) DO UPDATE SET tree = excluded.tree, data = excluded.data`, string(id), tree, data)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep unfinished work of %s: %w", id, err)
	}
	return nil
}

// Kept gives the unfinished work of a run back, nil where that tree is not kept.
func (s *Store) Kept(ctx context.Context, id run.ID, tree string) ([]byte, error) {
	var data []byte
	err := s.reader.QueryRowContext(ctx, `SELECT data FROM unfinished WHERE run_id = ? AND tree = ?`, string(id),
		tree).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read unfinished work of %s: %w", id, err)
	}
	return data, nil
}
