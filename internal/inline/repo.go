package inline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// checkout is the user's repository as the source of a run and as the place
// its commits land in.
type checkout struct {
	repo *gitrepo.Repo
	// objects is the run's own repository, with what has not landed.
	objects func(ctx context.Context) (*gitrepo.Repo, error)
	// place is where a new run works; see choose.
	place place
	// named is the branch that was asked for, "" for none; here: the work stays on
	// the one that is checked out; pushes: it is pushed at the end.
	named        string
	here, pushes bool
	// spec: the plan is the folder of a spec; writes is the file of it that the run writes
	// for a person to read, "" where there are tasks to work.
	spec   bool
	writes string
	owners owners
	// last is the plan's last run, "" for none.
	last run.ID
	// asked: origin has named its default branch, which is origin, "" for none.
	asked  bool
	origin string

	author gitrepo.Person
	now    func() time.Time
	agent  string
	emit   func(run.Event)
	mask   *redact.Masker
	// files are those that the plan came from.
	files taskFiles
	// toldNoDefault: that there is no default branch has been said.
	toldNoDefault bool
	// toldPlan: that the plan's own file could not be brought up to date has been
	// said.
	toldPlan bool
}

// say tells the person at the terminal.
func (c *checkout) say(format string, args ...any) {
	if c.emit != nil {
		c.emit(run.Event{Time: c.now(), Kind: run.EventPersonNotified, Text: fmt.Sprintf(format, args...)})
	}
}

var (
	_ host.Source    = (*checkout)(nil)
	_ loop.Publisher = (*checkout)(nil)
)

// Repo implements host.Source.
func (c *checkout) Repo(context.Context) (*gitrepo.Repo, error) { return c.repo, nil }

// Locate implements host.Source: the place that was chosen for the plan, or the branch of
// a run that has begun.
func (c *checkout) Locate(ctx context.Context, s loop.State) (host.Location, error) {
	branch, head, err := c.repo.Head(ctx)
	if err != nil {
		return host.Location{}, err
	}
	base := gitrepo.OID(cmp.Or(s.Base, string(head)))
	switch {
	case s.NoCommit && branch == "":
		return host.Location{}, errDetached()
	case s.NoCommit && s.Branch != "" && branch != s.Branch:
		return host.Location{}, &run.UserError{
			Message: fmt.Sprintf("the run works on branch %s, but %s is checked out", s.Branch, branch),
			Hint:    "check out " + s.Branch + " to continue",
		}
	case s.NoCommit:
	case s.Branch == "":
		branch, head, base = c.place.branch, c.place.head, c.place.base
	case branch != s.Branch:
		if head, err = c.tip(ctx, s); err != nil {
			return host.Location{}, err
		}
		branch = s.Branch
	}
	settings, def, err := c.settingsFrom(ctx, base)
	if err != nil {
		return host.Location{}, err
	}
	if err := c.repo.Complete(ctx, head, base, settings); err != nil {
		return host.Location{}, err
	}
	conf, _, err := host.ReadConfig(ctx, c.repo, settings, "")
	return host.Location{
		Repo: c.repo, Branch: branch, Base: base, Head: head, Default: settings, Reviewed: def != "" && def != branch,
		Config: conf,
	}, err
}

// tip is where a run that has begun goes on: at its branch's tip, or where it began as
// long as it has made no commit and nobody else one beyond that.
func (c *checkout) tip(ctx context.Context, s loop.State) (gitrepo.OID, error) {
	tip, err := c.repo.Free(ctx, s.Branch)
	missing := errors.Is(err, gitrepo.ErrNotFound)
	if err != nil && !missing || s.Head == "" || committed(s) {
		return tip, deleted(s, err)
	}
	if !missing {
		behind, err := c.repo.Contains(ctx, gitrepo.OID(s.Head), tip)
		if err != nil || !behind {
			return tip, err
		}
	}
	return gitrepo.OID(s.Head), nil
}

