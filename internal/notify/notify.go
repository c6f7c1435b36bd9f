package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

const (
	// DefaultEvery is after how many iterations progress is told.
	DefaultEvery = 5
	// queueLen is how many messages wait for one target.
	queueLen = 64
	// remembered is how many messages are known to have been made.
	remembered = 1024
	// sendTimeout bounds one attempt.
	sendTimeout = 15 * time.Second
)

// Config is what a Notifier is made of.
type Config struct {
	Targets []Target
	// Every is after how many iterations progress is told; 0 is DefaultEvery.
	Every int
	// Mask takes secrets out of text.
	Mask func(string) string
	// Failed is told of a message that a target did not take, in words that do not
	// show the address; nil means nobody is.
	Failed func(target string, err error)
	// Pauses come before the second and each later attempt; nil is 1 s, then 5 s.
	Pauses []time.Duration
	// Timeout bounds one attempt; 0 is a quarter of a minute.
	Timeout time.Duration
	// Transport carries what is posted; nil is http.DefaultTransport.
	Transport http.RoundTripper
}

// Notifier tells targets of runs. It is safe for concurrent use.
type Notifier struct {
	cfg    Config
	boxes  []*mailbox
	work   sync.WaitGroup
	life   context.Context //nolint:containedctx // the life of the goroutines that send, which no call owns
	cancel context.CancelFunc

	mu     sync.Mutex
	made   []string          // IDs of messages, the newest last
	counts map[run.ID][2]int // tasks done, and all
	closed bool
}

// mailbox is what waits for one target.
type mailbox struct {
	target  Target
	send    func(context.Context, Message) error
	secrets []string
	queue   chan Message
}

// New makes a notifier and begins to deliver. It must be closed, or dropped. The error is a
// *run.UserError that names a target which cannot be used.
func New(cfg Config) (*Notifier, error) {
	if cfg.Every <= 0 {
		cfg.Every = DefaultEvery
	}
	if cfg.Pauses == nil {
		cfg.Pauses = []time.Duration{time.Second, 5 * time.Second}
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = sendTimeout
	}
	if cfg.Failed == nil {
		cfg.Failed = func(string, error) {}
	}
	n := &Notifier{cfg: cfg, counts: map[run.ID][2]int{}}
	for _, t := range cfg.Targets {
		_, send, err := t.open(cfg.Transport)
		if err != nil {
			return nil, err
		}
		n.boxes = append(n.boxes, &mailbox{
			target: t, send: send, secrets: append(Secrets(t.URL), Secrets(t.Secret)...), queue: make(chan Message, queueLen),
		})
	}
	n.life, n.cancel = context.WithCancel(context.Background())
	for _, box := range n.boxes {
		n.work.Go(func() { n.deliver(box) })
	}
	return n, nil
}

// Handle takes an event of a run and never waits.
func (n *Notifier) Handle(ev run.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m, ok := n.message(ev)
	if !ok || n.closed {
		return
	}
	for _, box := range n.boxes {
		if !box.wants(m, ev) {
			continue
		}
		if lost, full := box.put(m); full {
			n.cfg.Failed(box.target.Name, fmt.Errorf("too many messages are queued; dropped the one about %s (%s)",
				lost.Repository, lost.Notice))
		}
	}
}

// put queues a message. Where the queue is full, progress is lost first, then a start, then the
// oldest: how a run ended matters longest. Only one may put at a time.
func (b *mailbox) put(m Message) (lost Message, full bool) {
	select {
	case b.queue <- m:
		return Message{}, false
	default:
	}
	waiting := make([]Message, 0, queueLen+1)
	for more := true; more; {
		select {
		case old := <-b.queue:
			waiting = append(waiting, old)
		default:
			more = false
		}
	}
	waiting = append(waiting, m)
	if full = len(waiting) > queueLen; full { // else one was sent meanwhile
		i := -1
		for _, notice := range []run.Notice{run.NoticeProgress, run.NoticeStart} {
			if i < 0 {
				i = slices.IndexFunc(waiting, func(m Message) bool { return m.Notice == notice })
			}
		}
		i = max(i, 0)
		lost = waiting[i]
		waiting = slices.Delete(waiting, i, i+1)
	}
	for _, m := range waiting {
		b.queue <- m
	}
	return lost, full
}

