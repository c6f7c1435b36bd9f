package handlers

import (
	"context"
	"errors"
	"sync"
)

// batcher lets requests that come at the same time share one transaction, and
// with it one wait for the disk, which is what a webhook mostly consists of.
// Nobody is answered before the transaction that holds his part is committed.
// There is no goroutine behind it: whoever gets the turn writes for all who wait.
type batcher[T any] struct {
	// commit writes items in one transaction: all of them or, on an error, none.
	commit func(ctx context.Context, items []T) error
	turn   chan struct{} // holds a token while someone writes

	mu      sync.Mutex
	waiting []*part[T]
}

// part is what one request wants written.
type part[T any] struct {
	item T
	done chan error // gets one value
}

func newBatcher[T any](commit func(context.Context, []T) error) *batcher[T] {
	return &batcher[T]{commit: commit, turn: make(chan struct{}, 1)}
}

// maxBatch keeps one transaction short, whoever else wants to write.
const maxBatch = 64

// write returns once item is committed, or with the reason why it is not. When
// ctx ends first, item may yet be committed.
func (b *batcher[T]) write(ctx context.Context, item T) error {
	p := &part[T]{item: item, done: make(chan error, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, p)
	b.mu.Unlock()
	for {
		select {
		case err := <-p.done:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case b.turn <- struct{}{}:
			b.writeWaiting(ctx)
		}
	}
}

// writeWaiting writes what waits now, and gives the turn back. Requests of
// others are in it, so the end of this one must not be the end of it.
func (b *batcher[T]) writeWaiting(ctx context.Context) {
	defer func() { <-b.turn }()
	b.mu.Lock()
	n := min(len(b.waiting), maxBatch)
	parts := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	b.mu.Unlock()
	if n == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	items := make([]T, n)
	for i, p := range parts {
		items[i] = p.item
	}
	// Should commit panic, the others must not wait for an answer for ever.
	errs := make([]error, n)
	for i := range errs {
		errs[i] = errors.New("the write was broken off")
	}
	defer func() {
		for i, p := range parts {
			p.done <- errs[i]
		}
	}()
	if err := b.commit(ctx, items); err == nil || n == 1 {
		for i := range errs {
			errs[i] = err
		}
		return
	}
	// One of them spoils it for all: each on its own, then.
	for i := range items {
		errs[i] = b.commit(ctx, items[i:i+1])
	}
}
