package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/run"
)

const (
	// lockWait is how long a server waits for another to end that has its data directory: when
	// one is restarted, the next may begin before the last has ended.
	lockWait = 30 * time.Second
	// lockEvery is the pause between two tries.
	lockEvery = 100 * time.Millisecond
)

// lockDataDir makes this process the one server that works with a data directory, until
// unlock. The kernel takes the lock back from a process that dies. Where another server has
// it, and keeps it for so long, the error is a *run.UserError that names its process.
func lockDataDir(ctx context.Context, dir string, wait time.Duration) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // G304: our own data directory
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	late := time.After(wait)
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("lock the data directory: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("lock the data directory: %w", context.Cause(ctx))
		case <-late:
			holder, _ := os.ReadFile(f.Name())
			return nil, &run.UserError{
				Message: fmt.Sprintf("another server works with %s: %s", dir, strings.TrimSpace(string(holder))),
				Hint:    "stop that one first, or give this one a data_dir of its own",
			}
		}
	}
	host, _ := os.Hostname()
	if err := errors.Join(f.Truncate(0), writeAt0(f, fmt.Sprintf("process %d on %s\n", os.Getpid(), host))); err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	return f.Close, nil
}

func writeAt0(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}
