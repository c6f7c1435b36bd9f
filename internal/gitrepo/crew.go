package gitrepo

import (
	"runtime"
	"sync"
)

// crew does jobs beside its owner, a few at a time. Files are made and
// compressed on all processors, and no more is held in memory than these need.
type crew struct {
	room chan struct{}
	wg   sync.WaitGroup

	mu  sync.Mutex
	err error
}

// crewSize is how many jobs are done at the same time.
func crewSize() int { return min(runtime.GOMAXPROCS(0), 4) }

func newCrew() *crew { return &crew{room: make(chan struct{}, crewSize())} }

// do begins a job, once there is room for it. After one has failed, no other is
// begun.
func (c *crew) do(job func() error) {
	c.room <- struct{}{}
	if c.failed() != nil {
		<-c.room
		return
	}
	c.wg.Go(func() {
		err := job()
		c.mu.Lock()
		if c.err == nil {
			c.err = err
		}
		c.mu.Unlock()
		<-c.room
	})
}

// wait returns when all jobs have ended, with the first error.
func (c *crew) wait() error {
	c.wg.Wait()
	return c.failed()
}

func (c *crew) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