// deleted is err in words for people where it says that the branch of a run is gone that
// has committed to it.
func deleted(s loop.State, err error) error {
	if !committed(s) || !errors.Is(err, gitrepo.ErrNotFound) {
		return err
	}
	return &run.UserError{
		Message: s.Branch + " was deleted, and a run that has committed to it is not done",
		Hint:    fmt.Sprintf("`git branch %s %.12s` brings it back; `--restart` begins anew", s.Branch, s.Head), Err: err,
	}
}

// committed says whether a run has made a commit.
func committed(s loop.State) bool {
	return slices.ContainsFunc(s.Commits, func(c loop.Landed) bool { return c.OID != "" })
}

// settingsFrom is the commit that the repository's configuration, prompts and
// agent instructions are read from: the default branch's, so that work in
// progress does not steer itself; head where there is no such branch. def is the
// name of the branch, "" where there is none.
func (c *checkout) settingsFrom(ctx context.Context, head gitrepo.OID) (at gitrepo.OID, def string, err error) {
	v, err := c.view(ctx)
	if err != nil {
		return "", "", err
	}
	if def, at = v.defaultBranch(); at != "" {
		return at, def, nil
	}
	if !c.toldNoDefault {
		c.toldNoDefault = true
		c.say("the default branch is unknown here: configuration, prompts and agent instructions come from this branch")
	}
	return head, "", nil
}

// Begin implements loop.Publisher; the terminal tells already.
func (c *checkout) Begin(context.Context, loop.State) error { return nil }

// Show implements loop.Publisher; there is no pull request.
func (c *checkout) Show(context.Context, loop.State) (*loop.PullRequest, error) {
	return nil, nil
}

// Screen implements loop.Publisher.
func (c *checkout) Screen(s loop.State, changes []loop.Change) []loop.Refusal {
	return publish.Screen(s, changes)
}

// Land implements loop.Publisher: a commit of the user's on the branch of the run, the
// checkout moved to it where that is checked out, and then the plan's own file brought
// up to date where it is no part of the commit.
func (c *checkout) Land(ctx context.Context, l loop.Landing) (loop.Landed, error) {
	landed, err := c.land(ctx, l)
	if err != nil {
		return landed, err
	}
	if l.Task.ID != "" {
		err := errors.Join(c.forgetRefused(ctx, l.State.Run, l.Task.ID), c.forgetRefused(ctx, c.last, l.Task.ID))
		if err != nil {
			c.say("what was refused of %s on the way stays: %v", l.Task.ID, err)
		}
	}
	if err := c.follow(l); err != nil && !c.toldPlan {
		c.toldPlan = true
		c.say("the plan's file in the checkout was not updated: %v", err)
	}
	return landed, nil
}

