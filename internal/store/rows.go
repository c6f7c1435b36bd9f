package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// querier is a pool of connections or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// list gives what scan reads of each row of a query. op is what errors name.
func list[T any](
	ctx context.Context, db querier, op string, scan func(func(...any) error) (T, error), query string, args ...any,
) (out []T, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		t, err := scan(rows.Scan)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		out = append(out, t)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return out, nil
}

// one gives what scan reads of the one row of a query; none is ErrNotFound.
func one[T any](
	ctx context.Context, db querier, op string, scan func(func(...any) error) (T, error), query string, args ...any,
) (T, error) {
	t, err := scan(db.QueryRowContext(ctx, query, args...).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", op, err)
	}
	return t, nil
}

// column reads rows of one column.
func column[T any](scan func(...any) error) (t T, err error) {
	err = scan(&t)
	return t, err
}

// change runs a statement, and says how many rows it changed.
func change(ctx context.Context, db querier, op, query string, args ...any) (int64, error) {
	res, err := db.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	return n, nil
}

// changeOne is change of one row; none is ErrNotFound.
func changeOne(ctx context.Context, db querier, op, query string, args ...any) error {
	n, err := change(ctx, db, op, query, args...)
	if err == nil && n == 0 {
		return fmt.Errorf("%s: %w", op, ErrNotFound)
	}
	return err
}
