package store

import (
	"context"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// EffectStatus is where an outside effect stands.
type EffectStatus string

// The states of an effect.
const (
	// EffectIntended: about to happen, or happened without our hearing of it.
	EffectIntended EffectStatus = "intended"
	// EffectDone: it happened, and Result says how.
	EffectDone EffectStatus = "done"
)

// Effect is one outside effect (a commit, a comment, a pull request), recorded
// before it happens and after.
type Effect struct {
	// Key is what the effect is at most once for.
	Key    string
	Run    run.ID
	Kind   string
	Intent []byte
	Status EffectStatus
	Result []byte
	// CreatedAt is when it was first intended.
	CreatedAt time.Time
	// Fresh is set by BeginEffect where this call recorded the intent, of a run that was made
	// since the store was opened. Any other effect that is intended may have happened, for the
	// store may be an older copy of itself: look for it before repeating it.
	Fresh bool
}

const effectColumns = `key, run_id, kind, intent, status, result, created_at`

func scanEffect(scan func(...any) error) (Effect, error) {
	var e Effect
	var created int64
	err := scan(&e.Key, &e.Run, &e.Kind, &e.Intent, &e.Status, &e.Result, &created)
	e.Intent, e.Result = filled(e.Intent), filled(e.Result)
	e.CreatedAt = fromMicros(created)
	return e, err
}

// BeginEffect records that an effect is about to happen and returns its row:
// a fresh one, or the one an earlier call left.
func (s *Store) BeginEffect(
	ctx context.Context, key string, id run.ID, kind string, intent []byte, now time.Time,
) (Effect, error) {
	var e Effect
	err := s.InTx(ctx, func(tx *Tx) error {
		n, err := change(ctx, tx, "record it", `
			INSERT INTO effects (key, run_id, kind, intent, status, result, created_at)
			VALUES (?, ?, ?, ?, 'intended', ?, ?)
			ON CONFLICT (key) DO NOTHING`,
			key, id, kind, blob(intent), blob(nil), micros(now))
		if err != nil {
			return err
		}
		e, err = scanEffect(tx.QueryRowContext(ctx, `SELECT `+effectColumns+` FROM effects WHERE key = ?`, key).Scan)
		if err != nil || n == 0 {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT ?1 <> '' AND NOT EXISTS (SELECT 1 FROM runs WHERE id = ?1 AND rowid <= ?2)`,
			id, s.newest).Scan(&e.Fresh)
	})
	if err != nil {
		return Effect{}, fmt.Errorf("begin effect %s: %w", key, err)
	}
	return e, nil
}

// FinishEffect records that an effect happened, and what came of it. The first
// result stays. An effect that was never begun is ErrNotFound.
func (s *Store) FinishEffect(ctx context.Context, key string, result []byte) error {
	return changeOne(ctx, s.writer, "finish effect "+key, `
		UPDATE effects
		SET result = CASE status WHEN 'intended' THEN ? ELSE result END,
		    status = 'done'
		WHERE key = ?`, blob(result), key)
}

// Effects returns the effects of a run, in the order they were intended.
func (s *Store) Effects(ctx context.Context, id run.ID) ([]Effect, error) {
	return list(ctx, s.reader, fmt.Sprintf("effects of run %s", id), scanEffect, `
		SELECT `+effectColumns+` FROM effects WHERE run_id = ? ORDER BY created_at, rowid`, id)
}
