package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// ChunkSize is how much of a blob is handled at once, in bytes.
const ChunkSize = 256 << 10

// ErrDamaged: a blob is not what was put there.
var ErrDamaged = errors.New("blob: damaged")

// Store keeps blobs by name. It is safe for concurrent use, by several processes too.
type Store interface {
	// Put stores what r gives until its end, in the place of what has that name. Until it
	// returns nil, others see what was there before; after an error they may see either.
	Put(ctx context.Context, name string, r io.Reader) error
	// Open reads what was put there last; fs.ErrNotExist where there is nothing. If it is
	// replaced or deleted meanwhile, the reader goes on with it or fails.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Delete removes blobs, and is content where there are none of these names.
	Delete(ctx context.Context, names ...string) error
	// List gives all whose names begin with prefix, by name.
	List(ctx context.Context, prefix string) ([]Info, error)
}

// Info is what is known of a blob.
type Info struct {
	Name string
	// Size is what it takes in the store, in bytes.
	Size int64
	// Put is when it was put there, by the store's clock.
	Put time.Time
}

// maxName bounds a name, in bytes. S3 takes 1024, with the prefix of the bucket.
const maxName = 512

var nameRE = strs.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$`)

// CheckName refuses what is no name of a blob: words of letters, digits, dots, lines and
// dashes, with slashes between them.
func CheckName(name string) error {
	if len(name) > maxName || !nameRE().MatchString(name) {
		return fmt.Errorf("blob: %q is no name of one", name)
	}
	return nil
}

// End is a text behind every name that begins with prefix, for stores that look for names
// between two.
func End(prefix string) string { return prefix + "~" }

// runs is where the blobs of runs are.
const runs = "runs/"

// OfRun is what the names of all blobs of a run begin with.
func OfRun(id run.ID) string { return OfRuns() + string(id) + "/" }

// OfRuns is what the names of the blobs of all runs begin with.
func OfRuns() string { return runs }

// Run is the run that a blob belongs to, and its name there; ok is false for one of no run.
func Run(name string) (id run.ID, file string, ok bool) {
	rest, ok := strings.CutPrefix(name, runs)
	if !ok {
		return "", "", false
	}
	of, file, ok := strings.Cut(rest, "/")
	return run.ID(of), file, ok
}
