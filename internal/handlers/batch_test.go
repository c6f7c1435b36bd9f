package handlers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// ledger is what a batcher writes to.
type ledger struct {
	mu      sync.Mutex
	batches [][]string
	// before, where set, is called before a batch is written, and can refuse it.
	before func(ctx context.Context, items []string) error
}

func (l *ledger) commit(ctx context.Context, items []string) error {
	if l.before != nil {
		if err := l.before(ctx, items); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches = append(l.batches, slices.Clone(items))
	return nil
}

func (l *ledger) sizes() (sizes []int) {
	for _, b := range l.batches {
		sizes = append(sizes, len(b))
	}
	return sizes
}

func TestBatcherGroupsWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var l ledger
		l.before = func(context.Context, []string) error { <-release; return nil }
		b := newBatcher(l.commit)
		answered := make(chan error, 200)
		write := func(item string) { answered <- b.write(t.Context(), item) }

		go write("first")
		synctest.Wait() // it is being written
		for i := range 2*maxBatch - 1 {
			go write(fmt.Sprint(i))
		}
		synctest.Wait() // the others wait
		if len(answered) != 0 {
			t.Error("answered before the commit")
		}
		close(release)
		synctest.Wait()
		if diff := cmp.Diff([]int{1, maxBatch, maxBatch - 1}, l.sizes()); diff != "" {
			t.Error(diff)
		}
		if len(answered) != 2*maxBatch {
			t.Fatalf("%d answers", len(answered))
		}
		for range 2 * maxBatch {
			if err := <-answered; err != nil {
				t.Error(err)
			}
		}
		all := slices.Concat(l.batches...)
		slices.Sort(all)
		if n := len(slices.Compact(all)); n != 2*maxBatch {
			t.Errorf("%d different items written", n)
		}
	})
}

func TestBatcherBlamesOnlyTheGuilty(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"error", "panic"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bad := errors.New("bad item")
				release := make(chan struct{})
				var l ledger
				l.before = func(_ context.Context, items []string) error {
					<-release
					if !slices.Contains(items, "bad") {
						return nil
					}
					if how == "panic" {
						panic(bad)
					}
					return bad
				}
				b := newBatcher(l.commit)
				var mu sync.Mutex
				answers := map[string]error{}
				write := func(item string) {
					defer func() { _ = recover() }() // as net/http does
					err := b.write(t.Context(), item)
					mu.Lock()
					defer mu.Unlock()
					answers[item] = err
				}
				go write("first")
				synctest.Wait()
				for _, item := range []string{"good", "bad", "fine"} {
					go write(item)
					synctest.Wait()
				}
				close(release)
				synctest.Wait()
				go write("later")
				synctest.Wait()
				for _, item := range []string{"first", "later"} {
					if err, ok := answers[item]; err != nil || !ok {
						t.Errorf("%s: %v, %v", item, err, ok)
					}
				}
				if how == "panic" {
					// Who had the turn went down with it; nobody else hangs,
					// and nobody is told that his item was written.
					if n := len(answers); n != 4 {
						t.Errorf("%d answers: %v", n, answers)
					}
					for _, item := range []string{"good", "bad", "fine"} {
						if err, ok := answers[item]; ok && err == nil {
							t.Errorf("%s is said to be written", item)
						}
					}
					return
				}
				for item, want := range map[string]error{"good": nil, "bad": bad, "fine": nil} {
					if err, ok := answers[item]; !errors.Is(err, want) || !ok {
						t.Errorf("%s: %v, %v; want %v", item, err, ok, want)
					}
				}
			})
		})
	}
}

func TestBatcherOutlivesTheOneWhoWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var l ledger
		l.before = func(ctx context.Context, _ []string) error { <-release; return ctx.Err() }
		b := newBatcher(l.commit)
		ctx, cancel := context.WithCancel(t.Context())
		writer, waiter, gone := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() { writer <- b.write(ctx, "writer") }()
		synctest.Wait()
		go func() { waiter <- b.write(t.Context(), "waiter") }()
		go func() { gone <- b.write(ctx, "gone") }()
		synctest.Wait()

		cancel() // both clients hang up
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("who hung up was told %v", err)
		}
		close(release)
		if err := <-waiter; err != nil {
			t.Errorf("who waited was told %v", err)
		}
		if err := <-writer; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("who wrote was told %v", err)
		}
	})
}
