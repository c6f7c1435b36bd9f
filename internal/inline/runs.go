package inline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
)

// Past is a run that is remembered in a checkout: the last one of its plan.
type Past struct {
	State loop.State
	// Began is when it was first stored.
	Began time.Time
	// Top is the checkout's root.
	Top string
}

// Runs gives the runs that are remembered in the checkout around dir, the oldest
// first. What a later version has stored is left out.
func Runs(ctx context.Context, git *gitrepo.Git, dir, dataDir string) (past []Past, err error) {
	repo, err := git.OpenLocal(ctx, dir)
	if err != nil {
		return nil, err
	}
	st, err := readStore(ctx, dataDir)
	if err != nil || st == nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	rows, err := st.RunsOfCheckout(ctx, repo.Top())
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		s, err := loop.Decode(row.State)
		if err != nil {
			continue
		}
		past = append(past, Past{State: s, Began: row.CreatedAt, Top: repo.Top()})
	}
	return past, nil
}

// Retry opens blocked tasks of a run again, those named or all, in a commit on its
// branch, and gives their ids. The run must not be under way.
func Retry(ctx context.Context, git *gitrepo.Git, p Past, dataDir string, ids []string, now time.Time) ([]string, error) {
	s := p.State
	unlock, err := lock(filepath.Join(localDir(dataDir), key(p.Top, s.Subject.Key)+"-"+s.Subject.Slug, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	repo, err := git.OpenLocal(ctx, p.Top)
	if err != nil {
		return nil, err
	}
	tip, err := repo.Resolve(ctx, "refs/heads/"+s.Branch)
	if errors.Is(err, gitrepo.ErrNotFound) {
		return nil, &run.UserError{
			Message: fmt.Sprintf("the branch %s is gone", s.Branch), Hint: "run the plan again: it starts over", Err: err,
		}
	}
	if err != nil {
		return nil, err
	}
	src, err := repo.ReadFile(ctx, tip, s.ProgressPath, progress.MaxSize)
	if errors.Is(err, gitrepo.ErrNotFound) {
		return nil, &run.UserError{
			Message: fmt.Sprintf("%s has no %s", s.Branch, s.ProgressPath),
			Hint:    "the run committed nothing, so that the next one tries every task: run the plan again", Err: err,
		}
	}
	if err != nil {
		return nil, err
	}
	doc, err := progress.Parse(src)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.ProgressPath, err)
	}
	opened, err := reopen(doc, ids)
	if err != nil || len(opened) == 0 {
		return nil, err
	}
	return opened, commitProgress(ctx, repo, s, tip, doc, opened, now)
}

// reopen opens the blocked tasks of doc with these ids, or all of them.
func reopen(doc *progress.Doc, ids []string) (opened []string, err error) {
	for _, id := range ids {
		t, ok := doc.Task(id)
		if !ok {
			return nil, &run.UserError{Message: "there is no task " + id, Hint: "the command show lists the tasks"}
		}
		if t.Status != run.TaskBlocked {
			return nil, &run.UserError{
				Message: fmt.Sprintf("%s is not blocked: it is %s", id, t.Status),
				Hint:    "the command show lists the blocked tasks",
			}
		}
	}
	if len(ids) == 0 {
		for _, t := range doc.Tasks() {
			if t.Status == run.TaskBlocked {
				ids = append(ids, t.ID)
			}
		}
	}
	for _, id := range ids {
		if err := doc.Reopen(id); err != nil {
			return nil, fmt.Errorf("open %s: %w", id, err)
		}
	}
	return ids, nil
}

// commitProgress puts the progress file on the run's branch, and into the checkout
// where that is checked out.
func commitProgress(
	ctx context.Context, repo *gitrepo.Repo, s loop.State, tip gitrepo.OID, doc *progress.Doc, opened []string,
	now time.Time,
) error {
	name, email, err := repo.Identity(ctx)
	if err != nil {
		return err
	}
	before, err := repo.TreeOf(ctx, tip)
	if err != nil {
		return err
	}
	blob, err := repo.WriteBlob(ctx, doc.Bytes())
	if err != nil {
		return err
	}
	after, err := repo.TreeWith(ctx, before, []gitrepo.TreeEdit{{Path: s.ProgressPath, Mode: gitrepo.ModeFile, OID: blob}})
	if err != nil {
		return err
	}
	commit, err := repo.CommitTree(ctx, gitrepo.CommitSpec{
		Tree: after, Parents: []gitrepo.OID{tip}, Message: retryMessage(opened),
		Author: gitrepo.Person{Name: name, Email: email}, When: now,
	})
	if err != nil {
		return err
	}
	here, err := repo.CheckedOut(s.Branch)
	if err != nil {
		return err
	}
	// Before the branch moves: a checkout with changes in the way is left as it is.
	if here {
		err := repo.AdvanceCheckout(ctx, before, after)
		if conflict, ok := errors.AsType[*gitrepo.ConflictError](err); ok {
			return &run.UserError{
				Message: fmt.Sprintf("your checkout of %s has changes in the way: %v", s.Branch, conflict),
				Hint:    "stash them (git stash) and try again", Err: err,
			}
		}
		if err != nil {
			return err
		}
	}
	return repo.UpdateRef(ctx, "refs/heads/"+s.Branch, commit, tip)
}

func retryMessage(opened []string) string {
	return "chore: retry " + strings.Join(opened, ", ") + "\n"
}

// Apply puts a patch into the checkout around dir and its index, all of it or nothing.
// Paths that only a person may change are refused unless force is given.
func Apply(ctx context.Context, git *gitrepo.Git, p Past, patch []byte, force bool) (paths []string, err error) {
	repo, err := git.OpenLocal(ctx, p.Top)
	if err != nil {
		return nil, err
	}
	if paths, err = repo.PatchPaths(ctx, patch); err != nil {
		return nil, err
	}
	for _, path := range paths {
		if why := publish.Protects(path, p.State.Protected); why != "" && !force {
			return nil, &run.UserError{
				Message: fmt.Sprintf("the patch changes %s, which %s", path, why),
				Hint:    "read it with the command diff; --force applies it all the same",
			}
		}
	}
	return paths, repo.ApplyPatch(ctx, patch)
}
