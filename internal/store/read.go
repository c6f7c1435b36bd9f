package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// OpenToRead opens a database that is there, to read it beside the server that works with it.
// The tables stay as they are, and whatever would write is an error; other tables than ours
// are ErrOtherVersion.
func OpenToRead(ctx context.Context, path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	pool, err := openPool(path, readers, "deferred", "query_only(1)")
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	s := &Store{path: path, file: info, writer: pool, reader: pool, spend: pool}
	if _, err := s.look(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", path, trouble(err)), pool.Close())
	}
	return s, nil
}
