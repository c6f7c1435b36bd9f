package inline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// Work that was not committed is a commit nobody has checked out, at
// refs/ralph/<run>/<task>. Git shows it, applies it and keeps it; a push of branches or tags
// leaves it here.
const (
	refusedRefs = "refs/ralph/"
	// refusedFor is how long it is there at most.
	refusedFor = 30 * 24 * time.Hour
)

// RefusedRef is where the work at a task lies that a run did not commit.
func RefusedRef(id run.ID, task string) string { return refusedRefs + string(id) + "/" + task }

// Refused lists the refs of the work that a run did not commit, in the order of their names.
func Refused(ctx context.Context, repo *gitrepo.Repo, id run.ID) (refs []string, err error) {
	all, err := repo.Refs(ctx, refusedRefs+string(id)+"/")
	for _, ref := range all {
		refs = append(refs, ref.Name)
	}
	return refs, err
}

// keepAttempt keeps what a failed attempt changed as a commit, in the place of the one
// before at this task.
func (c *checkout) keepAttempt(h *host.Host) func(context.Context, loop.FailedAttempt) (bool, error) {
	return func(ctx context.Context, a loop.FailedAttempt) (kept bool, err error) {
		ref := RefusedRef(a.Run, a.Task.ID)
		if a.To == "" || a.To == a.From || !gitrepo.ValidRef(ref) {
			return false, nil
		}
		objects, err := h.Repo(ctx)
		if err != nil {
			return false, err
		}
		message := fmt.Sprintf("%s\n\nNot committed in iteration %d: %s\n",
			strings.TrimSpace(a.Task.ID+" "+a.Task.Title), a.Iteration, a.Why)
		if c.mask != nil {
			message = c.mask.Mask(message)
		}
		oid, err := objects.CommitTree(ctx, gitrepo.CommitSpec{
			Tree: gitrepo.OID(a.To), Parents: []gitrepo.OID{gitrepo.OID(a.Head)}, Message: message,
			Author: c.author, When: c.now(),
		})
		if err != nil {
			return false, err
		}
		if err := c.repo.Take(ctx, objects, oid); err != nil {
			return false, err
		}
		old, err := c.repo.Resolve(ctx, ref)
		if err != nil && !errors.Is(err, gitrepo.ErrNotFound) {
			return false, err
		}
		if err := c.repo.UpdateRef(ctx, ref, oid, old); err != nil || c.last == a.Run {
			return err == nil, err
		}
		return true, c.forgetRefused(ctx, c.last, a.Task.ID)
	}
}

// forgetRefused removes what a run kept of a task, which is done now or has failed again.
func (c *checkout) forgetRefused(ctx context.Context, id run.ID, task string) error {
	ref := RefusedRef(id, task)
	if !gitrepo.ValidRef(ref) {
		return nil
	}
	old, err := c.repo.Resolve(ctx, ref)
	if errors.Is(err, gitrepo.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.repo.UpdateRef(ctx, ref, "", old)
}

// pruneRefused removes what is old of all runs.
func (c *checkout) pruneRefused(ctx context.Context) error {
	all, err := c.repo.Refs(ctx, refusedRefs)
	for _, ref := range all {
		if c.now().Sub(ref.When) > refusedFor {
			err = errors.Join(err, c.repo.UpdateRef(ctx, ref.Name, "", ref.OID))
		}
	}
	return err
}

// retries has a new run try the tasks again at which the plan's last run failed, in the
// name of who started it. last is how that run ended. Tasks that were blocked already when it began
// to work stay so: a person or the plan says that.
func retries(d *loop.Driver, last loop.State, login string) {
	worked := map[string]bool{}
	for _, it := range last.History {
		worked[it.TaskID] = true
	}
	var wishes []loop.Wish
	for _, t := range tasksOf(last) {
		if t.Status == run.TaskBlocked && worked[t.ID] {
			wishes = append(wishes, loop.Wish{Kind: loop.WishRetry, By: loop.Person{Login: login}, TaskID: t.ID})
		}
	}
	steer := d.Steer
	d.Steer = func(ctx context.Context, s loop.State) (loop.State, bool, error) {
		for len(wishes) > 0 {
			next, _, err := d.Engine.Steer(ctx, s, wishes[0])
			_, impossible := errors.AsType[*run.UserError](err) // a person took the task out
			if errors.Is(err, loop.ErrNotNow) {
				break
			}
			if err != nil && !impossible {
				return s, false, fmt.Errorf("open %s again: %w", wishes[0].TaskID, err)
			}
			s, wishes = next, wishes[1:]
		}
		if steer == nil {
			return s, false, nil
		}
		return steer(ctx, s)
	}
}
