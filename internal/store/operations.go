package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// Backlog is what waits to be dealt with, and how much is kept.
type Backlog struct {
	// Waiting counts deliveries that nobody has dealt with; Oldest is when the oldest of
	// them was accepted, the zero time where none waits.
	Waiting int64
	Oldest  time.Time
	// Runs counts the runs that have not ended by phase.
	Runs map[run.Phase]int64
	// Bytes is the size of the database.
	Bytes int64
}

// Backlog says what waits.
func (s *Store) Backlog(ctx context.Context) (_ Backlog, err error) {
	b := Backlog{Runs: map[run.Phase]int64{}}
	var oldest int64
	if err := s.reader.QueryRowContext(ctx, `SELECT count(*), coalesce(min(received_at), 0) FROM deliveries WHERE processed_at = 0`).
		Scan(&b.Waiting, &oldest); err != nil {
		return b, fmt.Errorf("look what waits: %w", err)
	}
	b.Oldest = fromMicros(oldest)
	if err := s.reader.QueryRowContext(ctx, `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`).
		Scan(&b.Bytes); err != nil {
		return b, fmt.Errorf("look for the size of the database: %w", err)
	}
	rows, err := s.reader.QueryContext(ctx, `SELECT phase, count(*) FROM runs WHERE active = 1 GROUP BY phase`)
	if err != nil {
		return b, fmt.Errorf("count runs: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var phase run.Phase
		var n int64
		if err := rows.Scan(&phase, &n); err != nil {
			return b, fmt.Errorf("count runs: %w", err)
		}
		b.Runs[phase] = n
	}
	return b, rows.Err()
}

// RecentRuns returns the newest runs, ended or not, oldest first, at most limit.
func (s *Store) RecentRuns(ctx context.Context, limit int) ([]Run, error) {
	return s.runs(ctx, "recent runs", `SELECT `+runColumns+` FROM (
		SELECT rowid AS n, * FROM runs ORDER BY created_at DESC, rowid DESC LIMIT ?) AS newest ORDER BY created_at, n`, limit)
}

// RunsLike returns the runs whose id begins with prefix, at most two: one is an answer,
// two are a question.
func (s *Store) RunsLike(ctx context.Context, prefix string) ([]Run, error) {
	return s.runs(ctx, "runs "+prefix, `SELECT `+runColumns+` FROM runs WHERE substr(id, 1, length(?1)) = ?1 ORDER BY created_at LIMIT 2`,
		prefix)
}
