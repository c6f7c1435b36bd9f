package spend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/run"
)

const (
	// maxReason bounds the words of a refusal, in bytes.
	maxReason = 2000
	// writeTimeout bounds the writing of a charge, a refusal or a host, which goes on
	// where the request that it is for was cut off.
	writeTimeout = 10 * time.Second
	// maxOwed bounds the charges that wait to be written. Beyond it those without a budget are
	// lost; of those with one there are no more than requests under way.
	maxOwed = 4096
)

// Meter admits requests and counts what they cost. It is safe for concurrent
// use.
type Meter struct {
	Ledger
	prices run.Prices
	// Log, where it is set, is told of a charge that could not be written.
	Log func(err error)

	mu sync.Mutex
	// open are the requests and the connections to hosts that are under way.
	open map[*open]bool
	// owes are the charges that could not be written yet. paying is held by who writes them.
	owes   []owed
	paying sync.Mutex
}

// open is what a start has under way.
type open struct {
	start   string
	request bool
	cancel  context.CancelFunc
	closed  chan struct{}
}

type owed struct {
	start string
	Charge
}

// NewMeter makes a meter over a ledger.
func NewMeter(l Ledger, p run.Prices) *Meter {
	return &Meter{Ledger: l, prices: p, open: map[*open]bool{}}
}

// enter takes up what a start begins. The context ends with the start.
func (m *Meter) enter(ctx context.Context, start string, request bool) (*open, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	o := &open{start: start, request: request, cancel: cancel, closed: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[o] = true
	return o, ctx
}

func (m *Meter) leave(o *open) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, o)
	close(o.closed)
}

// End closes a start; see Ledger. Its requests and connections are cut off and waited for, and
// what they cost is written.
func (m *Meter) End(ctx context.Context, name string) error {
	if err := m.Ledger.End(ctx, name); err != nil {
		return err
	}
	m.mu.Lock()
	left := slices.DeleteFunc(slices.Collect(maps.Keys(m.open)), func(o *open) bool { return o.start != name })
	m.mu.Unlock()
	for _, o := range left {
		o.cancel()
	}
	for _, o := range left {
		select {
		case <-o.closed:
		case <-ctx.Done():
			return fmt.Errorf("wait for what start %s has under way: %w", name, context.Cause(ctx))
		}
	}
	return m.pay(ctx)
}

// Close writes the charges that could not be written before, and is called before the ledger
// is closed. The error says how many are lost.
func (m *Meter) Close(ctx context.Context) error {
	ctx, cancel := toWrite(ctx)
	defer cancel()
	err := m.pay(ctx)
	if err == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Errorf("charges lost, which could not be written: %d: %w", len(m.owes), err)
}

// pay writes the charges that could not be written before.
func (m *Meter) pay(ctx context.Context) error {
	m.paying.Lock()
	defer m.paying.Unlock()
	for {
		m.mu.Lock()
		if len(m.owes) == 0 {
			m.mu.Unlock()
			return nil
		}
		next := m.owes[0]
		m.mu.Unlock()
		// The run of a start that is not known any more is gone.
		if err := m.Charge(ctx, next.start, next.Charge); err != nil && !errors.Is(err, ErrUnknownStart) {
			return err
		}
		m.mu.Lock()
		m.owes = m.owes[1:]
		m.mu.Unlock()
	}
}

// Block notes that a start was kept from a host, and why.
func (m *Meter) Block(ctx context.Context, start, host, reason string) error {
	ctx, cancel := toWrite(ctx)
	defer cancel()
	return m.Reach(ctx, start, run.HostUse{Host: host, Blocked: reason, Count: 1})
}

// Passage is a connection of a start to a host.
type Passage struct {
	*open
	meter *Meter
	host  string
}

// Pass notes that a start has a connection to a host. The context that it gives
// ends with the start; then, and in any case once, the connection is to be closed
// and the passage too. A start that has ended gets ErrUnknownStart.
func (m *Meter) Pass(ctx context.Context, start, host string) (*Passage, context.Context, error) {
	o, ctx := m.enter(ctx, start, false)
	// Asked after it is among those that the end of the start ends.
	asked, done := toWrite(ctx)
	defer done()
	_, err := m.Start(asked, start)
	if err == nil {
		err = m.Reach(asked, start, run.HostUse{Host: host, Count: 1})
	}
	if err != nil {
		o.cancel()
		m.leave(o)
		return nil, nil, err
	}
	return &Passage{o, m, host}, ctx, nil
}

// Close notes how many bytes went over the connection, which is closed.
func (p *Passage) Close(ctx context.Context, sent, received int64) {
	ctx, cancel := toWrite(ctx)
	defer cancel()
	// Where it fails the report lacks the bytes.
	_ = p.meter.Reach(ctx, p.start, run.HostUse{Host: p.host, Sent: sent, Received: received})
	p.cancel()
	p.meter.leave(p.open)
}

