package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/run"
)

// Spend is the book of what requests to models cost, of all runs.
func (s *Store) Spend() spend.Ledger { return &ledger{s} }

type ledger struct{ store *Store }

func (l *ledger) inTx(ctx context.Context, what string, f func(tx *Tx) error) error {
	if err := inTx(ctx, l.store.spend, f); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Begin implements spend.Ledger.
func (l *ledger) Begin(ctx context.Context, s spend.Start) error {
	scopes, err := json.Marshal(s.Scopes)
	if err != nil {
		return fmt.Errorf("begin start %s: %w", s.Name, err)
	}
	hosts, err := json.Marshal(s.Hosts)
	if err != nil {
		return fmt.Errorf("begin start %s: %w", s.Name, err)
	}
	return l.inTx(ctx, "begin start "+s.Name, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO spend_starts (name, scopes, hosts) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, s.Name, scopes, hosts)
		return err
	})
}

// Start implements spend.Ledger.
func (l *ledger) Start(ctx context.Context, name string) (spend.Start, error) {
	op := "find start " + name
	start, err := one(ctx, l.store.reader, op, func(scan func(...any) error) (spend.Start, error) {
		s := spend.Start{Name: name}
		var charged, hosts []byte
		if err := scan(&charged, &hosts); err != nil {
			return s, err
		}
		return s, errors.Join(json.Unmarshal(charged, &s.Scopes), json.Unmarshal(hosts, &s.Hosts))
	}, `SELECT scopes, hosts FROM spend_starts WHERE name = ? AND ended = 0`, name)
	if errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("%s: %w", op, spend.ErrUnknownStart)
	}
	return start, err
}

// End implements spend.Ledger.
func (l *ledger) End(ctx context.Context, name string) error {
	return l.inTx(ctx, "end start "+name, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE spend_starts SET ended = 1 WHERE name = ?`, name)
		return err
	})
}

// Charge implements spend.Ledger.
func (l *ledger) Charge(ctx context.Context, start string, c spend.Charge) error {
	return l.inTx(ctx, "charge a request of start "+start, func(tx *Tx) error {
		var b []byte
		var scopes []spend.Scope
		err := tx.QueryRowContext(ctx, `SELECT scopes FROM spend_starts WHERE name = ?`, start).Scan(&b)
		if errors.Is(err, sql.ErrNoRows) {
			return spend.ErrUnknownStart
		}
		if err == nil {
			err = json.Unmarshal(b, &scopes)
		}
		if err != nil {
			return err
		}
		t := c.Tokens
		_, err = tx.ExecContext(ctx, `
			INSERT INTO spend_models (start, model, requests, cost, input, output, cache_read, cache_write, cache_write_long)
			VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (start, model) DO UPDATE SET requests = requests + 1, cost = cost + excluded.cost,
				input = input + excluded.input, output = output + excluded.output, cache_read = cache_read + excluded.cache_read,
				cache_write = cache_write + excluded.cache_write, cache_write_long = cache_write_long + excluded.cache_write_long`,
			start, c.Model, c.Cost, t.Input, t.Output, t.CacheRead, t.CacheWrite, t.CacheWriteLong)
		for _, s := range scopes {
			if err == nil {
				_, err = tx.ExecContext(ctx, `
					INSERT INTO spend_totals (scope, cost) VALUES (?, ?) ON CONFLICT (scope) DO UPDATE SET cost = cost + excluded.cost`,
					s.Key, c.Cost)
			}
		}
		return err
	})
}

// Refuse implements spend.Ledger.
func (l *ledger) Refuse(ctx context.Context, start string, r spend.Refusal) error {
	return l.inTx(ctx, "note a refusal of start "+start, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO spend_refusals (start, reason, budget) SELECT ?1, ?2, ?3
			WHERE (SELECT count(*) FROM spend_refusals WHERE start = ?1 AND budget = ?3) < ?4 ON CONFLICT DO NOTHING`,
			start, r.Reason, r.Budget, spend.MaxRefusals)
		return err
	})
}

// Reach implements spend.Ledger.
func (l *ledger) Reach(ctx context.Context, start string, u run.HostUse) error {
	return l.inTx(ctx, "note a host of start "+start, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO spend_hosts (start, host, blocked, count, sent, received)
			SELECT ?1, CASE WHEN EXISTS (SELECT 1 FROM spend_hosts WHERE start = ?1 AND host = ?2 AND blocked = ?3)
				OR (SELECT count(*) FROM spend_hosts WHERE start = ?1) < ?7 THEN ?2 ELSE ?8 END, ?3, ?4, ?5, ?6 WHERE true
			ON CONFLICT (start, host, blocked) DO UPDATE SET count = count + excluded.count, sent = sent + excluded.sent,
				received = received + excluded.received`,
			start, u.Host, u.Blocked, u.Count, u.Sent, u.Received, spend.MaxHosts, run.OtherHosts)
		return err
	})
}

// Report implements spend.Ledger.
func (l *ledger) Report(ctx context.Context, start string) (r spend.Report, err error) {
	// One transaction, so that both parts are of the same moment.
	err = inTx(ctx, l.store.reader, func(tx *Tx) error {
		r.Models, err = list(ctx, tx, "models", func(scan func(...any) error) (m spend.ModelUse, err error) {
			t := &m.Tokens
			err = scan(&m.Model, &m.Requests, &m.Cost, &t.Input, &t.Output, &t.CacheRead, &t.CacheWrite, &t.CacheWriteLong)
			return m, err
		}, `
			SELECT model, requests, cost, input, output, cache_read, cache_write, cache_write_long
			FROM spend_models WHERE start = ? ORDER BY model`, start)
		if err != nil {
			return err
		}
		r.Refused, err = list(ctx, tx, "refusals", func(scan func(...any) error) (r spend.Refusal, err error) {
			err = scan(&r.Reason, &r.Budget)
			return r, err
		}, `SELECT reason, budget FROM spend_refusals WHERE start = ? ORDER BY id`, start)
		if err != nil {
			return err
		}
		r.Hosts, err = list(ctx, tx, "hosts", func(scan func(...any) error) (u run.HostUse, err error) {
			err = scan(&u.Host, &u.Blocked, &u.Count, &u.Sent, &u.Received)
			return u, err
		}, `SELECT host, blocked, count, sent, received FROM spend_hosts WHERE start = ? ORDER BY id`, start)
		return err
	})
	if err != nil {
		return spend.Report{}, fmt.Errorf("report on start %s: %w", start, err)
	}
	return r, nil
}

// Spent implements spend.Ledger.
func (l *ledger) Spent(ctx context.Context, key string) (spend.USD, error) {
	cost, err := one(ctx, l.store.reader, "sum up "+key, column[spend.USD], `SELECT cost FROM spend_totals WHERE scope = ?`, key)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return cost, err
}
