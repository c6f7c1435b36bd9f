package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/org/ralph-action/internal/history"
	"github.com/org/ralph-action/internal/run"
)

// Lessons is the memory of one repository, by its node id.
func (s *Store) Lessons(repoNode string) history.Memory { return &lessons{s, repoNode} }

type lessons struct {
	store *Store
	repo  string
}

// Remember implements history.Memory.
func (l *lessons) Remember(ctx context.Context, lesson history.Lesson) error {
	lesson = lesson.Bounded()
	b, err := json.Marshal(lesson)
	if err != nil {
		return fmt.Errorf("remember a lesson: %w", err)
	}
	err = l.store.InTx(ctx, func(tx *Tx) error {
		// A lesson that is written over gets a new id: the ids are in the order
		// in which the oldest go.
		if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO lessons (repo_node, key, lesson) VALUES (?, ?, ?)`,
			l.repo, lesson.Key, b); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `
			DELETE FROM lessons WHERE id IN (SELECT id FROM lessons WHERE repo_node = ? ORDER BY id DESC LIMIT -1 OFFSET ?)`,
			l.repo, history.MaxLessons)
		return err
	})
	if err != nil {
		return fmt.Errorf("remember a lesson: %w", err)
	}
	return nil
}

// Similar implements history.Memory. It reads them all: there are few, and a task asks
// once.
func (l *lessons) Similar(ctx context.Context, q history.Query, n int) ([]history.Lesson, error) {
	rows, err := l.store.reader.QueryContext(ctx, `SELECT lesson FROM lessons WHERE repo_node = ? AND merged = 1`, l.repo)
	if err != nil {
		return nil, fmt.Errorf("look for lessons: %w", err)
	}
	found, err := scanLessons(rows)
	if err != nil {
		return nil, fmt.Errorf("look for lessons: %w", err)
	}
	return history.Pick(q, found, n), nil
}

func scanLessons(rows *sql.Rows) (found []history.Lesson, err error) {
	defer func() {
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
	}()
	for rows.Next() {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			return nil, err
		}
		var lesson history.Lesson
		if err := json.Unmarshal(b, &lesson); err != nil {
			return nil, err
		}
		found = append(found, lesson)
	}
	return found, rows.Err()
}

// MergeLessons has the lessons of a run recalled from now on: a person has merged its
// work.
func (s *Store) MergeLessons(ctx context.Context, repoNode string, id run.ID) error {
	err := s.InTx(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `
			UPDATE lessons SET merged = 1 WHERE repo_node = ? AND substr(key, 1, length(?) + 1) = ? || '/'`, repoNode, id, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("recall the lessons of run %s: %w", id, err)
	}
	return nil
}

// MergeLessonsOfPull is MergeLessons of all runs that a pull request shows.
func (s *Store) MergeLessonsOfPull(ctx context.Context, tx *Tx, repoNode string, pull int) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE lessons SET merged = 1 WHERE repo_node = ?1 AND merged = 0 AND EXISTS (
			SELECT 1 FROM runs WHERE runs.repo_node = ?1 AND runs.pull_number = ?2
				AND substr(lessons.key, 1, length(runs.id) + 1) = runs.id || '/')`, repoNode, pull)
	if err != nil {
		return fmt.Errorf("recall the lessons of pull request %d: %w", pull, err)
	}
	return nil
}

// UnmergedLessons gives the newest lessons of a repository that are not recalled, at
// most n, the newest first.
func (s *Store) UnmergedLessons(ctx context.Context, repoNode string, n int) ([]history.Lesson, error) {
	rows, err := s.reader.QueryContext(ctx,
		`SELECT lesson FROM lessons WHERE repo_node = ? AND merged = 0 ORDER BY id DESC LIMIT ?`, repoNode, n)
	if err != nil {
		return nil, fmt.Errorf("read lessons: %w", err)
	}
	found, err := scanLessons(rows)
	if err != nil {
		return nil, fmt.Errorf("read lessons: %w", err)
	}
	return found, nil
}

// AllLessons gives the lessons of a repository, the oldest first.
func (s *Store) AllLessons(ctx context.Context, repoNode string) ([]history.Lesson, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT lesson FROM lessons WHERE repo_node = ? ORDER BY id`, repoNode)
	if err != nil {
		return nil, fmt.Errorf("read lessons: %w", err)
	}
	found, err := scanLessons(rows)
	if err != nil {
		return nil, fmt.Errorf("read lessons: %w", err)
	}
	return found, nil
}
