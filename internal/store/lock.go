package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/org/ralph-action/internal/proc"
)

// exclusively runs f while no other process with the same database does: tables are made by
// one at a time.
func (s *Store) exclusively(ctx context.Context, f func(context.Context) error) (err error) {
	lock, err := proc.LockFile(ctx, s.path+".lock")
	if err != nil {
		return fmt.Errorf("lock database: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return f(ctx)
}
