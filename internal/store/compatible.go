package store

import (
	"context"
	"fmt"
)

// oldestBeside is the oldest version of the tables whose programs can work on the present ones: since
// then tables and columns were only added, with a value for rows of programs that do not know them. So
// the servers that share a database in PostgreSQL are upgraded one after the other. A migration that
// takes away or changes what an older program uses raises it to its own number; it is made a release
// after the one whose program no longer needs what goes.
const oldestBeside = 16

// Tables is the version of the tables that this program knows.
func (s *Store) Tables() int64 { return s.tables }

// worksOnNewer says whether a program that knows a version of the tables can work on newer ones.
func (s *Store) worksOnNewer(ctx context.Context, know int64) (bool, error) {
	if s.engine != Postgres {
		return false, nil // a newer version keeps its own file
	}
	var oldest int64
	if err := s.reader.QueryRowContext(ctx, `SELECT oldest FROM compatible`).Scan(&oldest); err != nil {
		return false, fmt.Errorf("migrate: look which programs may work on the tables: %w", err)
	}
	return oldest <= know, nil
}

// besideOlder is ErrOlderWorks where a server works on the database that could not on the tables of
// this program.
func (s *Store) besideOlder(ctx context.Context, have int64) error {
	if s.engine != Postgres || have < oldestBeside {
		return nil // nothing of a shared database is known by then
	}
	var node string
	err := each(ctx, s.reader, `SELECT node FROM processes WHERE tables < ?
		AND seen_at > clock_timestamp() - `+gone+` LIMIT 1`, func(scan func(...any) error) error {
		return scan(&node)
	}, oldestBeside)
	if err != nil {
		return fmt.Errorf("migrate: look who works on the database: %w", err)
	}
	if node != "" {
		return fmt.Errorf("%w: %s", ErrOlderWorks, node)
	}
	return nil
}

// noteOldest notes which programs may work on the tables from now on.
func (s *Store) noteOldest(ctx context.Context) error {
	if s.engine != Postgres {
		return nil
	}
	_, err := s.writer.ExecContext(ctx, `UPDATE compatible SET oldest = ?1 WHERE oldest < ?1`, oldestBeside)
	if err != nil {
		return fmt.Errorf("migrate: note which programs may work on the tables: %w", err)
	}
	return nil
}
