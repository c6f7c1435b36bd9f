package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Tx is a writing transaction. Whoever opened it ends it.
type Tx struct{ *sql.Tx }

// queryer and rowsQueryer are a pool of connections or a transaction.
type (
	queryer interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
	rowsQueryer interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
)

// inTx runs f in a transaction of the pool; see Store.InTx.
func inTx(ctx context.Context, db *sql.DB, f func(tx *Tx) error) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	// After a commit this changes nothing; it also runs when f panics.
	defer func() {
		rerr := tx.Rollback()
		if rerr != nil && !errors.Is(rerr, sql.ErrTxDone) && err == nil {
			err = fmt.Errorf("roll back: %w", rerr)
		}
	}()
	if err := f(&Tx{tx}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
