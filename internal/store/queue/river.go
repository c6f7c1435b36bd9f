package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/org/ralph-action/internal/store"
)

// jobs is River on one of the store's engines.
type jobs interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	executor() riverdriver.Executor
	insert(ctx context.Context, tx *store.Tx, args river.JobArgs, queue string) (*rivertype.JobInsertResult, error)
	insertMany(ctx context.Context, tx *store.Tx, many []river.InsertManyParams) error
	retry(ctx context.Context, tx *store.Tx, id int64) error
	complete(ctx context.Context, tx *store.Tx, job *rivertype.JobRow) error
}

// client is River with the transactions T of a driver.
type client[D riverdriver.Driver[T], T any] struct {
	*river.Client[T]
	driver D
	// join gives f a transaction of the store as the driver knows it.
	join func(tx *store.Tx, f func(T) error) error
}

// openJobs prepares River's tables and gives a client for the store's engine.
func openJobs(ctx context.Context, st *store.Store, cfg *river.Config) (jobs, error) {
	if st.Engine() == store.Postgres {
		return openClient(ctx, st, riverpgxv5.New(st.Connections()), cfg,
			func(tx *store.Tx, f func(pgx.Tx) error) error {
				return tx.Conn(func(c *pgx.Conn) error { return f(joined{c}) })
			})
	}
	return openClient(ctx, st, riversqlite.New(st.DB()), cfg,
		func(tx *store.Tx, f func(*sql.Tx) error) error { return f(tx.SQL()) })
}

func openClient[D riverdriver.Driver[T], T any](ctx context.Context, st *store.Store, driver D, cfg *river.Config,
	join func(tx *store.Tx, f func(T) error) error) (jobs, error) {
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	if err := st.Exclusively(ctx, func(ctx context.Context) error {
		_, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	}); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	c, err := river.NewClient(driver, cfg)
	if err != nil {
		return nil, err
	}
	return &client[D, T]{c, driver, join}, nil
}

func (c *client[D, T]) executor() riverdriver.Executor { return c.driver.GetExecutor() }

func (c *client[D, T]) insert(ctx context.Context, tx *store.Tx,
	args river.JobArgs, queue string) (res *rivertype.JobInsertResult, err error) {
	err = c.join(tx, func(tx T) (err error) {
		res, err = c.InsertTx(ctx, tx, args, &river.InsertOpts{Queue: queue})
		return err
	})
	return res, err
}

func (c *client[D, T]) insertMany(ctx context.Context, tx *store.Tx, many []river.InsertManyParams) error {
	return c.join(tx, func(tx T) error {
		_, err := c.InsertManyTx(ctx, tx, many)
		return err
	})
}

func (c *client[D, T]) retry(ctx context.Context, tx *store.Tx, id int64) error {
	return c.join(tx, func(tx T) error {
		_, err := c.JobRetryTx(ctx, tx, id)
		return err
	})
}

func (c *client[D, T]) complete(ctx context.Context, tx *store.Tx, job *rivertype.JobRow) error {
	return c.join(tx, func(tx T) error {
		_, err := river.JobCompleteTx[D](ctx, tx, &river.Job[advanceArgs]{JobRow: job})
		return err
	})
}

// joined is a transaction of the store as pgx knows it: the connection that it is open on.
// Whoever opened it ends it.
type joined struct{ conn *pgx.Conn }

var errJoined = errors.New("queue: the transaction is not the queue's to end")

// Begin implements pgx.Tx, by a savepoint.
func (j joined) Begin(ctx context.Context) (pgx.Tx, error) {
	if _, err := j.conn.Exec(ctx, `SAVEPOINT queue`); err != nil {
		return nil, err
	}
	return &savepoint{joined: j}, nil
}

// Commit implements pgx.Tx.
func (j joined) Commit(context.Context) error { return errJoined }

// Rollback implements pgx.Tx.
func (j joined) Rollback(context.Context) error { return errJoined }

// CopyFrom implements pgx.Tx.
func (j joined) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string,
	rows pgx.CopyFromSource) (int64, error) {
	return j.conn.CopyFrom(ctx, table, columns, rows)
}

// SendBatch implements pgx.Tx.
func (j joined) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return j.conn.SendBatch(ctx, b)
}

// LargeObjects implements pgx.Tx; there are none.
func (j joined) LargeObjects() pgx.LargeObjects { return pgx.LargeObjects{} }

// Prepare implements pgx.Tx.
func (j joined) Prepare(ctx context.Context, name, query string) (*pgconn.StatementDescription, error) {
	return j.conn.Prepare(ctx, name, query)
}

// Exec implements pgx.Tx.
func (j joined) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	return j.conn.Exec(ctx, query, args...)
}

// Query implements pgx.Tx.
func (j joined) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	return j.conn.Query(ctx, query, args...)
}

// QueryRow implements pgx.Tx.
func (j joined) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return j.conn.QueryRow(ctx, query, args...)
}

// Conn implements pgx.Tx.
func (j joined) Conn() *pgx.Conn { return j.conn }

// savepoint is a part of a joined transaction.
type savepoint struct {
	joined

	done bool
}

// Commit implements pgx.Tx.
func (s *savepoint) Commit(ctx context.Context) error {
	if s.done {
		return pgx.ErrTxClosed
	}
	s.done = true
	_, err := s.conn.Exec(ctx, `RELEASE SAVEPOINT queue`)
	return err
}

// Rollback implements pgx.Tx.
func (s *savepoint) Rollback(ctx context.Context) error {
	if s.done {
		return pgx.ErrTxClosed
	}
	s.done = true
	_, err := s.conn.Exec(ctx, `ROLLBACK TO SAVEPOINT queue`)
	if err == nil {
		_, err = s.conn.Exec(ctx, `RELEASE SAVEPOINT queue`)
	}
	return err
}
