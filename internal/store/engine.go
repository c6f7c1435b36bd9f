package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Engine is what keeps the tables.
type Engine string

// The engines.
const (
	SQLite   Engine = "sqlite"
	Postgres Engine = "postgres"
)

// statements runs those of a pool or a transaction. All are written as SQLite takes them, with
// ? or ?1 for arguments, and in words that PostgreSQL has as well.
type statements struct {
	on interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
	engine Engine
}

// ExecContext runs a statement.
func (s statements) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	query, args = s.engine.statement(query, args)
	return s.on.ExecContext(ctx, query, args...)
}

// QueryContext runs a query.
func (s statements) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = s.engine.statement(query, args)
	return s.on.QueryContext(ctx, query, args...)
}

// QueryRowContext runs a query of one row.
func (s statements) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	query, args = s.engine.statement(query, args)
	return s.on.QueryRowContext(ctx, query, args...)
}

// pool is some connections to a database.
type pool struct {
	statements

	db *sql.DB
	// lock is what PostgreSQL has transactions of this pool take turns by, 0 for nothing.
	// Those of SQLite take turns in any case.
	lock int64
}

func newPool(db *sql.DB, engine Engine, size int, lock int64) *pool {
	db.SetMaxOpenConns(size)
	return &pool{statements{db, engine}, db, lock}
}

// Close closes the connections; transactions that are open end first.
func (p *pool) Close() error { return p.db.Close() }

// The keys of advisory locks in PostgreSQL.
const (
	lockWrites int64 = 0x7261_6c70_6801 + iota
	lockSpend
	lockMigrate
)

// Tx is a writing transaction.
type Tx struct {
	statements

	tx *sql.Tx
	// conn is the connection that it is open on, nil on SQLite.
	conn *sql.Conn
}

// queryer and rowsQueryer are a pool or a transaction.
type (
	queryer interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
	rowsQueryer interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
)

// SQL is the transaction as database/sql knows it, for the queue on SQLite.
func (t *Tx) SQL() *sql.Tx { return t.tx }

// Conn gives f the connection of the transaction, for the queue on PostgreSQL.
func (t *Tx) Conn(f func(*pgx.Conn) error) error {
	if t.conn == nil {
		return errors.New("the transaction is none of PostgreSQL")
	}
	return t.conn.Raw(func(driver any) error {
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("the connection is a %T", driver)
		}
		if c.Conn().PgConn().TxStatus() == 'I' {
			return sql.ErrTxDone // what f does would be no part of it
		}
		return f(c.Conn())
	})
}

// inTx runs f in a transaction of the pool; see Store.InTx.
func (p *pool) inTx(ctx context.Context, f func(tx *Tx) error) error {
	return p.transact(ctx, nil, f)
}

// snapshot runs f, which only reads, in a transaction that sees one moment.
func (p *pool) snapshot(ctx context.Context, f func(tx *Tx) error) error {
	var opts *sql.TxOptions
	if p.engine == Postgres {
		opts = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return p.transact(ctx, opts, f)
}

func (p *pool) transact(ctx context.Context, opts *sql.TxOptions, f func(tx *Tx) error) (err error) {
	t := &Tx{statements: statements{engine: p.engine}}
	if p.engine == Postgres {
		if t.conn, err = p.db.Conn(ctx); err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		defer func() {
			if cerr := t.conn.Close(); cerr != nil && !errors.Is(cerr, sql.ErrConnDone) {
				err = errors.Join(err, fmt.Errorf("give the connection back: %w", cerr))
			}
		}()
		t.tx, err = t.conn.BeginTx(ctx, opts)
	} else {
		t.tx, err = p.db.BeginTx(ctx, opts)
	}
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	t.on = t.tx
	// After a commit this changes nothing; it also runs when f panics. A connection that
	// broke has rolled back.
	defer func() {
		rerr := t.tx.Rollback()
		if rerr != nil && !errors.Is(rerr, sql.ErrTxDone) && err == nil {
			err = fmt.Errorf("roll back: %w", rerr)
		}
	}()
	if p.engine == Postgres && p.lock != 0 {
		if _, err := t.tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, p.lock); err != nil {
			return fmt.Errorf("wait for the turn to write: %w", err)
		}
	}
	if err := f(t); err != nil {
		return err
	}
	if err := t.tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// numbered are the texts of statements for PostgreSQL, by those for SQLite.
var numbered sync.Map

// statement is a statement and its arguments as the engine takes them.
func (e Engine) statement(query string, args []any) (string, []any) {
	if e != Postgres {
		return query, args
	}
	v, _ := numbered.Load(query)
	text, ok := v.(string)
	if !ok {
		text = number(query)
		numbered.Store(query, text)
	}
	out := make([]any, len(args))
	for i, arg := range args {
		out[i] = argument(arg)
	}
	return text, out
}

// number writes $1 for ?1, and $1, $2 for ?, ?. No statement has a question mark elsewhere.
func number(query string) string {
	var b strings.Builder
	n := 0
	for {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('$')
		if after == "" || after[0] < '1' || after[0] > '9' {
			n++
			b.WriteString(strconv.Itoa(n))
		}
		query = after
	}
}

// lower is a text as SQL's lower makes it on both engines: only the letters of ASCII change.
func lower(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r - 'A' + 'a'
		}
		return r
	}, text)
}

// argument is a value that PostgreSQL takes as SQLite would: flags are numbers, and a text
// is UTF-8 without a byte 0.
func argument(v any) any {
	switch v := v.(type) {
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case string:
		return strings.ReplaceAll(strings.ToValidUTF8(v, "\uFFFD"), "\x00", "\uFFFD")
	default:
		return v
	}
}
