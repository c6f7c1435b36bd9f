package store

import (
	"context"
	"database/sql"
	"errors"
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
	// NextTry is when an effect that was kept is due again, zero for one that was not; see
	// KeepEffect. Tries is how often it has failed.
	NextTry time.Time
	Tries   int
}

const effectColumns = `key, run_id, kind, intent, status, result, created_at, next_try, tries`

func scanEffect(scan func(...any) error) (Effect, error) {
	var e Effect
	var created, next int64
	if err := scan(&e.Key, &e.Run, &e.Kind, &e.Intent, &e.Status, &e.Result, &created, &next, &e.Tries); err != nil {
		return Effect{}, err
	}
	e.Intent, e.Result = filled(e.Intent), filled(e.Result)
	e.CreatedAt, e.NextTry = fromMicros(created), fromMicros(next)
	return e, nil
}

// BeginEffect records that an effect is about to happen and returns its row:
// a fresh one, or the one an earlier call left.
func (s *Store) BeginEffect(
	ctx context.Context, key string, id run.ID, kind string, intent []byte, now time.Time,
) (Effect, error) {
	var e Effect
	err := s.InTx(ctx, func(tx *Tx) error {
		res, err := tx.ExecContext(ctx, `
			INSERT INTO effects (key, run_id, kind, intent, status, result, created_at)
			VALUES (?, ?, ?, ?, 'intended', ?, ?)
			ON CONFLICT (key) DO NOTHING`,
			key, id, kind, blob(intent), blob(nil), micros(now))
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
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
	res, err := s.writer.ExecContext(ctx, `
		UPDATE effects
		SET result = CASE status WHEN 'intended' THEN ? ELSE result END,
		    status = 'done'
		WHERE key = ?`, blob(result), key)
	op := "finish effect " + key
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return mustAffect(res, op, ErrNotFound)
}

// Effects returns the effects of a run, in the order they were intended.
func (s *Store) Effects(ctx context.Context, id run.ID) (_ []Effect, err error) {
	rows, err := s.reader.QueryContext(ctx, `
		SELECT `+effectColumns+` FROM effects WHERE run_id = ? ORDER BY created_at, rowid`, id)
	if err != nil {
		return nil, fmt.Errorf("effects of run %s: %w", id, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []Effect
	for rows.Next() {
		e, err := scanEffect(rows.Scan)
		if err != nil {
			return nil, fmt.Errorf("effects of run %s: %w", id, err)
		}
		out = append(out, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("effects of run %s: %w", id, err)
	}
	return out, nil
}

// KeepEffect has an effect that has failed repeated from next on, by whoever calls
// DueEffect; intent says how. One that is done stays so.
func (s *Store) KeepEffect(ctx context.Context, key string, intent []byte, next time.Time) error {
	_, err := s.writer.ExecContext(ctx, `
		UPDATE effects SET intent = ?, next_try = ?, tries = tries + 1 WHERE key = ? AND status = 'intended'`,
		blob(intent), micros(next), key)
	if err != nil {
		return fmt.Errorf("keep effect %s: %w", key, err)
	}
	return nil
}

// DueEffect gives the kept effect of a kind that is due the longest, ErrNotFound for none.
// Nobody else is given it until the time until. No effect is kept for longer than the
// pause longest: one that is, was kept by a clock that has been put back since, and is due.
func (s *Store) DueEffect(
	ctx context.Context, kind string, now, until time.Time, longest time.Duration,
) (Effect, error) {
	var e Effect
	err := s.InTx(ctx, func(tx *Tx) (err error) {
		e, err = scanEffect(tx.QueryRowContext(ctx, `
			SELECT `+effectColumns+` FROM effects
			WHERE status = 'intended' AND next_try > 0 AND kind = ? AND (next_try <= ? OR next_try > ?)
			ORDER BY next_try LIMIT 1`, kind, micros(now), micros(now.Add(longest))).Scan)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE effects SET next_try = ? WHERE key = ?`, micros(until), e.Key)
		return err
	})
	if err != nil {
		return Effect{}, fmt.Errorf("due effect of kind %s: %w", kind, err)
	}
	return e, nil
}

// KeptEffects counts the kept effects that have not happened yet, by kind.
func (s *Store) KeptEffects(ctx context.Context) (_ map[string]int, err error) {
	rows, err := s.reader.QueryContext(ctx, `
		SELECT kind, count(*) FROM effects WHERE status = 'intended' AND next_try > 0 GROUP BY kind`)
	if err != nil {
		return nil, fmt.Errorf("count kept effects: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out := map[string]int{}
	for rows.Next() {
		var kind string
		var n int
		if err := rows.Scan(&kind, &n); err != nil {
			return nil, fmt.Errorf("count kept effects: %w", err)
		}
		out[kind] = n
	}
	return out, rows.Err()
}

// LabelOvertaken says whether putting a label on an issue, or taking it off, that was
// wanted at a time is out of date: another such effect was wanted since whose key, with a
// line's end behind it, holds one of two texts, or, where the label was to be put on, a later
// run of the issue has begun, which takes off what an earlier one put on.
func (s *Store) LabelOvertaken(ctx context.Context, owner, repo string, issue int, add bool, since time.Time,
	by [2]string) (overtaken bool, err error) {
	err = s.reader.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM effects
			WHERE kind = 'label' AND created_at > ?1
			AND (instr(key || char(10), ?2) > 0 OR instr(key || char(10), ?3) > 0))
		OR ?4 = 1 AND EXISTS (SELECT 1 FROM runs
			WHERE repo_owner = ?5 AND repo_name = ?6 AND issue_number = ?7 AND created_at > ?1)`,
		micros(since), by[0], by[1], add, owner, repo, issue).Scan(&overtaken)
	if err != nil {
		return false, fmt.Errorf("look for later labels of %s/%s#%d: %w", owner, repo, issue, err)
	}
	return overtaken, nil
}
