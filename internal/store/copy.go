package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/org/ralph-action/internal/history"
)

// ErrNotEmpty: the database that was to be copied to holds something else.
var ErrNotEmpty = errors.New("store: the database holds something else")

// Copied is what became of one table in Copy.
type Copied struct {
	Table string
	Rows  int64
	// SHA256 is the hash of all rows, the same on both sides.
	SHA256 string
}

// copied are the tables that are copied, those that others refer to before these, each with
// what its rows are ordered by. What the queue has is not: it finds its work in the others.
func copied() []struct{ table, order string } {
	return []struct{ table, order string }{
		{"deliveries", "rowid"}, {"runs", "rowid"}, {"effects", "rowid"}, {"refusals", "repo_node, issue_number, person"},
		{"lessons", "id"}, {"spend_starts", "name"}, {"spend_requests", "id"}, {"spend_totals", "scope"},
		{"spend_refusals", "id"}, {"spend_hosts", "id"}, {"inputs", "id"}, {"unfinished", "run_id"}, {"places", "process"},
		{"turns", "name"}, {"holds", "name"}, {"decisions", "id"}, {"past_runs", "created_at, id"}, {"restores", "at"},
		{"blobs", "id"}, {"blob_chunks", "blob, n"},
	}
}

// Copy writes all that is in one database into another, which is in PostgreSQL, in one
// transaction, and compares the two. Where the other holds that already it changes nothing;
// where it holds something else it returns ErrNotEmpty, unless replace has it emptied
// first. The database that is copied must not be written to meanwhile by anybody who does
// not expect to lose that.
//
// node is the one whose disk the runs are on.
func Copy(ctx context.Context, from, to *Store, node string, replace bool) (done []Copied, err error) {
	if to.engine != Postgres {
		return nil, errors.New("copy the database: only PostgreSQL can be copied to")
	}
	err = from.reader.snapshot(ctx, func(src *Tx) error {
		return to.InTx(ctx, func(dst *Tx) (err error) {
			if done, err = copyAll(ctx, src, dst, replace); err != nil {
				return err
			}
			if _, err := dst.ExecContext(ctx, `UPDATE runs SET node = ? WHERE active = 1`, node); err != nil {
				return fmt.Errorf("note the node: %w", err)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("copy the database: %w", err)
	}
	return done, nil
}

func copyAll(ctx context.Context, src, dst *Tx, replace bool) ([]Copied, error) {
	// Nothing else is at work there: rows go to one transaction for as long as it takes.
	if _, err := dst.ExecContext(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
		return nil, err
	}
	if _, err := dst.ExecContext(ctx, `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
		return nil, err
	}
	var want []Copied
	same, empty := true, true
	for _, t := range copied() {
		at, err := digest(ctx, src, t.table, t.order)
		if err != nil {
			return nil, err
		}
		want = append(want, at)
		there, err := digest(ctx, dst, t.table, t.order)
		if err != nil {
			return nil, err
		}
		same = same && there == at
		empty = empty && there.Rows == 0
	}
	switch {
	case same:
		return want, nil
	case !empty && !replace:
		return nil, ErrNotEmpty
	case !empty:
		if err := clearTables(ctx, dst); err != nil {
			return nil, err
		}
	}
	for i, t := range copied() {
		if err := copyTable(ctx, src, dst, t.table, t.order); err != nil {
			return nil, fmt.Errorf("%s: %w", t.table, err)
		}
		there, err := digest(ctx, dst, t.table, t.order)
		if err != nil {
			return nil, err
		}
		if there != want[i] {
			return nil, fmt.Errorf("%s: %d rows arrived as %d others", t.table, want[i].Rows, there.Rows)
		}
	}
	return want, indexLessons(ctx, dst)
}

func clearTables(ctx context.Context, dst *Tx) error {
	names := []string{"lessons_words"}
	for _, t := range copied() {
		names = append(names, t.table)
	}
	_, err := dst.ExecContext(ctx, `TRUNCATE `+strings.Join(names, ", "))
	return err
}

// eachRow hands the values of each row of a table to f, as PostgreSQL has them. The values
// are f's until it returns.
func eachRow(ctx context.Context, tx *Tx, table, order string, names []string, f func(values []any) error) error {
	values, into := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	return each(ctx, tx, `SELECT `+strings.Join(names, ", ")+` FROM `+table+` ORDER BY `+order,
		func(scan func(...any) error) error {
			if err := scan(into...); err != nil {
				return err
			}
			for i, v := range values {
				values[i] = argument(v)
			}
			return f(values)
		})
}

// columns are those of a table that a copy has, which may be in another order elsewhere.
func columns(ctx context.Context, tx *Tx, table, order string) (names []string, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT * FROM `+table+` LIMIT 0`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if names, err = rows.Columns(); err != nil {
		return nil, err
	}
	if tx.engine == SQLite && order == "rowid" { // which * leaves out there
		names = append(names, "rowid")
	}
	return names, rows.Err()
}

func copyTable(ctx context.Context, src, dst *Tx, table, order string) error {
	names, err := columns(ctx, src, table, order)
	if err != nil {
		return err
	}
	rows := make(chan []any)
	read := make(chan error, 1)
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(rows)
		read <- eachRow(reading, src, table, order, names, func(values []any) error {
			row := make([]any, len(values))
			for i, v := range values {
				if b, ok := v.([]byte); ok || v == nil { // an empty blob of SQLite is nothing
					v = append([]byte{}, b...)
				}
				row[i] = v
			}
			select {
			case rows <- row:
				return nil
			case <-reading.Done():
				return context.Cause(reading)
			}
		})
	}()
	err = dst.Conn(func(c *pgx.Conn) error {
		next := func() ([]any, error) { return <-rows, nil }
		_, err := c.CopyFrom(ctx, pgx.Identifier{table}, names, pgx.CopyFromFunc(next))
		return err
	})
	cancel()
	for range rows { // what was read and not written
	}
	if rerr := <-read; err == nil {
		err = rerr
	}
	if err != nil {
		return err
	}
	if order != "rowid" && order != "id" {
		return nil
	}
	// The next number is one that no row has.
	_, err = dst.ExecContext(ctx, `SELECT setval(pg_get_serial_sequence(?, ?),
		(SELECT coalesce(max(`+order+`), 0) + 1 FROM `+table+`), false)`, table, order)
	return err
}

// digest counts the rows of a table and hashes them.
func digest(ctx context.Context, tx *Tx, table, order string) (Copied, error) {
	names, err := columns(ctx, tx, table, order)
	if err != nil {
		return Copied{}, err
	}
	// The same columns in the same order on both sides, but for what the copy sets.
	sorted := slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool { return name == "node" })
	done := Copied{Table: table}
	h := sha256.New()
	err = eachRow(ctx, tx, table, order, sorted, func(values []any) error {
		done.Rows++
		for i, v := range values {
			if err := hashValue(h, v); err != nil {
				return fmt.Errorf("column %s: %w", sorted[i], err)
			}
		}
		return nil
	})
	if err != nil {
		return Copied{}, fmt.Errorf("%s: %w", table, err)
	}
	done.SHA256 = hex.EncodeToString(h.Sum(nil))
	return done, nil
}

func hashValue(h hash.Hash, v any) error {
	var kind byte
	var b []byte
	switch v := v.(type) {
	case nil:
		kind = 'b'
	case []byte:
		kind, b = 'b', v
	case string:
		kind, b = 't', []byte(v)
	case int64:
		kind, b = 'i', binary.BigEndian.AppendUint64(nil, uint64(v)) //nolint:gosec // its bits
	case float64:
		kind, b = 'f', binary.BigEndian.AppendUint64(nil, math.Float64bits(v))
	default:
		return fmt.Errorf("unexpected %T", v)
	}
	_, err := h.Write(append(binary.BigEndian.AppendUint64([]byte{kind}, uint64(len(b))), b...))
	return err
}

// indexLessons makes what lessons are found by.
func indexLessons(ctx context.Context, dst *Tx) error {
	words := map[int64]string{}
	err := each(ctx, dst, `SELECT id, lesson FROM lessons`, func(scan func(...any) error) error {
		var id int64
		var b []byte
		if err := scan(&id, &b); err != nil {
			return err
		}
		var lesson history.Lesson
		if err := json.Unmarshal(b, &lesson); err != nil {
			return fmt.Errorf("lesson %d: %w", id, err)
		}
		words[id] = strings.Join(history.Words(lesson.Text()), " ")
		return nil
	})
	if err != nil {
		return err
	}
	for id, text := range words {
		if _, err := dst.ExecContext(ctx, dst.engine.search().insert, id, text); err != nil {
			return err
		}
	}
	return nil
}