// Exhausted says whether a start was refused a request for want of money and
// has none under way: nothing more is to come of it.
func (m *Meter) Exhausted(ctx context.Context, start string) (bool, error) {
	m.mu.Lock()
	for o := range m.open {
		if o.request && o.start == start {
			m.mu.Unlock()
			return false, nil
		}
	}
	m.mu.Unlock()
	r, err := m.Report(ctx, start)
	if err != nil {
		return false, err
	}
	_, over := r.OverBudget()
	return over, nil
}

// Refuse notes that a request was refused, for the report.
func (m *Meter) Refuse(ctx context.Context, start string, r Refusal) error {
	if len(r.Reason) > maxReason {
		r.Reason = strings.ToValidUTF8(r.Reason[:maxReason], "") + "…"
	}
	ctx, cancel := toWrite(ctx)
	defer cancel()
	return m.Ledger.Refuse(ctx, start, r)
}

// Request is what is known of a request before it is sent, which counts where its answer
// does not tell: so many tokens go in and come out at most.
type Request struct {
	Model         string
	Input, Output int64
}

// UnpricedError says that a model has no price, where a budget asks for one.
type UnpricedError struct{ Model string }

// Error implements error.
func (e *UnpricedError) Error() string {
	return fmt.Sprintf("the price of model %q is not known, and without it no budget can be kept; the operator can set it",
		e.Model)
}

// Admission is a request that may be sent.
type Admission struct {
	*open
	meter   *Meter
	price   run.Price
	req     Request
	limited bool
}

// Admit lets a request through, which is then to be sent and settled, unless a budget is
// used up (an *OverError) or its model has no price under a budget (an *UnpricedError).
// What it costs is known after it: a budget may be overrun by what the requests under way
// cost. Under a budget nothing passes while a charge cannot be written. The context ends with
// the start, and one that has ended gets ErrUnknownStart.
func (m *Meter) Admit(ctx context.Context, s Start, r Request) (*Admission, context.Context, error) {
	price, known := m.prices.Of(r.Model)
	if !known && s.Limited() {
		return nil, nil, &UnpricedError{r.Model}
	}
	o, ctx := m.enter(ctx, s.Name, true)
	err := m.afford(ctx, s)
	if err == nil { // asked after it is among those that the end of the start ends
		_, err = m.Start(ctx, s.Name)
	}
	if err != nil {
		o.cancel()
		m.leave(o)
		return nil, nil, err
	}
	return &Admission{o, m, price, r, s.Limited()}, ctx, nil
}

// afford says whether the budgets of a start have something left.
func (m *Meter) afford(ctx context.Context, s Start) error {
	if !s.Limited() {
		return nil
	}
	if err := m.pay(ctx); err != nil {
		return err
	}
	for _, scope := range s.Scopes {
		if scope.Limit <= 0 {
			continue
		}
		spent, err := m.Spent(ctx, scope.Key)
		if err != nil {
			return err
		}
		if spent >= scope.Limit {
			return &OverError{Scope: scope, Spent: spent}
		}
	}
	return nil
}

// Settle writes down, once, what the request came to. One that used nothing leaves no trace.
// Where that fails the charge is kept until it can be written.
func (a *Admission) Settle(ctx context.Context, u Tokens) error {
	m := a.meter
	defer m.leave(a.open)
	if u == (Tokens{}) {
		return nil
	}
	ctx, cancel := toWrite(ctx)
	defer cancel()
	charge := Charge{a.req.Model, u, CostOf(a.price, u)}
	err := m.Charge(ctx, a.start, charge)
	if err == nil {
		return nil
	}
	m.mu.Lock()
	first := len(m.owes) == 0
	if a.limited || len(m.owes) < maxOwed {
		m.owes = append(m.owes, owed{a.start, charge})
	}
	m.mu.Unlock()
	if first && m.Log != nil {
		m.Log(err)
	}
	return err
}

// SettleCut writes down what a request came to whose answer broke off: the output that it
// asked for, and the input as far as it is known or else as it was sent. Else an agent could
// have a model work for nothing, by cutting each answer off before it tells what it used.
func (a *Admission) SettleCut(ctx context.Context, known Tokens) error {
	if known.Input+known.CacheRead+known.CacheWrite+known.CacheWriteLong == 0 {
		known.Input = a.req.Input
	}
	known.Output = max(known.Output, a.req.Output)
	return a.Settle(ctx, known)
}

// toWrite is a context for what has to be written although the client may have gone.
func toWrite(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
}
