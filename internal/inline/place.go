package inline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// place is the branch that a plan is worked on.
type place struct {
	branch string
	// base is the commit that the work begins from, baseName the branch that
	// this is the tip of, "" where the work begins on what is checked out.
	base     gitrepo.OID
	baseName string
	// slug is the short name of the plan, with a number where another plan of
	// that name has a branch already.
	slug string
	// fresh: the branch has to be made. made: an earlier run made it, and has not
	// ended.
	fresh, made bool
	// own: the branch is the plan's, and nobody else's. note is what has to be
	// noted for that, nil for nothing.
	own  bool
	note *gitrepo.BranchNote
	// left is the branch of another plan that is checked out, "" for none.
	left string
}

// maxSlugs bounds how many plans may have one short name.
const maxSlugs = 20

// repoView is what the choice of a place looks at.
type repoView struct {
	current string // the branch that is checked out, "" where HEAD is detached
	head    gitrepo.OID
	notes   map[string]gitrepo.BranchNote
	def     string      // the default branch, "" where none is known
	tip     gitrepo.OID // of the default branch, "" where it has none here
}

func (c *checkout) view(ctx context.Context) (v repoView, err error) {
	if v.current, v.head, err = c.repo.Head(ctx); err != nil {
		return v, err
	}
	if v.notes, err = c.repo.BranchNotes(ctx); err != nil {
		return v, err
	}
	v.def, v.tip, err = c.defaultBranch(ctx, v.notes)
	if errors.Is(err, gitrepo.ErrNotFound) {
		err = nil
	}
	return v, err
}

// defaultBranch is the default branch and its tip. Where git knows none, it is
// the one that earlier plans were begun from; ErrNotFound where there is none
// either. The tip is "" where the branch has none in this repository.
func (c *checkout) defaultBranch(
	ctx context.Context, notes map[string]gitrepo.BranchNote,
) (string, gitrepo.OID, error) {
	def, err := c.repo.DefaultBranch(ctx)
	if err != nil && !errors.Is(err, gitrepo.ErrNotFound) {
		return "", "", err
	}
	candidates := []string{def}
	if err != nil {
		candidates = nil
		for _, branch := range slices.Sorted(maps.Keys(notes)) {
			candidates = append(candidates, notes[branch].Base)
		}
	}
	for _, name := range candidates {
		for _, ref := range []string{"refs/heads/" + name, "refs/remotes/origin/" + name} {
			at, err := c.repo.Resolve(ctx, ref)
			if err == nil || !errors.Is(err, gitrepo.ErrNotFound) {
				return name, at, err
			}
		}
	}
	return def, "", err
}

// choose says where the plan of that key is worked, and changes nothing. A plan
// has a branch of its own, begun from the default one; somebody's own branch
// that is checked out is taken instead. wanted is the branch that the plan
// names, "" for none.
func (c *checkout) choose(ctx context.Context, key, slug, wanted string) (place, error) {
	v, err := c.view(ctx)
	if err != nil {
		return place{}, err
	}
	here := place{branch: v.current, base: v.head, slug: slug, made: v.notes[v.current].Made}
	switch {
	case c.named != "":
		if !gitrepo.ValidBranch(c.named) {
			return place{}, &run.UserError{
				Message: fmt.Sprintf("--branch: %q is not a valid branch name", c.named),
				Hint:    "use a name such as ralph/my-plan",
			}
		}
		return c.at(ctx, v, key, place{branch: c.named, slug: slug})
	case v.current == "":
		return place{}, errDetached()
	case c.here:
		return here, nil
	case wanted != "":
		if err := checkWanted(wanted, v.def); err != nil {
			return place{}, err
		}
		return c.at(ctx, v, key, place{branch: wanted, slug: slug, own: true})
	case v.notes[v.current].Plan == key, !c.apart && v.current != v.def && !c.isPlans(v, v.current):
		return here, nil
	}
	own, err := c.ownBranch(ctx, v, key, slug)
	if err != nil {
		return place{}, err
	}
	return c.at(ctx, v, key, own)
}

func errDetached() error {
	return &run.UserError{
		Message: "no branch is checked out (HEAD is detached)", Hint: "check out the branch you want the commits on",
	}
}

// checkWanted refuses the branch that a plan names where work must not go
// there.
func checkWanted(branch, def string) error {
	why := ""
	switch {
	case !gitrepo.ValidBranch(branch) || strings.HasPrefix(branch, "refs/"):
		why = "is not a valid branch name"
	case branch == def:
		why = "is the default branch"
	default:
		return nil
	}
	return &run.UserError{
		Message: fmt.Sprintf("the plan names the branch %q, which %s", branch, why),
		Hint:    `set another "branchName" in it, or use --branch NAME`,
	}
}

