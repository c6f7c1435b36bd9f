package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
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

// prune removes transcripts that are older, or more, than is kept.
func (r *Reconciler) prune(ctx context.Context) error {
	if r.cfg.Transcripts == nil {
		return nil
	}
	active, err := r.isActive(ctx)
	if err != nil {
		return fmt.Errorf("prune transcripts: %w", err)
	}
	return r.cfg.Transcripts.Prune(r.cfg.TranscriptLimits, r.cfg.Now(), active)
}

// isActive tells the runs that have not ended by now.
func (r *Reconciler) isActive(ctx context.Context) (func(run.ID) bool, error) {
	rows, err := r.cfg.Store.ActiveRuns(ctx)
	if err != nil {
		return nil, err
	}
	return func(id run.ID) bool {
		return slices.ContainsFunc(rows, func(row store.Run) bool { return row.ID == id })
	}, nil
}

// Sweep removes what runs left on disk that have ended, or that the store does
// not know: a process that died between the two did not come to it.
func (r *Reconciler) Sweep(ctx context.Context) error {
	left, err := r.leftovers(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range left {
		if filepath.Base(filepath.Dir(dir)) == "runs" {
			errs = append(errs, r.evict(ctx, run.ID(filepath.Base(dir))))
			continue
		}
		if err := fstree.RemoveAll(dir); err != nil {
			errs = append(errs, fmt.Errorf("remove what a run left: %w", err))
		}
	}
	if reap := r.cfg.Sandbox.About().Reap; reap != nil {
		if _, err := reap(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, r.prune(ctx))...)
}

// leftovers are the directories of runs that have ended, or that the store does not know.
func (r *Reconciler) leftovers(ctx context.Context) ([]string, error) {
	// The directories first: one that is there now belongs to a run that was
	// stored before.
	left := map[string]string{}
	for _, kind := range []string{"runs", "gw"} {
		entries, err := os.ReadDir(filepath.Join(r.cfg.DataDir, kind))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("look for what runs left: %w", err)
		}
		for _, e := range entries {
			left[filepath.Join(kind, e.Name())] = filepath.Join(r.cfg.DataDir, kind, e.Name())
		}
	}
	keep := func(id run.ID) {
		delete(left, filepath.Join("runs", string(id)))
		delete(left, filepath.Join("gw", shortName(id)))
	}
	active, err := r.cfg.Store.ActiveRuns(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for what runs left: %w", err)
	}
	for _, row := range active {
		keep(row.ID)
	}
	// Then those that are at work here: whoever ends a run tidies up after it when its row
	// says already that it has ended.
	r.claimed.Range(func(id, _ any) bool {
		if id, ok := id.(run.ID); ok {
			keep(id)
		}
		return true
	})
	return slices.Sorted(maps.Values(left)), nil
}

// evict ends what a run has at work, and removes what it left on disk, unless the run is worked by
// now.
func (r *Reconciler) evict(ctx context.Context, id run.ID) error {
	if !r.claim(id) {
		return nil
	}
	defer r.claimed.Delete(id)
	row, err := r.cfg.Store.Run(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err == nil && !row.Phase.Terminal() {
		return nil // it was taken up meanwhile
	}
	ctx = context.WithoutCancel(ctx)
	r.mu.Lock()
	d, ok := r.drivers[id]
	delete(r.drivers, id)
	r.mu.Unlock()
	dir := filepath.Join(r.cfg.DataDir, "runs", string(id))
	if !ok {
		// What is at work is known by that directory.
		d = &driver{host: host.New(host.Config{
			Dir: dir, Sandbox: r.cfg.Sandbox, Backend: r.cfg.Backend, Transcripts: r.cfg.Transcripts, Mask: r.cfg.Mask,
		})}
	}
	err = errors.Join(d.close(ctx), d.host.EndAll(ctx))
	if err == nil {
		err = errors.Join(fstree.RemoveAll(dir), fstree.RemoveAll(gatewayDir(r.cfg.DataDir, id)))
	}
	if err != nil {
		return fmt.Errorf("remove what run %s left: %w", id, err)
	}
	return nil
}
