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

// Exclusively runs f while no other process with the same database does:
// for migrations, which neither goose nor River guards on SQLite. The kernel, or
// PostgreSQL, takes the lock back from a process that dies.
func (s *Store) Exclusively(ctx context.Context, f func(context.Context) error) (err error) {
	if s.engine == Postgres {
		return s.exclusivelyOnPostgres(ctx, f)
	}
	lock, err := os.OpenFile(s.path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock database: %w", err)
	}
	defer func() {
		if cerr := lock.Close(); cerr != nil { // which unlocks
			err = errors.Join(err, fmt.Errorf("unlock database: %w", cerr))
		}
	}()
	if err := untilHeld(ctx, func() (bool, error) {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			return false, nil
		}
		return err == nil, err
	}); err != nil {
		return err
	}
	return f(ctx)
}

// untilHeld tries to take a lock until it is held.
func untilHeld(ctx context.Context, try func() (held bool, err error)) error {
	tick := time.NewTicker(lockRetry)
	defer tick.Stop()
	for {
		held, err := try()
		if err != nil {
			return fmt.Errorf("lock database: %w", err)
		}
		if held {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lock database: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}
