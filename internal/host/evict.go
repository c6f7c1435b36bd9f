package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/fstree"
)

// Removed is what was removed.
type Removed struct {
	Count int
	Bytes int64
}

// gone begins the names of what is being removed.
const gone = "gone-"

// evict removes the directories of a pattern that were not used since a time and, of the rest, those
// that were not used for longest until all together hold no more than most bytes; 0 is no bound. away
// puts one out of everybody's way, see putAway, or leaves it where it is.
func evict(
	ctx context.Context, pattern string, before time.Time, most int64, away func(dir string, used time.Time) (bool, error),
) (Removed, error) {
	var done Removed
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return done, fmt.Errorf("look for what is not needed: %w", err)
	}
	type unit struct {
		dir   string
		used  time.Time
		bytes int64
	}
	var units []unit
	var total int64
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue // removed meanwhile
		}
		size := treeSize(ctx, dir)
		total += size
		units = append(units, unit{dir, info.ModTime(), size})
	}
	slices.SortFunc(units, func(a, b unit) int { return a.used.Compare(b.used) })
	var errs []error
	for _, u := range units {
		if !u.used.Before(before) && (most <= 0 || total <= most) {
			break // so are all that follow
		}
		went, err := away(u.dir, u.used)
		errs = append(errs, err)
		if went {
			total -= u.bytes
			done.Count, done.Bytes = done.Count+1, done.Bytes+u.bytes
		}
	}
	// Also what is left of a removal that broke off.
	left, err := filepath.Glob(filepath.Join(filepath.Dir(pattern), gone+"*"))
	for _, dir := range left {
		err = errors.Join(err, fstree.RemoveAll(dir))
	}
	return done, errors.Join(append(errs, err)...)
}

// putAway gives a directory the name of one that is being removed.
func putAway(dir string) error {
	err := os.Rename(dir, filepath.Join(filepath.Dir(dir), gone+rand.Text()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what is not needed: %w", err)
	}
	return nil
}

// use notes that a directory is used now, which only decides what is removed first.
func use(dir string) {
	now := time.Now()
	_ = os.Chtimes(dir, now, now)
}

// treeSize adds up the files below dir, as far as they can be seen.
func treeSize(ctx context.Context, dir string) (n int64) {
	_ = fstree.Walk(ctx, dir, func(e fstree.Entry) error {
		if e.IsRegular() {
			n += e.Stat.Size
		}
		return nil
	})
	return n
}
