package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// Place is a process that a run has at work, or waits to start.
type Place struct {
	Run run.ID
	// Process is the name that it is started under.
	Process string
	// Repo is the repository's node id; Owner and Person are logins.
	Repo, Owner, Person string
	// Answer: the run takes up an answer to an earlier one.
	Answer bool
	// CameAt is when the run was made, AskedAt when it first asked for this process,
	// and SeenAt when it last did.
	CameAt, AskedAt, SeenAt time.Time
	// GrantedAt is when it was let in, zero while it waits.
	GrantedAt time.Time
	// Line is where it stands in its repository's line and Why what it waits for, when
	// it last asked.
	Line int
	Why  string
}

// Places returns all places, and when each owner and repository last had a turn.
func (s *Store) Places(ctx context.Context) ([]Place, map[string]time.Time, error) {
	return places(ctx, s.reader)
}

// PlacesTx is Places as tx sees them.
func (s *Store) PlacesTx(ctx context.Context, tx *Tx) ([]Place, map[string]time.Time, error) {
	return places(ctx, tx)
}

func places(ctx context.Context, db rowsQueryer) (_ []Place, _ map[string]time.Time, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read places: %w", err)
		}
	}()
	var out []Place
	err = each(ctx, db, `
		SELECT run_id, process, repo, owner, person, answer, came_at, asked_at, seen_at, granted_at, line, why
		FROM places ORDER BY came_at, run_id`, func(scan func(...any) error) error {
		var p Place
		var came, asked, seen, granted int64
		if err := scan(&p.Run, &p.Process, &p.Repo, &p.Owner, &p.Person, &p.Answer, &came, &asked, &seen, &granted,
			&p.Line, &p.Why); err != nil {
			return err
		}
		p.CameAt, p.AskedAt, p.SeenAt, p.GrantedAt = fromMicros(came), fromMicros(asked), fromMicros(seen), fromMicros(granted)
		out = append(out, p)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	turns := map[string]time.Time{}
	err = each(ctx, db, `SELECT name, at FROM turns`, func(scan func(...any) error) error {
		var name string
		var at int64
		if err := scan(&name, &at); err != nil {
			return err
		}
		turns[name] = fromMicros(at)
		return nil
	})
	return out, turns, err
}

// each hands every row of a query to f.
func each(ctx context.Context, db rowsQueryer, query string, f func(scan func(...any) error) error,
	args ...any) (err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// AskPlace notes that a process waits for a place. What was asked for first stays, with
// the place where there is one.
func (s *Store) AskPlace(ctx context.Context, tx *Tx, p Place) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO places (run_id, process, repo, owner, person, answer, came_at, asked_at, seen_at, line, why)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (process) DO UPDATE SET
			repo = excluded.repo, owner = excluded.owner, person = excluded.person,
			answer = excluded.answer, seen_at = excluded.seen_at, line = excluded.line, why = excluded.why`,
		p.Run, p.Process, p.Repo, p.Owner, p.Person, p.Answer, micros(p.CameAt), micros(p.SeenAt), micros(p.SeenAt),
		p.Line, p.Why)
	if err != nil {
		return fmt.Errorf("ask for a place for %s: %w", p.Process, err)
	}
	return nil
}

// GrantPlace lets in a process that has asked. turns are the names of those whose turn
// that was.
func (s *Store) GrantPlace(ctx context.Context, tx *Tx, process string, now time.Time, turns ...string) error {
	res, err := tx.ExecContext(ctx, `UPDATE places SET granted_at = ?, line = 0, why = '' WHERE process = ?`,
		micros(now), process)
	if err != nil {
		return fmt.Errorf("give %s a place: %w", process, err)
	}
	if err := mustAffect(res, "give "+process+" a place", ErrNotFound); err != nil {
		return err
	}
	for _, name := range turns {
		if _, err := tx.ExecContext(ctx, `INSERT INTO turns (name, at) VALUES (?, ?)
			ON CONFLICT (name) DO UPDATE SET at = excluded.at`, name, micros(now)); err != nil {
			return fmt.Errorf("note the turn of %s: %w", name, err)
		}
	}
	return nil
}

// FreePlace takes away the place of a process, or its claim to one. freed says whether it
// had been let in.
func (s *Store) FreePlace(ctx context.Context, tx *Tx, process string) (freed bool, err error) {
	var granted int64
	err = tx.QueryRowContext(ctx, `DELETE FROM places WHERE process = ? RETURNING granted_at`, process).Scan(&granted)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("free the place of %s: %w", process, err)
	}
	return granted != 0, nil
}

// PlacesOf are the processes of a run that have a place, or wait for one.
func (s *Store) PlacesOf(ctx context.Context, tx *Tx, id run.ID) (processes []string, err error) {
	err = each(ctx, tx, `SELECT process FROM places WHERE run_id = ?`, func(scan func(...any) error) error {
		var process string
		if err := scan(&process); err != nil {
			return err
		}
		processes = append(processes, process)
		return nil
	}, id)
	if err != nil {
		return nil, fmt.Errorf("read the places of run %s: %w", id, err)
	}
	return processes, nil
}

// PrunePlaces removes the places of runs that have ended, and turns from before a time.
func (s *Store) PrunePlaces(ctx context.Context, tx *Tx, before time.Time) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM places
		WHERE run_id NOT IN (SELECT id FROM runs WHERE active = 1)`); err != nil {
		return fmt.Errorf("remove the places of ended runs: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM turns WHERE at < ?`, micros(before)); err != nil {
		return fmt.Errorf("forget old turns: %w", err)
	}
	return nil
}
