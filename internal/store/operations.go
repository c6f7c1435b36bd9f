package store

import (
	"context"
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
func (s *Store) Backlog(ctx context.Context) (b Backlog, err error) {
	op := "look what waits"
	if b.Waiting, err = one(ctx, s.reader, op, column[int64], `SELECT count(*) FROM deliveries WHERE processed_at = 0`); err != nil {
		return b, err
	}
	if b.Oldest, err = s.OldestWaiting(ctx); err != nil {
		return b, err
	}
	b.Bytes, err = one(ctx, s.reader, op, column[int64], `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`)
	if err != nil {
		return b, err
	}
	b.Runs = map[run.Phase]int64{}
	phases, err := list(ctx, s.reader, op, column[run.Phase], `SELECT phase FROM runs WHERE active = 1`)
	for _, phase := range phases {
		b.Runs[phase]++
	}
	return b, err
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
