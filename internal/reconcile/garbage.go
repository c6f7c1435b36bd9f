package reconcile

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/org/ralph-action/internal/host"
)

// keepUnused is how long mirrors, work trees and caches stay that no run needs.
const keepUnused = 14 * 24 * time.Hour

// Garbage is what nobody needs any more, of one kind.
type Garbage struct {
	// Kind names it for people.
	Kind  string
	Count int
	// Bytes is what it takes on the disk, 0 where that is not known.
	Bytes int64
}

// CollectGarbage removes from the data directory what nobody needs any more, and says what
// that was. What a run needs stays, also a run that begins meanwhile.
func (r *Reconciler) CollectGarbage(ctx context.Context) ([]Garbage, error) {
	before := r.cfg.Now().Add(-keepUnused)
	var out []Garbage
	var errs []error
	add := func(kind string, removed host.Removed, err error) {
		errs = append(errs, err)
		if removed.Count > 0 {
			out = append(out, Garbage{Kind: kind, Count: removed.Count, Bytes: removed.Bytes})
		}
	}
	left, err := r.leftovers(ctx)
	add("directories of ended runs", host.Removed{Count: len(left)}, err)
	errs = append(errs, r.Sweep(ctx))
	removed, err := r.mirrors.Evict(ctx, host.Eviction{
		Before: before, MaxBytes: host.MirrorBytes, InUse: r.nodesInUse,
	})
	add("mirrors", removed, err)
	removed, err = host.Caches{Dir: filepath.Join(r.cfg.DataDir, host.CachesDir)}.Expire(ctx, before)
	add("caches", removed, err)
	return out, errors.Join(errs...)
}

// nodesInUse are the repositories that have runs which have not ended.
func (r *Reconciler) nodesInUse(ctx context.Context) ([]string, error) {
	rows, err := r.cfg.Store.ActiveRuns(ctx)
	if err != nil {
		return nil, err
	}
	nodes := make([]string, len(rows))
	for i, row := range rows {
		nodes[i] = row.RepoNode
	}
	return nodes, nil
}
