package transcript

import (
	"cmp"
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
	dir  string
	last time.Time
	size int64
}

// Prune removes the transcripts of runs that are older than the limits allow,
// and of the oldest until the rest fits. Those of a run in keep stay: it is still
// under way.
func (s *Store) Prune(l Limits, now time.Time, keep func(run.ID) bool) error {
	excess, err := s.excess(l, now, keep)
	for _, k := range excess {
		err = errors.Join(err, os.RemoveAll(k.dir))
	}
	if err != nil {
		return fmt.Errorf("prune transcripts: %w", err)
	}
	return nil
}

func (s *Store) excess(l Limits, now time.Time, keep func(run.ID) bool) ([]kept, error) {
	ids, err := s.Runs()
	if err != nil {
		return nil, err
	}
	var all, out []kept
	var total int64
	var errs []error
	for _, id := range ids {
		k := kept{dir: s.Dir(id)}
		if k.last, k.size, err = weigh(k.dir); err != nil {
			errs = append(errs, err)
			continue
		}
		total += k.size
		if keep == nil || !keep(id) {
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
	return out, errors.Join(errs...)
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
