package transcript

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// Limits say how long transcripts are kept, and how much of them.
type Limits struct {
	// Keep is how long a run's transcripts are kept after its last one; 0 means
	// for ever.
	Keep time.Duration
	// MaxBytes is what all of them may take; 0 means that there is no limit.
	MaxBytes int64
}

// kept is what is kept of a run.
type kept struct {
	id  run.ID
	dir string
	// names are those of its blobs, where it is elsewhere.
	names []string
	last  time.Time
	size  int64
}

// Prune removes the transcripts of runs that are older than the limits allow, of runs that
// nobody knows, and of the oldest until the rest fits. Those of a run in keep stay: it is
// still under way.
func (s *Store) Prune(ctx context.Context, l Limits, now time.Time, keep func(run.ID) bool) error {
	excess, err := s.excess(ctx, l, now, keep)
	for _, k := range excess {
		if len(k.names) > 0 {
			err = errors.Join(err, s.to.Files.Delete(ctx, k.names...))
		}
		err = errors.Join(err, os.RemoveAll(k.dir))
	}
	if s.to.Files != nil {
		err = errors.Join(err, s.tidy(now, keep))
	}
	if err != nil {
		return fmt.Errorf("prune transcripts: %w", err)
	}
	return nil
}

// Prunable says of how many runs Prune would remove how many bytes.
func (s *Store) Prunable(
	ctx context.Context, l Limits, now time.Time, keep func(run.ID) bool,
) (runs int, bytes int64, err error) {
	excess, err := s.excess(ctx, l, now, keep)
	for _, k := range excess {
		bytes += k.size
	}
	return len(excess), bytes, err
}

func (s *Store) excess(ctx context.Context, l Limits, now time.Time, keep func(run.ID) bool) ([]kept, error) {
	found, gone, err := s.found(ctx)
	var all, out []kept
	var total int64
	for _, k := range found {
		switch {
		case keep != nil && keep(k.id):
			total += k.size
		case gone[k.id]:
			out = append(out, k)
		default:
			total += k.size
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(a.last.Compare(b.last), cmp.Compare(a.dir, b.dir)) })
	for _, k := range all {
		old := l.Keep > 0 && now.Sub(k.last) > l.Keep
		if !old && (l.MaxBytes <= 0 || total <= l.MaxBytes) {
			continue
		}
		total -= k.size
		out = append(out, k)
	}
	return out, err
}

// found weighs what is kept of each run, and says which of these nobody knows. What is on the
// disk and will be carried does not count yet.
func (s *Store) found(ctx context.Context) (all []kept, gone map[run.ID]bool, err error) {
	if s.to.Files == nil {
		ids, err := s.here()
		var errs []error
		for _, id := range ids {
			k := kept{id: id, dir: s.Dir(id)}
			if k.last, k.size, err = weigh(k.dir); err != nil {
				errs = append(errs, err)
				continue
			}
			all = append(all, k)
		}
		return all, nil, errors.Join(append(errs, err)...)
	}
	if all, err = s.carried(ctx); err != nil || s.to.Gone == nil {
		return all, nil, err
	}
	ids := make([]run.ID, len(all))
	for i, k := range all {
		ids[i] = k.id
	}
	gone, err = s.to.Gone(ctx, ids)
	return all, gone, err
}

// weigh gives the time of the last change below a run's directory, and the size
// of its files.
func weigh(dir string) (last time.Time, size int64, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return last, 0, nil // somebody else prunes
	}
	if err != nil {
		return last, 0, err
	}
	for _, e := range append(entries, nil) {
		path := dir
		if e != nil {
			path = filepath.Join(dir, e.Name())
		}
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return last, 0, err
		}
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
		if info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	return last, size, nil
}
