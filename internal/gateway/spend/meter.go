package spend

import (
	"context"
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
)

// Meter admits requests and counts what they cost. It is safe for concurrent
// use.
type Meter struct {
	Ledger
	prices run.Prices

	mu sync.Mutex
	// requests counts those that are under way, by start, and passages holds the
	// connections that are open.
	requests map[string]int
	passages map[*Passage]bool
}

// NewMeter makes a meter over a ledger.
func NewMeter(l Ledger, p run.Prices) *Meter {
	return &Meter{Ledger: l, prices: p, requests: map[string]int{}, passages: map[*Passage]bool{}}
}

// End closes a start; see Ledger. Its connections to hosts are ended, and waited for.
func (m *Meter) End(ctx context.Context, name string) error {
	if err := m.Ledger.End(ctx, name); err != nil {
		return err
	}
	m.mu.Lock()
	open := slices.DeleteFunc(slices.Collect(maps.Keys(m.passages)), func(p *Passage) bool { return p.start != name })
	m.mu.Unlock()
	for _, p := range open {
		p.cancel()
	}
	for _, p := range open {
		select {
		case <-p.closed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the connections of start %s: %w", name, context.Cause(ctx))
		}
	}
	return nil
}

// Block notes that a start was kept from a host, and why.
func (m *Meter) Block(ctx context.Context, start, host, reason string) error {
	ctx, cancel := toWrite(ctx)
	defer cancel()
	return m.Reach(ctx, start, run.HostUse{Host: host, Blocked: reason, Count: 1})
}

// Passage is a connection of a start to a host.
type Passage struct {
	meter       *Meter
	start, host string
	cancel      context.CancelFunc
	closed      chan struct{}
}

// Pass notes that a start has a connection to a host. The context that it gives
// ends with the start; then, and in any case once, the connection is to be closed
// and the passage too. A start that has ended gets ErrUnknownStart.
func (m *Meter) Pass(ctx context.Context, start, host string) (*Passage, context.Context, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &Passage{meter: m, start: start, host: host, cancel: cancel, closed: make(chan struct{})}
	m.mu.Lock()
	m.passages[p] = true
	m.mu.Unlock()
	// Asked after it is among those that the end of the start ends.
	asked, done := toWrite(ctx)
	defer done()
	_, err := m.Start(asked, start)
	if err == nil {
		err = m.Reach(asked, start, run.HostUse{Host: host, Count: 1})
	}
	if err != nil {
		p.leave()
		return nil, nil, err
	}
	return p, ctx, nil
}

// Close notes how many bytes went over the connection, which is closed.
func (p *Passage) Close(ctx context.Context, sent, received int64) {
	ctx, cancel := toWrite(ctx)
	defer cancel()
	// Where it fails the report lacks the bytes.
	_ = p.meter.Reach(ctx, p.start, run.HostUse{Host: p.host, Sent: sent, Received: received})
	p.leave()
}

func (p *Passage) leave() {
	p.cancel()
	p.meter.mu.Lock()
	defer p.meter.mu.Unlock()
	delete(p.meter.passages, p)
	close(p.closed)
}

// Exhausted says whether a start was refused a request for want of money and
// has none under way: nothing more is to come of it.
func (m *Meter) Exhausted(ctx context.Context, start string) (bool, error) {
	m.mu.Lock()
	open := m.requests[start]
	m.mu.Unlock()
	if open > 0 {
		return false, nil
	}
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
	meter *Meter
	start string
	price run.Price
	req   Request
}

// Admit lets a request through, which is then to be sent and settled, unless a budget is
// used up (an *OverError) or its model has no price under a budget (an *UnpricedError).
// What it costs is known after it: a budget may be overrun by what the requests under way
// cost.
func (m *Meter) Admit(ctx context.Context, s Start, r Request) (*Admission, error) {
	price, known := m.prices.Of(r.Model)
	if !known && s.Limited() {
		return nil, &UnpricedError{r.Model}
	}
	for _, scope := range s.Scopes {
		if scope.Limit <= 0 {
			continue
		}
		spent, err := m.Spent(ctx, scope.Key)
		if err != nil {
			return nil, err
		}
		if spent >= scope.Limit {
			return nil, &OverError{Scope: scope, Spent: spent}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[s.Name]++
	return &Admission{meter: m, start: s.Name, price: price, req: r}, nil
}

// Settle writes down, once, what the request came to. One that used nothing leaves no trace.
func (a *Admission) Settle(ctx context.Context, u Tokens) error {
	defer func() {
		a.meter.mu.Lock()
		defer a.meter.mu.Unlock()
		if a.meter.requests[a.start]--; a.meter.requests[a.start] <= 0 {
			delete(a.meter.requests, a.start)
		}
	}()
	if u == (Tokens{}) {
		return nil
	}
	ctx, cancel := toWrite(ctx)
	defer cancel()
	return a.meter.Charge(ctx, a.start, Charge{a.req.Model, u, CostOf(a.price, u)})
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
