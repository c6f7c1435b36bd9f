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

// scopes are those of a start; where it has ended only if ended asks for them.
func scopes(ctx context.Context, q queryer, name string, ended bool) (scopes []spend.Scope, err error) {
	var b []byte
	err = q.QueryRowContext(ctx, `SELECT scopes FROM spend_starts WHERE name = ? AND ended <= ?`, name, ended).Scan(&b)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%w: %s", spend.ErrUnknownStart, name)
	}
	if err != nil {
		return nil, err
	}
	return scopes, json.Unmarshal(b, &scopes)
}

// Start implements spend.Ledger.
func (l *ledger) Start(ctx context.Context, name string) (spend.Start, error) {
	var charged, hosts []byte
	err := l.store.reader.QueryRowContext(ctx, `SELECT scopes, hosts FROM spend_starts WHERE name = ? AND ended = 0`,
		name).Scan(&charged, &hosts)
	if errors.Is(err, sql.ErrNoRows) {
		err = spend.ErrUnknownStart
	}
	s := spend.Start{Name: name}
	if err == nil {
		err = errors.Join(json.Unmarshal(charged, &s.Scopes), json.Unmarshal(hosts, &s.Hosts))
	}
	if err != nil {
		return spend.Start{}, fmt.Errorf("find start %s: %w", name, err)
	}
	return s, nil
}

// End implements spend.Ledger.
func (l *ledger) End(ctx context.Context, name string) error {
	return l.inTx(ctx, "end start "+name, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE spend_starts SET ended = 1 WHERE name = ?`, name)
		return err
	})
}

// Admit implements spend.Ledger.
func (l *ledger) Admit(ctx context.Context, start, model string) (id int64, err error) {
	err = l.inTx(ctx, "admit a request of start "+start, func(tx *Tx) error {
		charged, err := scopes(ctx, tx, start, false)
		if err != nil {
			return err
		}
		for _, s := range charged {
			spent, err := spent(ctx, tx, s.Key)
			if err != nil {
				return err
			}
			if err := spend.Over(s, spent); err != nil {
				return err
			}
		}
		// Until it is settled it counts as the run's requests did on average.
		var usual spend.USD
		if len(charged) > 0 {
			err := tx.QueryRowContext(ctx, `SELECT cost / max(requests, 1) FROM spend_totals WHERE scope = ?`,
				charged[0].Key).Scan(&usual)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		if err := tx.QueryRowContext(ctx, `INSERT INTO spend_requests (start, model, cost) VALUES (?, ?, ?) RETURNING id`,
			start, model, usual).Scan(&id); err != nil {
			return err
		}
		return charge(ctx, tx, charged, usual, 1)
	})
	return id, err
}

func spent(ctx context.Context, q queryer, key string) (cost spend.USD, err error) {
	err = q.QueryRowContext(ctx, `SELECT cost FROM spend_totals WHERE scope = ?`, key).Scan(&cost)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return cost, err
}

func charge(ctx context.Context, tx *Tx, scopes []spend.Scope, cost spend.USD, requests int) error {
	for _, s := range scopes {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO spend_totals (scope, cost, requests) VALUES (?, ?, ?)
			ON CONFLICT (scope) DO UPDATE SET cost = cost + excluded.cost, requests = requests + excluded.requests`,
			s.Key, cost, requests)
		if err != nil {
			return err
		}
	}
	return nil
}

