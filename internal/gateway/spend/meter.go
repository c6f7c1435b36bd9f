package spend

import (
	"context"
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

	mu sync.Mutex
	// open counts the admissions of this process that are not settled, by start.
	open    map[string]int
	refused map[string]map[Refusal]bool

	hosts *hosts
}

// NewMeter makes a meter over a ledger.
func NewMeter(l Ledger, p run.Prices) *Meter {
	return &Meter{
		ledger: l, prices: p, open: map[string]int{}, refused: map[string]map[Refusal]bool{}, hosts: newHosts(l),
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
	open := m.open[start]
	m.mu.Unlock()
	if open > 0 {
		return false, nil
	}
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
	meter   *Meter
	id      int64
	start   string
	price   run.Price
	req     Request
	settled bool
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
	m.mu.Lock()
	m.open[s.Name]++
	m.mu.Unlock()
	id, err := m.ledger.Admit(ctx, s.Name, r.Model)
	if err != nil {
		m.leave(s.Name)
		return nil, err
	}
	return &Admission{meter: m, id: id, start: s.Name, price: price, req: r}, nil
}

// leave notes that a request of a start is not under way any longer.
func (m *Meter) leave(start string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open[start]--; m.open[start] <= 0 {
		delete(m.open, start)
	}
}

// Settle writes down what the request came to. It may be called again when more
// is known, but not at the same time.
func (a *Admission) Settle(ctx context.Context, u Use) error {
	ctx, cancel := toWrite(ctx)
	defer cancel()
	if !a.settled {
		a.settled = true
		defer a.meter.leave(a.start)
	}
	return a.meter.ledger.Settle(ctx, a.id, Charge{u.Tokens, costOf(a.price, u)})
}

// SettleCut writes down what a request came to whose answer broke off: the output that it
// asked for, and the input as far as it is known or else as it was sent. Else an agent could
// have a model work for nothing, by cutting each answer off before it tells what it used.
func (a *Admission) SettleCut(ctx context.Context, known Use) error {
	if t := known.Tokens; t.Input+t.CacheRead+t.CacheWrite+t.CacheWriteLong == 0 {
		known.Input = a.req.Input
	}
	known.Output = max(known.Output, a.req.Output)
	return a.Settle(ctx, known)
}

// toWrite is a context for what has to be written although the client may have gone.
func toWrite(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
}
