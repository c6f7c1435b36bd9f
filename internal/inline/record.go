package inline

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// localDir is where the runs of all plans are kept.
func localDir(dataDir string) string { return filepath.Join(dataDir, "local") }

// storeFile is the database of all `bot run` with that data directory.
func storeFile(dataDir string) string { return filepath.Join(localDir(dataDir), "ralph.db") }

// openStore opens the database, and makes it where there is none.
func openStore(ctx context.Context, dataDir string) (*store.Store, error) {
	st, err := store.Open(ctx, storeFile(dataDir))
	if errors.Is(err, store.ErrDamaged) {
		return nil, &run.UserError{
			Message: "the record of earlier runs cannot be read: " + err.Error(),
			Hint:    "remove " + storeFile(dataDir) + " to start without it; finished tasks are commits and stay", Err: err,
		}
	}
	if errors.Is(err, store.ErrOtherVersion) {
		return nil, &run.UserError{
			Message: err.Error(), Err: err,
			Hint: "remove " + storeFile(dataDir) + " to start with a new one; finished tasks are commits and stay",
		}
	}
	return st, err
}

// readStore is openStore for those who only look: nil where there is none.
func readStore(ctx context.Context, dataDir string) (*store.Store, error) {
	if _, err := os.Stat(storeFile(dataDir)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing was stored yet
	}
	return openStore(ctx, dataDir)
}

// record is the row of a plan's run. Only who holds the plan's lock writes it.
type record struct {
	store *store.Store
	// top is the checkout's, and dir where the plan's runs are kept.
	top, dir string
	// restart: a run that was cut off is given up.
	restart bool
	now     func() time.Time
	// last is how the plan's last run stands, where that can be read.
	last loop.State
	// stored: the run that is saved has a row.
	stored bool
	// chosen is called once it is stored where the run works; nil calls nothing.
	chosen func()
}

// load finds a run of the same plan that was cut off; one that ended is over. A
// plan that is gone is the one that its last run had. With restart, a run that
// cannot be read is none.
func (r *record) load(ctx context.Context, j *job) (s loop.State, resumed bool, err error) {
	row, err := r.row(ctx, j.subject.Key)
	switch {
	case err != nil:
		return loop.State{}, false, err
	case row.State == nil:
		return loop.State{}, false, nil
	}
	if s, err = loop.Decode(row.State); err == nil {
		r.last = s
	}
	switch {
	case err != nil && r.restart:
		return loop.State{}, false, nil
	case err != nil:
		return loop.State{}, false, &run.UserError{
			Message: "the state of this plan's last run cannot be read: " + err.Error(),
			Hint:    "start over with --restart", Err: err,
		}
	case s.Plan.SHA256 != j.plan.SHA256:
		return loop.State{}, false, nil
	}
	if j.gone {
		j.plan, j.subject.Name = s.Plan, s.Subject.Name
	}
	if s.Phase.Terminal() || r.restart {
		return loop.State{}, false, nil
	}
	return s, true, nil
}

// owners are the plans whose last runs in a checkout worked on a branch, by that.
type owners map[string]owner

type owner struct {
	key string
	// ended: no run goes on there. It holds no name any more whose branch was never made, or
	// was deleted.
	ended bool
}

// of is the key of the plan that holds a branch of that name, "" for none.
func (o owners) of(branch string, exists bool) string {
	if o[branch].ended && !exists {
		return ""
	}
	return o[branch].key
}

// readOwners reads those of a checkout.
func readOwners(ctx context.Context, st *store.Store, top string) (owners, error) {
	if st == nil { // nothing was stored yet
		return nil, nil
	}
	rows, err := st.RunsOfCheckout(ctx, top)
	if err != nil {
		return nil, err
	}
	all := owners{}
	for _, row := range rows {
		s, err := loop.Decode(row.State)
		if err != nil || s.Branch == "" || s.NoCommit {
			continue
		}
		if had, ok := all[s.Branch]; !ok || had.ended {
			all[s.Branch] = owner{key: s.Subject.Key, ended: s.Phase.Terminal()}
		}
	}
	return all, nil
}

// row is that of the plan's last run; its State is nil where there is none.
func (r *record) row(ctx context.Context, plan string) (store.Run, error) {
	if r.store == nil { // nothing was stored yet
		return store.Run{}, nil
	}
	row, err := r.store.RunOfPlan(ctx, r.top, plan)
	if errors.Is(err, store.ErrNotFound) {
		return store.Run{}, nil
	}
	return row, err
}

// save stores the run's state. With the first one the run takes the place of
// those that the plan had before: a run that did nothing leaves them as they are.
func (r *record) save(ctx context.Context, s loop.State) error {
	b, err := loop.Encode(s)
	if err != nil {
		return err
	}
	if r.stored {
		err = r.store.SaveState(ctx, s.Run, s.Phase, s.End, b, r.now())
	} else {
		err = r.store.ReplaceRun(ctx, store.Run{
			ID: s.Run, RepoNode: r.top, IssueNode: s.Subject.Key,
			Phase: s.Phase, EndReason: s.End, State: b, CreatedAt: r.now(),
		})
		r.stored = err == nil
	}
	if err == nil && s.Branch != "" && r.chosen != nil {
		r.chosen()
		r.chosen = nil
	}
	return err
}