func (c *checkout) land(ctx context.Context, l loop.Landing) (loop.Landed, error) {
	s := l.State
	tree, oldTree := gitrepo.OID(l.Tree), gitrepo.OID(s.HeadTree)
	objects, err := c.objects(ctx)
	if err != nil {
		return loop.Landed{}, err
	}
	here, err := c.repo.CheckedOut(s.Branch)
	if err != nil {
		return loop.Landed{}, err
	}
	if !here && !s.NoCommit {
		if _, err := c.repo.Free(ctx, s.Branch); err != nil && !errors.Is(err, gitrepo.ErrNotFound) {
			return loop.Landed{}, err // a checkout elsewhere would not move with its branch
		}
	}
	if s.NoCommit {
		if !here {
			return loop.Landed{}, &run.UserError{
				Message: "the branch " + s.Branch + " is no longer checked out, so the work cannot be committed",
				Hint:    "check it out again and run the same command to continue",
			}
		}
		if err := c.repo.Take(ctx, objects, tree); err != nil {
			return loop.Landed{}, err
		}
		if err := c.repo.AdvanceCheckout(ctx, oldTree, tree); err != nil {
			return loop.Landed{}, inTheWay(s.Branch, err)
		}
		return loop.Landed{Tree: l.Tree}, nil
	}
	message := publish.Message(c.mask, publish.CommitOf(l, c.agent))
	subject, _, _ := strings.Cut(message, "\n")
	ref := "refs/heads/" + s.Branch
	oid, err := objects.CommitTree(ctx, gitrepo.CommitSpec{
		Tree: tree, Parents: []gitrepo.OID{gitrepo.OID(s.Head)}, Message: message,
		Author: c.author, When: c.now(),
	})
	if err != nil {
		return loop.Landed{}, err
	}
	if err := c.repo.Take(ctx, objects, oid); err != nil {
		return loop.Landed{}, err
	}
	old, err := c.forward(ctx, s)
	if err == nil && here {
		err = c.follows(ctx, s, old, tree)
	}
	if err == nil {
		err = c.repo.UpdateRef(ctx, ref, oid, old)
	}
	if errors.Is(err, gitrepo.ErrStale) {
		oid, err = c.landed(ctx, l, ref, message)
	}
	if err != nil {
		return loop.Landed{}, err
	}
	landed := loop.Landed{OID: string(oid), Tree: l.Tree, Subject: subject}
	if !here {
		return landed, nil
	}
	err = c.repo.AdvanceCheckout(ctx, oldTree, tree)
	if conflict, ok := errors.AsType[*gitrepo.ConflictError](err); ok {
		return loop.Landed{}, &run.UserError{
			Message: fmt.Sprintf("commit %.10s is on %s, but your checkout could not be updated: %v", oid, s.Branch, conflict),
			Hint:    "stash your changes (git stash) and run the same command to continue", Err: err,
		}
	}
	if err != nil {
		return loop.Landed{}, fmt.Errorf("commit %.10s is on %s, but the checkout could not be updated: %w", oid, s.Branch,
			err)
	}
	return landed, nil
}

// follows refuses to move the branch that is checked out from old where the checkout cannot move
// with it: the next commit there would take the new one back.
func (c *checkout) follows(ctx context.Context, s loop.State, old, tree gitrepo.OID) error {
	tip, err := c.repo.Resolve(ctx, "refs/heads/"+s.Branch)
	if err != nil || tip != old {
		return err // who moves the branch finds out
	}
	return inTheWay(s.Branch, c.repo.CanAdvance(ctx, gitrepo.OID(s.HeadTree), tree))
}

// inTheWay is err in words for people where it says that the checkout has changes in the way.
func inTheWay(branch string, err error) error {
	conflict, ok := errors.AsType[*gitrepo.ConflictError](err)
	if !ok {
		return err
	}
	return &run.UserError{
		Message: fmt.Sprintf("the next work on %s waits, and nothing of it is in your checkout: %v", branch, conflict),
		Hint: "put your changes away (git stash, with -u for new files) and run the same command to continue; then git stash pop" +
			" brings them back", Err: err,
	}
}

// forward is where the branch stands whose next commit has s.Head as its parent: there, or
// before the first commit behind it or nowhere.
func (c *checkout) forward(ctx context.Context, s loop.State) (gitrepo.OID, error) {
	if committed(s) {
		return gitrepo.OID(s.Head), nil
	}
	tip, err := c.repo.Resolve(ctx, "refs/heads/"+s.Branch)
	if errors.Is(err, gitrepo.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	behind, err := c.repo.Contains(ctx, gitrepo.OID(s.Head), tip)
	if err != nil || behind {
		return tip, err
	}
	return gitrepo.OID(s.Head), nil
}

// landed finds the commit of this landing where it was made before and the
// process died; loop.ErrBranchMoved where the branch's tip is something else.
func (c *checkout) landed(ctx context.Context, l loop.Landing, ref, message string) (gitrepo.OID, error) {
	tip, err := c.repo.Resolve(ctx, ref)
	if err != nil {
		return "", deleted(l.State, err)
	}
	info, err := c.repo.CommitInfo(ctx, tip)
	if err != nil {
		return "", err
	}
	same := string(info.Tree) == l.Tree && len(info.Parents) == 1 && string(info.Parents[0]) == l.State.Head &&
		strings.TrimSpace(info.Subject+"\n\n"+info.Body) == strings.TrimSpace(message)
	if !same {
		return "", loop.ErrBranchMoved
	}
	return tip, nil
}