// isPlans says whether the branch belongs to a plan: a note says so, or it has
// the name of one.
func (c *checkout) isPlans(v repoView, branch string) bool {
	_, ok := c.branches.Slug(branch)
	return ok || v.notes[branch].Plan != ""
}

// ownBranch finds the branch of the plan, or a name that no other plan has.
func (c *checkout) ownBranch(ctx context.Context, v repoView, key, slug string) (place, error) {
	for _, branch := range slices.Sorted(maps.Keys(v.notes)) {
		if v.notes[branch].Plan != key {
			continue
		}
		if there, err := c.exists(ctx, branch); err != nil || there {
			if own, ok := c.branches.Slug(branch); ok {
				slug = own
			}
			return place{branch: branch, slug: slug, own: true}, err
		}
	}
	for n := 1; n <= maxSlugs; n++ {
		p := place{slug: slug, own: true}
		if n > 1 {
			p.slug = fmt.Sprintf("%s-%d", slug, n)
		}
		p.branch = c.branches.Named(p.slug)
		others, err := c.isOthers(ctx, v, p, key)
		if err != nil || !others {
			return p, err
		}
	}
	return place{}, &run.UserError{
		Message: fmt.Sprintf("%s and the branches numbered like it belong to other plans", c.branches.Named(slug)),
		Hint:    "delete the finished ones, or use --branch NAME",
	}
}

// isOthers says whether the branch is there and holds the work of another plan.
func (c *checkout) isOthers(ctx context.Context, v repoView, p place, key string) (bool, error) {
	there, err := c.exists(ctx, p.branch)
	if err != nil || !there {
		return false, err
	}
	if owner := v.notes[p.branch].Plan; owner != "" {
		return owner != key, nil
	}
	// It comes from another clone, say: its progress file tells.
	tip, err := c.repo.Resolve(ctx, "refs/heads/"+p.branch)
	if err != nil {
		return false, err
	}
	src, owner, err := c.boundTo(ctx, tip, p.slug)
	if err != nil || owner == "" || owner == key || v.tip == "" {
		return owner != "" && owner != key, err
	}
	// What the default branch has as well was merged there by another plan, and
	// says nothing about this branch.
	merged, _, err := c.boundTo(ctx, v.tip, p.slug)
	return merged != src, err
}

// boundTo reads the progress file of that short name in a commit, and the key
// of the plan that it belongs to; "" where there is none.
func (c *checkout) boundTo(ctx context.Context, commit gitrepo.OID, slug string) (src, key string, err error) {
	b, err := c.repo.ReadFile(ctx, commit, ".ralph/"+slug+"/progress.md", progress.MaxSize)
	if errors.Is(err, gitrepo.ErrNotFound) || errors.Is(err, gitrepo.ErrTooLarge) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	doc, err := progress.Parse(b)
	if err != nil {
		return "", "", nil //nolint:nilerr // what cannot be read belongs to nobody
	}
	binding, _ := doc.Binding()
	return string(b), binding.Key, nil
}

