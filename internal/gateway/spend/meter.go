package spend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/run"
)

const (
	// maxRefusals bounds the different refusals of each kind that are kept of one
	// start: an agent chooses what it asks for.
	maxRefusals = 20
	// maxReason bounds the words of one, in bytes.
	maxReason = 2000
	// writeTimeout bounds the writing of a charge, a refusal or a host, which goes on
	// where the request that it is for was cut off.
	writeTimeout = 10 * time.Second
)

// Meter admits requests and counts what they cost. It is safe for concurrent
// use.
type Meter struct {
	ledger Ledger
	prices run.Prices

	// admitting makes a reservation and its entry in open one step for others
	// that look at both.
	admitting sync.Mutex

	mu sync.Mutex
	// open are the admissions of this process that are not settled.
	open map[int64]*Admission
	// settled is closed, and made anew, whenever one is.
	settled chan struct{}
	refused map[string]map[Refusal]bool

	hosts *hosts
}

// NewMeter makes a meter over a ledger.
func NewMeter(l Ledger, p run.Prices) *Meter {
	return &Meter{
		ledger: l, prices: p, open: map[int64]*Admission{}, settled: make(chan struct{}),
		refused: map[string]map[Refusal]bool{}, hosts: newHosts(l),
	}
}

// Begin opens a start; see Ledger.
func (m *Meter) Begin(ctx context.Context, s Start) error { return m.ledger.Begin(ctx, s) }

// Start finds a start that is open, or gives ErrUnknownStart.
func (m *Meter) Start(ctx context.Context, name string) (Start, error) {
	return m.ledger.Start(ctx, name)
}

// End closes a start; see Ledger. Its connections to hosts are ended.
func (m *Meter) End(ctx context.Context, name string) error {
	m.mu.Lock()
	delete(m.refused, name)
	m.mu.Unlock()
	if err := m.ledger.End(ctx, name); err != nil {
		return err
	}
	return m.hosts.end(ctx, name)
}

// Report says what a start used, reached and was refused. Of one that goes on, or
// that a crash cut short, it may count fewer connections than there were; it
// leaves out no host.
func (m *Meter) Report(ctx context.Context, start string) (Report, error) {
	return m.ledger.Report(ctx, start)
}

// Block notes that a start was kept from a host, and why.
func (m *Meter) Block(ctx context.Context, start, host, reason string) error {
	return m.hosts.add(ctx, start, run.HostUse{Host: host, Blocked: reason, Count: 1})
}

// Pass notes that a start has a connection to a host. The context that it gives
// ends with the start; then, and in any case once, the connection is to be closed
// and the passage too. A start that has ended gets ErrUnknownStart.
func (m *Meter) Pass(ctx context.Context, start, host string) (*Passage, context.Context, error) {
	p, ctx := m.hosts.open(ctx, start, host)
	// Asked after it is among those that the end of the start ends.
	asked, cancel := toWrite(ctx)
	defer cancel()
	_, err := m.ledger.Start(asked, start)
	if err == nil {
		err = m.hosts.add(ctx, start, run.HostUse{Host: host, Count: 1})
	}
	if err != nil {
		p.leave()
		return nil, nil, err
	}
	return p, ctx, nil
}

// Exhausted says whether a start was refused a request for want of money and
// has none under way: nothing more is to come of it.
func (m *Meter) Exhausted(ctx context.Context, start string) (bool, error) {
	m.mu.Lock()
	for _, a := range m.open {
		if a.start.Name == start {
			m.mu.Unlock()
			return false, nil
		}
	}
	m.mu.Unlock()
	r, err := m.ledger.Report(ctx, start)
	if err != nil {
		return false, err
	}
	_, over := r.OverBudget()
	return over, nil
}

