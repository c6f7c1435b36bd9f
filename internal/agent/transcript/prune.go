package transcript

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	dir string
	// last is when something in it was last changed, size what its files take.
	last time.Time
	size int64
}

// Prune removes the transcripts of runs that are older than the limits allow,
// and of the oldest until the rest fits. Those of a run in keep stay: it is still
// under way.
func (s *Store) Prune(l Limits, now time.Time, keep func(run.ID) bool) error {
	ids, err := s.Runs()
	if err != nil {
		return err
	}
	var all []kept
	var total int64
	var errs []error
	for _, id := range ids {
		k, err := weigh(s.Dir(id))
		if err != nil {
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
		if old := l.Keep > 0 && now.Sub(k.last) > l.Keep; old || l.MaxBytes > 0 && total > l.MaxBytes {
			total -= k.size
			errs = append(errs, os.RemoveAll(k.dir))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("prune transcripts: %w", err)
	}
	return nil
}

// weigh looks at a run's directory, which somebody else may prune meanwhile.
func weigh(dir string) (kept, error) {
	k := kept{dir: dir}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		info, ierr := e.Info()
		switch {
		case errors.Is(ierr, fs.ErrNotExist):
		case ierr != nil:
			err = errors.Join(err, ierr)
		default:
			k.size += info.Size()
			if info.ModTime().After(k.last) {
				k.last = info.ModTime()
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return k, err
}
