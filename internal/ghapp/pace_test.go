package ghapp

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const repoA, repoB = "acme/widgets", "acme/gadgets"

// write takes the lane for one write of no time.
func write(ctx context.Context, l *lane, repo string) error {
	leave, err := l.enter(ctx, repo)
	if err == nil {
		leave(nil)
	}
	return err
}

// sentAway says after how long a write is to come back, 0 if it was sent.
func sentAway(t *testing.T, err error) time.Duration {
	t.Helper()
	class, after := Classify(err)
	if err != nil && class != RateLimited {
		t.Fatal(err)
	}
	return after
}

// TestPaceOfWrites: ten at once, then one a second, without anybody waiting here; an
// urgent one goes at once and is paid for by those after it, up to a debt of ten.
func TestPaceOfWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, l, begin := t.Context(), newLane(writeEvery, maxPause), time.Now()
		for range writesAtOnce {
			if err := write(ctx, l, repoA); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			if after := sentAway(t, write(ctx, l, repoA)); after != time.Second {
				t.Errorf("come back after %s", after)
			}
		}
		for range 10 {
			if err := write(Urgent(ctx), l, repoA); err != nil {
				t.Errorf("an urgent one: %v", err)
			}
		}
		if after := sentAway(t, write(Urgent(ctx), l, repoA)); after != 11*time.Second {
			t.Errorf("one more urgent one comes back after %s", after)
		}
		if held := time.Since(begin); held != 0 {
			t.Errorf("callers were held for %s", held)
		}
		<-time.After(11 * time.Second) // by the clock of the bubble
		if err := write(ctx, l, repoA); err != nil {
			t.Errorf("when it came back: %v", err)
		}
		<-time.After(950 * time.Millisecond)
		if err := write(ctx, l, repoA); err != nil || time.Since(begin) != 12*time.Second {
			t.Errorf("a turn that is near: %v after %s", err, time.Since(begin))
		}
	})
}

// TestRepositoriesTakeTurns: one with much to write keeps no other from its turn.
func TestRepositoriesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, l := t.Context(), newLane(writeEvery, maxPause)
		for range writesAtOnce {
			if err := write(ctx, l, repoA); err != nil {
				t.Fatal(err)
			}
		}
		if after := sentAway(t, write(ctx, l, repoB)); after == 0 {
			t.Fatal("there was a place left")
		}
		sent := map[string]int{}
		for range 10 {
			<-time.After(time.Second) // by the clock of the bubble
			for range 5 {
				if write(ctx, l, repoA) == nil {
					sent[repoA]++
				}
			}
			if write(ctx, l, repoB) == nil {
				sent[repoB]++
			}
		}
		if sent[repoB] < 4 || sent[repoA] < 4 {
			t.Errorf("writes of each: %v", sent)
		}
	})
}

// TestOneAtATimeOfAPurpose: while one hangs, those of its purpose are given back, and all
// others go on.
func TestOneAtATimeOfAPurpose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLane(writeEvery, maxPause)
		reaction, commit := WithPurpose(t.Context(), "reaction"), WithPurpose(t.Context(), "commit")
		leave, err := l.enter(reaction, repoA)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if after := sentAway(t, write(Urgent(reaction), l, repoA)); after == 0 || time.Since(begin) > maxPause {
			t.Errorf("comes back after %s, was held for %s", after, time.Since(begin))
		}
		if err := write(commit, l, repoA); err != nil {
			t.Error(err)
		}
		leave(nil)
		if err := write(reaction, l, repoA); err != nil {
			t.Error(err)
		}

		// One that got no answer in its time has the others come back later, without a wait.
		hung, cancel := context.WithTimeout(reaction, time.Second)
		defer cancel()
		if leave, err = l.enter(hung, repoA); err != nil {
			t.Fatal(err)
		}
		<-hung.Done()
		leave(hung.Err())
		begin = time.Now()
		if after := sentAway(t, write(Urgent(reaction), l, repoB)); after != hungPause || time.Since(begin) > 0 {
			t.Errorf("comes back after %s, was held for %s", after, time.Since(begin))
		}
		if err := write(commit, l, repoA); err != nil {
			t.Error(err)
		}
		<-time.After(hungPause) // by the clock of the bubble
		if err := write(reaction, l, repoB); err != nil {
			t.Error(err)
		}
	})
}

// TestThirtyRunsWriteInOrder: thirty runs of six writes each, all at once in one
// installation, take 1.3 times what the pace forces at most, and end in the order in which
// they began, give or take one place. Who is sent away comes back when it was told to, and a call
// takes a third of a second.
func TestThirtyRunsWriteInOrder(t *testing.T) {
	t.Parallel()
	const runs, writes = 30, 6
	for name, repos := range map[string]int{"one repository": 1, "three repositories": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, begin := newLane(writeEvery, maxPause), time.Now()
				var mu sync.Mutex
				ended, tries := map[int][]int{}, 0 // by repository
				var all sync.WaitGroup
				for n := range runs {
					all.Go(func() {
						<-time.After(time.Duration(n) * 10 * time.Millisecond)
						ctx := Since(t.Context(), time.Now())
						for w := range writes {
							ctx := WithPurpose(ctx, fmt.Sprint("write ", w))
							if w == 0 {
								ctx = Urgent(ctx)
							}
							for {
								leave, err := l.enter(ctx, fmt.Sprint("acme/", n%repos))
								mu.Lock()
								tries++
								mu.Unlock()
								if err == nil {
									<-time.After(300 * time.Millisecond) // by the clock of the bubble
									leave(nil)
									break
								}
								<-time.After(sentAway(t, err))
							}
						}
						mu.Lock()
						defer mu.Unlock()
						ended[n%repos] = append(ended[n%repos], n/repos)
					})
				}
				all.Wait()
				forced := (runs*writes - writesAtOnce) * writeEvery
				if took := time.Since(begin); took > forced*13/10 {
					t.Errorf("%s, and the pace forces %s", took, forced)
				} else {
					t.Logf("%s, and the pace forces %s; %d tries", took, forced, tries)
				}
				for _, order := range ended {
					for at, n := range order {
						if n < at-1 || n > at+1 {
							t.Errorf("ended in the order %v", order)
							break
						}
					}
				}
			})
		})
	}
}