// Refuse notes that a request was refused, for the report.
func (m *Meter) Refuse(ctx context.Context, start string, r Refusal) error {
	m.mu.Lock()
	known := m.refused[start]
	if known == nil {
		known = map[Refusal]bool{}
		m.refused[start] = known
	}
	if len(r.Reason) > maxReason {
		r.Reason = strings.ToValidUTF8(r.Reason[:maxReason], "") + "…"
	}
	alike := 0
	for other := range known {
		if other.Budget == r.Budget {
			alike++
		}
	}
	if known[r] || alike >= maxRefusals {
		m.mu.Unlock()
		return nil
	}
	known[r] = true
	m.mu.Unlock()
	ctx, cancel := toWrite(ctx)
	defer cancel()
	return m.ledger.Refuse(ctx, start, r)
}

// Request is what is known of a request before it is sent: at most so many
// tokens go in and come out.
type Request struct {
	Model         string
	Input, Output int64
	// LongCache: it asks for input to be cached for an hour, which costs more.
	LongCache bool
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
	meter *Meter
	id    int64
	start Start
	price run.Price
	req   Request
	worst USD
}

// Admit reserves the worst case of a request, which is then to be sent and
// settled. What does not fit is an *OverError, a model without a price under a
// budget an *UnpricedError. Where it would fit but for requests that are under
// way, it waits for those: they mostly cost far less than was reserved.
func (m *Meter) Admit(ctx context.Context, s Start, r Request) (*Admission, error) {
	price, known := m.prices.Of(r.Model)
	if !known && s.Limited() {
		return nil, &UnpricedError{r.Model}
	}
	a := &Admission{meter: m, start: s, price: price, req: r, worst: worstOf(price, r)}
	for {
		m.mu.Lock()
		settled := m.settled
		m.mu.Unlock()
		over, err := m.reserve(ctx, a)
		if err != nil {
			return nil, err
		}
		if over == nil {
			return a, nil
		}
		// What other requests of this process hold is not spent yet.
		held, changed := m.held(over.Scope.Key, settled)
		if !changed {
			if Over(over.Scope, over.Spent-held, a.worst) != nil {
				return nil, over
			}
			select {
			case <-settled:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
}

func (m *Meter) reserve(ctx context.Context, a *Admission) (*OverError, error) {
	m.admitting.Lock()
	defer m.admitting.Unlock()
	id, err := m.ledger.Reserve(ctx, a.start.Name, a.req.Model, a.worst)
	if over, ok := errors.AsType[*OverError](err); ok {
		return over, nil
	}
	if err != nil {
		return nil, err
	}
	a.id = id
	m.mu.Lock()
	m.open[id] = a
	m.mu.Unlock()
	return nil, nil
}

// held is what requests under way hold in a scope. changed says that one was
// settled since the caller looked, so that what it knows no longer holds.
func (m *Meter) held(key string, settled chan struct{}) (held USD, changed bool) {
	m.admitting.Lock()
	defer m.admitting.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.open {
		for _, s := range a.start.Scopes {
			if s.Key == key {
				held += a.worst
			}
		}
	}
	return held, settled != m.settled
}

// Request is what was admitted.
func (a *Admission) Request() Request { return a.req }

// Settle writes down what the request came to. It may be called again when more
// is known.
func (a *Admission) Settle(ctx context.Context, u Use) error {
	return a.settle(ctx, Charge{u.Tokens, costOf(a.price, u)})
}

// SettleCut writes down what a request came to whose answer broke off: all that was
// reserved for it, or what is known of its use where that is more.
func (a *Admission) SettleCut(ctx context.Context, known Use) error {
	if cost := costOf(a.price, known); cost > a.worst {
		return a.settle(ctx, Charge{known.Tokens, cost})
	}
	return a.settle(ctx, Charge{Tokens{Input: a.req.Input, Output: a.req.Output}, a.worst})
}

// toWrite is a context for what has to be written although the client may have gone.
func toWrite(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
}

func (a *Admission) settle(ctx context.Context, c Charge) error {
	ctx, cancel := toWrite(ctx)
	defer cancel()
	// Where this fails the reservation stays in the book, but nobody waits for
	// it any longer.
	err := a.meter.ledger.Settle(ctx, a.id, c)
	a.meter.mu.Lock()
	defer a.meter.mu.Unlock()
	if a.meter.open[a.id] == a {
		delete(a.meter.open, a.id)
		close(a.meter.settled)
		a.meter.settled = make(chan struct{})
	}
	return err
}