// message is what an event is worth telling, if anything. n.mu is held.
func (n *Notifier) message(ev run.Event) (Message, bool) {
	var notice run.Notice
	switch ev.Kind { //nolint:exhaustive // the others are told in these
	case run.EventRunStarted:
		notice = run.NoticeStart
	case run.EventIteration:
		// It has just begun; those before it are what there is to tell of.
		if before := ev.Iterations - 1; before > 0 && before%n.cfg.Every == 0 {
			notice = run.NoticeProgress
		}
	case run.EventRunEnded:
		notice = run.NoticeFinish
		if ev.End.NeedsPerson() {
			notice = run.NoticeNeedsHuman
		}
	}
	if ev.Total > 0 {
		n.counts[ev.Run] = [2]int{ev.Done, ev.Total}
	}
	counts := n.counts[ev.Run]
	if ev.Kind == run.EventRunEnded {
		delete(n.counts, ev.Run)
	}
	if notice == "" {
		return Message{}, false
	}
	m := compose(notice, ev, counts[0], counts[1], n.cfg.Mask)
	// A step that was repeated tells its events again.
	if slices.Contains(n.made, m.ID) {
		return Message{}, false
	}
	n.made = append(n.made[max(0, len(n.made)-remembered+1):], m.ID)
	return m, true
}

// wants says whether the message is for the target. Who wants to hear of every end
// hears of one that needs a person, too.
func (b *mailbox) wants(m Message, ev run.Event) bool {
	t := b.target
	return (t.Serves == nil || t.Serves(ev.Repo)) && (len(t.Notices) == 0 || slices.Contains(t.Notices, m.Notice) ||
		m.Notice == run.NoticeNeedsHuman && slices.Contains(t.Notices, run.NoticeFinish))
}

// deliver sends what comes until no more does. What comes after the notifier's life has
// ended is counted only.
func (n *Notifier) deliver(b *mailbox) {
	left := 0
	for m := range b.queue {
		if n.life.Err() != nil {
			left++
			continue
		}
		switch err := n.try(n.life, b, m); {
		case err != nil && n.life.Err() != nil:
			left++
		case err != nil:
			n.cfg.Failed(b.target.Name, fmt.Errorf("the message about %s (%s) was not delivered: %w", m.Repository, m.Notice,
				err))
		}
	}
	if left > 0 {
		n.cfg.Failed(b.target.Name, fmt.Errorf("%s not delivered before the end", strs.Count(left, "message")))
	}
}

// try sends a message, again and again for a while. Its errors do not show the
// address.
func (n *Notifier) try(ctx context.Context, b *mailbox, m Message) error {
	for attempt := 0; ; attempt++ {
		err := n.once(ctx, b, m)
		if err == nil {
			return nil
		}
		if _, hopeless := errors.AsType[final](err); hopeless || attempt == len(n.cfg.Pauses) || ctx.Err() != nil {
			return errors.New(n.cfg.Mask(hide(err.Error(), b.secrets)))
		}
		select {
		case <-time.After(n.cfg.Pauses[attempt]):
		case <-ctx.Done():
		}
	}
}

func (n *Notifier) once(ctx context.Context, b *mailbox, m Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, n.cfg.Timeout, fmt.Errorf("no answer within %s", n.cfg.Timeout))
	defer cancel()
	err := b.send(ctx, m)
	if _, hopeless := errors.AsType[final](err); err != nil && !hopeless && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Test sends a message to each target now, and says of each, by its name, what
// came of it.
func (n *Notifier) Test(ctx context.Context, now time.Time) map[string]error {
	m := Message{
		Version: messageVersion, ID: fmt.Sprintf("test.%d", now.UnixNano()), Notice: run.NoticeStart, Time: now.UTC(),
		Subject: "a test message", Summary: "If you read this, notifications arrive.",
	}
	results := map[string]error{}
	var mu sync.Mutex
	var work sync.WaitGroup
	for _, b := range n.boxes {
		work.Go(func() {
			err := n.try(ctx, b, m)
			mu.Lock()
			defer mu.Unlock()
			results[b.target.Name] = err
		})
	}
	work.Wait()
	return results
}

// Close delivers what is waiting for as long as ctx lasts, then drops the rest.
func (n *Notifier) Close(ctx context.Context) {
	n.stopTaking()
	stop := context.AfterFunc(ctx, n.cancel)
	n.work.Wait()
	stop()
	n.cancel()
}

// Drop ends the notifier at once. What is left is said through Failed. It may be called
// after Close, and twice.
func (n *Notifier) Drop() {
	n.cancel()
	n.stopTaking()
	n.work.Wait()
}

// stopTaking lets no further message in.
func (n *Notifier) stopTaking() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.closed = true
	for _, b := range n.boxes {
		close(b.queue)
	}
}
