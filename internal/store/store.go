package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"
)

// Errors that callers decide on.
var (
	// ErrNotFound: there is no such row.
	ErrNotFound = errors.New("store: not found")
	// ErrRunActive: the issue already has a run that is not at its end.
	ErrRunActive = errors.New("store: the issue has an active run")
	// ErrOtherVersion: the tables in the file are not those of this program.
	ErrOtherVersion = errors.New("store: the database belongs to another version")
	// ErrGone: the file was removed or replaced while it was open. What is written to it
	// is lost.
	ErrGone = errors.New("store: the database file is gone")
	// ErrDamaged: the file is no database, or no longer a whole one.
	ErrDamaged = errors.New("store: the database is damaged")
	// ErrReadOnly: nothing can be written to the file.
	ErrReadOnly = errors.New("store: the database cannot be written")
	// ErrFull: the disk is full.
	ErrFull = errors.New("store: the disk is full")
)

const (
	// busyTimeout is how long a writer waits for another process's transaction.
	busyTimeout = 5 * time.Second
	// readers is the size of the pool of read-only connections.
	readers = 4
)

// schemaVersion is the user_version of a file with the tables of schema.
const schemaVersion = 4

//go:embed schema.sql
var schema string

// Store is an open database. It is safe for concurrent use.
type Store struct {
	path string
	// file is the one that was opened.
	file fs.FileInfo
	// writer has one connection: the transactions of a process take turns.
	writer *sql.DB
	reader *sql.DB
	// newest is the row of the newest run when the store was opened.
	newest int64
	// spend writes what requests cost. It does not wait for the disk: the log has it when
	// the process dies, and the next transaction of the writer brings it to the disk. An
	// agent waits for each of these.
	spend *sql.DB
}

// Open opens the database file at path, which is made where there is none (its directory
// must exist). Processes that open the same one at the same moment wait for each other. A
// file with other tables than ours is ErrOtherVersion, and is not changed.
func Open(ctx context.Context, path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	// The file holds the text of private issues. SQLite gives the files it
	// makes beside it (-wal, -shm) the same mode.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("open store: %w", trouble(err))
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}

	s := &Store{path: path, file: info}
	if s.writer, err = openPool(path, 1, "immediate", "auto_vacuum(INCREMENTAL)", "journal_mode(WAL)", "synchronous(FULL)",
		"foreign_keys(1)"); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	if s.reader, err = openPool(path, readers, "deferred", "query_only(1)"); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", path, err), s.writer.Close())
	}
	if s.spend, err = openPool(path, 1, "immediate", "synchronous(NORMAL)", "foreign_keys(1)"); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", path, err), s.reader.Close(), s.writer.Close())
	}
	if err := s.exclusively(ctx, s.prepare); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", path, trouble(err)), s.Close())
	}
	return s, nil
}

func openPool(path string, size int, txlock string, pragmas ...string) (*sql.DB, error) {
	q := url.Values{
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())},
		"_txlock":       {txlock},
		"_pragma":       pragmas,
	}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(size)
	db.SetMaxOpenConns(size)
	return db, nil
}

// prepare makes the tables in a new file, and looks at the version of any other.
func (s *Store) prepare(ctx context.Context) error {
	empty, err := s.look(ctx)
	if err != nil {
		return err
	}
	if !empty {
		// By the writer, for a copy of a database is not in WAL mode before that has opened it.
		return s.writer.QueryRowContext(ctx, `SELECT coalesce(max(rowid), 0) FROM runs`).Scan(&s.newest)
	}
	err = inTx(ctx, s.writer, func(tx *Tx) error {
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion))
		return err
	})
	if err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	return nil
}

// look says whether the file is empty. ErrOtherVersion: its tables are not ours.
func (s *Store) look(ctx context.Context) (empty bool, err error) {
	var version, tables int
	err = s.reader.QueryRowContext(ctx, `
		SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version()`).Scan(&version, &tables)
	switch {
	case err != nil:
		return false, fmt.Errorf("look for the tables: %w", err)
	case version != schemaVersion && (version != 0 || tables > 0):
		return false, fmt.Errorf("%w: its tables are of version %d, this program has version %d", ErrOtherVersion, version,
			schemaVersion)
	}
	return version == 0, nil
}

// Close closes the database. Transactions that are open end first.
func (s *Store) Close() error {
	return errors.Join(s.reader.Close(), s.spend.Close(), s.writer.Close())
}

// Path is the absolute path of the file.
func (s *Store) Path() string { return s.path }

// InTx runs f in one writing transaction: committed, and on disk, when f
// returns nil; rolled back on an error or a panic. f must do everything by its
// tx; every other method that writes, and InTx itself, would wait for the
// connection that f holds.
//
// What the disk or the file lacks is ErrFull, ErrReadOnly or ErrDamaged.
//
// A file that was removed meanwhile would take the transaction and lose it: that is
// ErrGone, and nothing is committed.
func (s *Store) InTx(ctx context.Context, f func(tx *Tx) error) error {
	return inTx(ctx, s.writer, func(tx *Tx) error {
		if err := f(tx); err != nil {
			return trouble(err)
		}
		return s.present()
	})
}

// present is ErrGone unless the file is the one that was opened.
func (s *Store) present() error {
	info, err := os.Stat(s.path)
	if err == nil && os.SameFile(info, s.file) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrGone, s.path)
}

// Writable is nil if a transaction reaches the disk, and else says why not: the
// disk is full, the file locked, damaged, read-only or gone. Give ctx a time limit.
func (s *Store) Writable(ctx context.Context) error {
	err := s.InTx(ctx, func(tx *Tx) error {
		// A transaction that changes nothing does not touch the disk.
		_, err := tx.ExecContext(ctx, `UPDATE probe SET count = count + 1`)
		return err
	})
	if err != nil {
		return fmt.Errorf("write to the database: %w", err)
	}
	return nil
}

// micros is the stored form of t; the zero time is stored as 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// fromMicros is the opposite of micros.
func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// blob is b for a column that may not be NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// filled is what blob has stored: nil where that is nothing.
func filled(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// isUnique says whether err is the violation of a unique index (and not of a
// primary key).
func isUnique(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code() == sqlitelib.SQLITE_CONSTRAINT_UNIQUE
}

// trouble is err with the word for what is wrong with the database or its disk, where it
// is about those.
func trouble(err error) error {
	word := error(nil)
	code := -1
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		code = e.Code() & 0xff
	}
	switch {
	case code == sqlitelib.SQLITE_NOTADB, code == sqlitelib.SQLITE_CORRUPT:
		word = ErrDamaged
	case code == sqlitelib.SQLITE_READONLY, code == sqlitelib.SQLITE_PERM, errors.Is(err, fs.ErrPermission),
		errors.Is(err, unix.EROFS):
		word = ErrReadOnly
	case code == sqlitelib.SQLITE_FULL, errors.Is(err, unix.ENOSPC):
		word = ErrFull
	default:
		return err
	}
	return fmt.Errorf("%w: %w", word, err)
}

// Check reads the whole database, and is ErrDamaged where some of it does not fit the
// rest. It takes about a second for each gigabyte.
func (s *Store) Check(ctx context.Context) error {
	var said string
	if err := s.reader.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&said); err != nil {
		return fmt.Errorf("check the database: %w", trouble(err))
	}
	if said != "ok" {
		return fmt.Errorf("check the database: %w: %s", ErrDamaged, said)
	}
	return nil
}