// Settle implements spend.Ledger.
func (l *ledger) Settle(ctx context.Context, id int64, c spend.Charge) error {
	return l.inTx(ctx, fmt.Sprintf("settle request %d", id), func(tx *Tx) error {
		var start string
		var before spend.USD
		if err := tx.QueryRowContext(ctx, `SELECT start, cost FROM spend_requests WHERE id = ?`, id).Scan(&start,
			&before); err != nil {
			return err
		}
		charged, err := scopes(ctx, tx, start, true)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			UPDATE spend_requests SET settled = 1, cost = ?, input = ?, output = ?, cache_read = ?, cache_write = ?, cache_write_long = ? WHERE id = ?`,
			c.Cost, c.Tokens.Input, c.Tokens.Output, c.Tokens.CacheRead, c.Tokens.CacheWrite, c.Tokens.CacheWriteLong, id)
		if err != nil {
			return err
		}
		return charge(ctx, tx, charged, c.Cost-before, 0)
	})
}

// Refuse implements spend.Ledger.
func (l *ledger) Refuse(ctx context.Context, start string, r spend.Refusal) error {
	return l.inTx(ctx, "note a refusal of start "+start, func(tx *Tx) error {
		if _, err := scopes(ctx, tx, start, true); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO spend_refusals (start, reason, budget) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, start, r.Reason, r.Budget)
		return err
	})
}

// Reach implements spend.Ledger.
func (l *ledger) Reach(ctx context.Context, start string, u run.HostUse) error {
	return l.inTx(ctx, "note a host of start "+start, func(tx *Tx) error {
		if _, err := scopes(ctx, tx, start, true); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO spend_hosts (start, host, blocked, count, sent, received) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (start, host, blocked) DO UPDATE SET count = excluded.count, sent = excluded.sent, received = excluded.received`,
			start, u.Host, u.Blocked, u.Count, u.Sent, u.Received)
		return err
	})
}

// Report implements spend.Ledger.
func (l *ledger) Report(ctx context.Context, start string) (r spend.Report, err error) {
	// One transaction, so that both parts are of the same moment.
	err = inTx(ctx, l.store.reader, func(tx *Tx) error {
		if r.Models, err = modelUses(ctx, tx, start); err != nil {
			return err
		}
		if r.Refused, err = spendRefusals(ctx, tx, start); err != nil {
			return err
		}
		r.Hosts, err = hostUses(ctx, tx, start)
		return err
	})
	if err != nil {
		return spend.Report{}, fmt.Errorf("report on start %s: %w", start, err)
	}
	return r, nil
}

func modelUses(ctx context.Context, tx *Tx, start string) (uses []spend.ModelUse, err error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT model, count(*), sum(1 - settled), sum(cost), sum(input), sum(output), sum(cache_read), sum(cache_write), sum(cache_write_long)
		FROM spend_requests WHERE start = ? GROUP BY model ORDER BY model`, start)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var m spend.ModelUse
		t := &m.Tokens
		if err := rows.Scan(&m.Model, &m.Requests, &m.Open, &m.Cost, &t.Input, &t.Output, &t.CacheRead, &t.CacheWrite,
			&t.CacheWriteLong); err != nil {
			return nil, err
		}
		uses = append(uses, m)
	}
	return uses, rows.Err()
}

func spendRefusals(ctx context.Context, tx *Tx, start string) (refused []spend.Refusal, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT reason, budget FROM spend_refusals WHERE start = ? ORDER BY id`, start)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r spend.Refusal
		if err := rows.Scan(&r.Reason, &r.Budget); err != nil {
			return nil, err
		}
		refused = append(refused, r)
	}
	return refused, rows.Err()
}

func hostUses(ctx context.Context, tx *Tx, start string) (uses []run.HostUse, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT host, blocked, count, sent, received FROM spend_hosts WHERE start = ? ORDER BY id`, start)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var u run.HostUse
		if err := rows.Scan(&u.Host, &u.Blocked, &u.Count, &u.Sent, &u.Received); err != nil {
			return nil, err
		}
		uses = append(uses, u)
	}
	return uses, rows.Err()
}

// Spent implements spend.Ledger.
func (l *ledger) Spent(ctx context.Context, key string) (spend.USD, error) {
	cost, err := spent(ctx, l.store.reader, key)
	if err != nil {
		return 0, fmt.Errorf("sum up %s: %w", key, err)
	}
	return cost, nil
}
