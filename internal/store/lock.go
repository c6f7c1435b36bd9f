package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockRetry is the pause between two tries for the file lock.
const lockRetry = 10 * time.Millisecond

// exclusively runs f while no other process with the same database does: tables are made by
// one at a time. The kernel takes the lock back from a process that dies.
func (s *Store) exclusively(ctx context.Context, f func(context.Context) error) (err error) {
	lock, err := os.OpenFile(s.path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock database: %w", err)
	}
	defer func() {
		if cerr := lock.Close(); cerr != nil { // which unlocks
			err = errors.Join(err, fmt.Errorf("unlock database: %w", cerr))
		}
	}()
	tick := time.NewTicker(lockRetry)
	defer tick.Stop()
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f(ctx)
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock database: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lock database: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}
