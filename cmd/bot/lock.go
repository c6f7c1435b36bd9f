package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
)

// lockWait is how long a server waits for another to end that has its data directory: when one
// is restarted, the next may begin before the last has ended.
const lockWait = 30 * time.Second

// lockDataDir makes this process the one server that works with a data directory, until
// unlock. Where another server has it, and keeps it for so long, the error is a
// *run.UserError that names its process.
func lockDataDir(ctx context.Context, dir string, wait time.Duration) (unlock func() error, err error) {
	name := filepath.Join(dir, "lock")
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	f, err := proc.LockFile(limited, name)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		holder, _ := os.ReadFile(name) //nolint:gosec // G304: a file of our own data directory
		return nil, &run.UserError{
			Message: fmt.Sprintf("another server works with %s: %s", dir, strings.TrimSpace(string(holder))),
			Hint:    "stop that one first, or give this one a data_dir of its own",
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	host, _ := os.Hostname()
	if err = f.Truncate(0); err == nil {
		_, err = fmt.Fprintf(f, "process %d on %s\n", os.Getpid(), host)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data directory: %w", err), f.Close())
	}
	return f.Close, nil
}
