package inline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// Preview is what a run would begin with.
type Preview struct {
	// State is that of a run that has looked at everything and done nothing.
	State loop.State
	// Resumed: a run that was cut off would go on.
	Resumed bool
	// NewBranch: State.Branch has to be made. BaseBranch is the branch that the work on
	// it begins from, "" where that has no name. CheckedOut: it is the one that is
	// checked out.
	NewBranch  bool
	BaseBranch string
	CheckedOut bool
	// Notes is what the run would say first.
	Notes []string
	// Order is the tasks in the order in which they would be worked, Tasks all of
	// them.
	Order, Tasks []run.Task
}

// Look says what Run would do, and does none of it: no branch, no state, no
// agent. Errors are those that Run would begin with.
func Look(ctx context.Context, o Options) (p Preview, err error) {
	repo, err := o.Git.OpenLocal(ctx, o.Dir)
	if err != nil {
		return Preview{}, err
	}
	j, err := o.job(repo.Top())
	if err != nil {
		return Preview{}, err
	}
	st, err := readStore(ctx, o.DataDir)
	if err != nil {
		return Preview{}, err
	}
	if st != nil {
		defer func() { err = errors.Join(err, st.Close()) }()
	}
	place := o.checkout(repo, j)
	place.emit = func(e run.Event) { p.Notes = append(p.Notes, e.Text) }
	id := host.NewID(o.Now())
	s, resumed, err := o.prepare(ctx, place, o.record(st, repo.Top(), ""), &j, &id)
	if err != nil {
		return Preview{}, err
	}
	p.Resumed, p.NewBranch, p.BaseBranch = resumed, place.place.from != "", place.place.from
	if s.Progress == "" {
		if s, err = o.open(ctx, place, s); err != nil {
			return Preview{}, err
		}
	}
	p.State = s
	if p.CheckedOut, err = repo.CheckedOut(s.Branch); err != nil {
		return Preview{}, err
	}
	p.Order, p.Tasks, err = loop.Ahead(s)
	return p, err
}

// open takes the first step of a run, in a directory that is removed again.
func (o Options) open(ctx context.Context, place *checkout, s loop.State) (_ loop.State, err error) {
	dir, err := os.MkdirTemp("", "ralph-look-")
	if err != nil {
		return s, fmt.Errorf("make a directory to look at the work tree: %w", err)
	}
	defer func() { err = errors.Join(err, fstree.RemoveAll(dir)) }()
	h := host.New(o.hostConfig(place, filepath.Join(dir, "run")))
	defer h.Close()
	e := &loop.Engine{Work: h, Publisher: place, Now: o.Now}
	s, _, err = e.Step(ctx, s)
	return s, err
}
