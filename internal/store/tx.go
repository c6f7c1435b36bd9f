package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Tx is a writing transaction. Whoever opened it ends it.
type Tx struct {
	*sql.Tx
	committed []func()
}

// AfterCommit has f called once the transaction is committed; if it is not, never.
func (t *Tx) AfterCommit(f func()) { t.committed = append(t.committed, f) }

// inTx runs f in a transaction of the pool; see Store.InTx.
func inTx(ctx context.Context, db *sql.DB, f func(tx *Tx) error) (err error) {
	begun, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	// After a commit this changes nothing; it also runs when f panics.
	defer func() {
		rerr := begun.Rollback()
		if rerr != nil && !errors.Is(rerr, sql.ErrTxDone) && err == nil {
			err = fmt.Errorf("roll back: %w", rerr)
		}
	}()
	tx := &Tx{Tx: begun}
	if err := f(tx); err != nil {
		return err
	}
	if err := begun.Commit(); err != nil {
		return fmt.Errorf("commit: %w", trouble(err))
	}
	for _, f := range tx.committed {
		f()
	}
	return nil
}