func (c *checkout) exists(ctx context.Context, branch string) (bool, error) {
	_, err := c.repo.Resolve(ctx, "refs/heads/"+branch)
	if errors.Is(err, gitrepo.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// at completes a place whose branch is known: whether that has to be made, and
// from where the work begins.
func (c *checkout) at(ctx context.Context, v repoView, key string, p place) (place, error) {
	there, err := c.exists(ctx, p.branch)
	if err != nil {
		return place{}, err
	}
	p.fresh, p.made = !there, there && v.notes[p.branch].Made
	if (p.own || p.fresh) && v.notes[p.branch].Plan != key {
		p.note = &gitrepo.BranchNote{Plan: key}
	}
	if p.branch == v.current {
		p.base = v.head
		return p, nil
	}
	if c.isPlans(v, v.current) && v.notes[v.current].Plan != key {
		p.left = v.current
	}
	switch {
	case v.tip != "":
		p.base, p.baseName = v.tip, v.def
	case p.left != "" && p.fresh:
		return place{}, &run.UserError{
			Message: fmt.Sprintf("%s is the branch of another plan, and the default branch is unknown here", v.current),
			Hint:    "check out the branch to start from, or use --here to stay on this one",
		}
	default:
		p.base, p.baseName = v.head, v.current
	}
	if p.fresh && p.note != nil {
		p.note.Base = p.baseName
	}
	return p, nil
}

// enter makes the branch of the place where it has to be made, has it checked out
// where the checkout is to follow, and gives its tip. id is the run that enters, and
// current the branch that is checked out.
func (c *checkout) enter(ctx context.Context, p place, id run.ID, current string) (gitrepo.OID, error) {
	switch {
	case c.looks && p.fresh:
		return p.base, nil
	case c.looks:
		return c.repo.Resolve(ctx, "refs/heads/"+p.branch)
	}
	if p.fresh {
		// stale: it is there
		if err := c.repo.CreateBranch(ctx, p.branch, p.base); err != nil && !errors.Is(err, gitrepo.ErrStale) {
			return "", err
		}
	}
	if away := c.switches && p.branch != current; p.fresh || p.made || away {
		if p.note == nil {
			p.note = &gitrepo.BranchNote{}
		}
		p.note.Run, p.note.Made = string(id), p.fresh
		if away {
			p.note.From = current
		}
	}
	if p.note != nil {
		if err := c.repo.NoteBranch(ctx, p.branch, *p.note); err != nil {
			return "", err
		}
	}
	if p.left != "" {
		c.say("%s is the branch of another plan: this plan uses %s (use --here to stay)", p.left, p.branch)
	}
	made := ""
	if p.fresh {
		made = fmt.Sprintf(" (new, from %s at %.7s)", cmp.Or(p.baseName, "what is checked out"), p.base)
	}
	switch {
	case p.branch == current:
		c.follows = true
		return c.switchTo(ctx, p.branch)
	case c.switches:
		tip, err := c.switchTo(ctx, p.branch)
		if err == nil {
			c.follows = true
			c.say("switched your checkout from %s to %s%s", cmp.Or(current, "no branch"), p.branch, made)
		}
		return tip, err
	}
	tip, err := c.repo.Free(ctx, p.branch)
	if err == nil {
		c.sayBeside(p.branch+made, current)
	}
	return tip, err
}

// sayBeside says where the work is, as it is not in the person's checkout.
func (c *checkout) sayBeside(branch, current string) {
	c.say("commits go to %s; your checkout stays on %s", branch, cmp.Or(current, "no branch"))
	c.say("agents work in %s", c.where)
}

// leave undoes what the run's beginning did to branches where nothing came of it: the
// branch that was checked out before is checked out again, and one that was made for
// the run goes. Where it made commits, all stays.
func (c *checkout) leave(ctx context.Context, s loop.State) error {
	if s.Branch == "" || s.NoCommit {
		return nil
	}
	notes, err := c.repo.BranchNotes(ctx)
	note := notes[s.Branch]
	if err != nil || note.Run != string(s.Run) {
		return err
	}
	if len(s.Commits) > 0 {
		return c.repo.KeepBranch(ctx, s.Branch)
	}
	here, err := c.repo.CheckedOut(s.Branch)
	if err != nil {
		return err
	}
	if here && note.From != "" {
		if _, err := c.switchTo(ctx, note.From); err != nil {
			return err
		}
		c.say("nothing was committed: your checkout is back on %s", note.From)
		here = false
	}
	if !note.Made || here {
		return c.repo.KeepBranch(ctx, s.Branch)
	}
	switch err := c.repo.RemoveBranch(ctx, s.Branch, gitrepo.OID(s.Base)); {
	case errors.Is(err, gitrepo.ErrStale): // somebody else has committed there, or removed it
		return c.repo.KeepBranch(ctx, s.Branch)
	case err != nil:
		return err
	}
	c.say("nothing was committed: removed the empty branch %s", s.Branch)
	return nil
}

// switchTo checks out a branch.
func (c *checkout) switchTo(ctx context.Context, branch string) (gitrepo.OID, error) {
	err := c.repo.Checkout(ctx, branch)
	if conflict, ok := errors.AsType[*gitrepo.ConflictError](err); ok {
		return "", &run.UserError{
			Message: fmt.Sprintf("%s cannot be checked out: %v", branch, conflict),
			Hint:    "stash your changes (git stash) and run the same command again", Err: err,
		}
	}
	if err != nil {
		return "", err
	}
	_, tip, err := c.repo.Head(ctx)
	return tip, err
}

// back comes back to the branch of a run that was cut off, and checks it out again
// where the checkout is to follow. Where that holds changes it is left alone: the
// commits reach the branch all the same.
func (c *checkout) back(ctx context.Context, branch string) error {
	current, _, err := c.repo.Head(ctx)
	if err != nil || current == branch {
		c.follows = err == nil
		return err
	}
	if !c.switches {
		c.sayBeside(branch, current)
		return nil
	}
	there, err := c.exists(ctx, branch)
	if err != nil || !there {
		return err
	}
	dirty, err := c.repo.Dirty(ctx)
	if err != nil || len(dirty) > 0 {
		return err
	}
	if _, err = c.switchTo(ctx, branch); err == nil {
		c.follows = true
		c.say("switched your checkout from %s back to %s, the branch of this run", cmp.Or(current, "no branch"), branch)
	}
	return err
}
