package spend

import (
	"context"
	"fmt"
	"sync"

	"github.com/org/ralph-action/internal/run"
)

// maxHosts bounds the different hosts and reasons that are kept of one start,
// which chooses what it asks for. Those beyond are counted together.
const maxHosts = 60

// hosts keeps account of the hosts that starts reach, or are kept from. A host is
// in the ledger before it is reached. How often it was is brought up to date there
// whenever that has doubled, and at the end of the start: what a hostile agent
// asks for a million times is written down twenty times.
type hosts struct {
	ledger Ledger

	mu    sync.Mutex
	books map[string]*hostBook
}

// hostBook is that of one start.
type hostBook struct {
	// open are the passages that are not closed, and idle is closed once there are
	// none, where somebody waits for that. Both are guarded by hosts.mu.
	open map[*Passage]bool
	idle chan struct{}

	// writing guards the rest: the uses, and by their places what the ledger
	// holds of them.
	writing sync.Mutex
	loaded  bool
	uses    []run.HostUse
	written []run.HostUse
}

func newHosts(l Ledger) *hosts { return &hosts{ledger: l, books: map[string]*hostBook{}} }

// book is that of a start; h.mu is held.
func (h *hosts) book(start string) *hostBook {
	b := h.books[start]
	if b == nil {
		b = &hostBook{open: map[*Passage]bool{}}
		h.books[start] = b
	}
	return b
}

// add counts a use of a host, also where the client has gone meanwhile.
func (h *hosts) add(ctx context.Context, start string, u run.HostUse) error {
	h.mu.Lock()
	b := h.book(start)
	h.mu.Unlock()
	b.writing.Lock()
	defer b.writing.Unlock()
	ctx, cancel := toWrite(ctx)
	defer cancel()
	if !b.loaded {
		// What an earlier process noted.
		r, err := h.ledger.Report(ctx, start)
		if err != nil {
			return err
		}
		b.loaded, b.uses, b.written = true, r.Hosts, r.Hosts
	}
	b.uses = run.AddHosts(b.uses, []run.HostUse{u}, maxHosts)
	return h.write(ctx, start, b, false)
}

// write brings the ledger up to date: as far as counts have doubled, or in all.
func (h *hosts) write(ctx context.Context, start string, b *hostBook, all bool) error {
	for i, u := range b.uses {
		known := i < len(b.written)
		if known && (u == b.written[i] || !all && u.Count < 2*b.written[i].Count) {
			continue
		}
		if err := h.ledger.Reach(ctx, start, u); err != nil {
			return err
		}
		if known {
			b.written[i] = u
		} else {
			b.written = append(b.written, u)
		}
	}
	return nil
}

// open makes a passage, and the context in which it is open.
func (h *hosts) open(ctx context.Context, start, host string) (*Passage, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &Passage{hosts: h, book: h.book(start), host: host, cancel: cancel}
	p.book.open[p] = true
	return p, ctx
}

// end closes the book of a start that has ended: its passages first.
func (h *hosts) end(ctx context.Context, start string) error {
	h.mu.Lock()
	b := h.books[start]
	if b == nil {
		h.mu.Unlock()
		return nil
	}
	idle := b.idle
	if idle == nil && len(b.open) > 0 {
		idle = make(chan struct{})
		b.idle = idle
	}
	for p := range b.open {
		p.cancel()
	}
	h.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
			return fmt.Errorf("wait for the connections of start %s: %w", start, context.Cause(ctx))
		}
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	if err := h.write(ctx, start, b, true); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.books[start] == b {
		delete(h.books, start)
	}
	return nil
}

// Passage is a connection of a start to a host.
type Passage struct {
	hosts  *hosts
	book   *hostBook
	host   string
	cancel context.CancelFunc
}

// Close notes how many bytes went over the connection, which is closed.
func (p *Passage) Close(sent, received int64) {
	p.book.writing.Lock()
	p.book.uses = run.AddHosts(p.book.uses, []run.HostUse{{Host: p.host, Sent: sent, Received: received}}, maxHosts)
	p.book.writing.Unlock()
	p.leave()
}

func (p *Passage) leave() {
	p.cancel()
	p.hosts.mu.Lock()
	defer p.hosts.mu.Unlock()
	delete(p.book.open, p)
	if len(p.book.open) == 0 && p.book.idle != nil {
		close(p.book.idle)
		p.book.idle = nil
	}
}
