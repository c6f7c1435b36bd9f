package inline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// place is the branch that a plan is worked on.
type place struct {
	branch string
	// base is the commit that the work begins from, baseName the branch that
	// this is the tip of, "" where that is the place's own branch or has no name.
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

// errDetached says that no branch is checked out.
func errDetached() error {
	return &run.UserError{
		Message: "no branch is checked out (HEAD is detached)", Hint: "check out the branch you want the commits on",
	}
}

// repoView is what the choice of a place looks at.
type repoView struct {
	current string // the branch that is checked out, "" where HEAD is detached
	head    gitrepo.OID
	notes   map[string]gitrepo.BranchNote
	refs    gitrepo.Branches
	// origin is the default branch that origin names now, "" where it names none.
	origin string
	// bound reads the progress file of that short name in a commit, and the key of the
	// plan that this belongs to; "" where there is none.
	bound func(commit gitrepo.OID, slug string) (src, key string, err error)
}

// usual are the names that default branches mostly have.
var usual = []string{"main", "master", "trunk"}

// defaultBranch is the default branch and its tip, "" where none is known: what origin
// says now, what it said when the person last fetched, what is checked out and tracks a
// branch of origin, the usual names, the only branch there is, and what earlier plans
// were begun from. A branch that is not here is passed over.
func (v repoView) defaultBranch() (name string, tip gitrepo.OID) {
	names := []string{v.origin, v.refs.Head}
	atOrigin := func(name string) bool { return v.refs.Origin[name] != "" }
	tracked := v.refs.Tracking[v.current] && !v.isPlans(v.current)
	// Where origin has a usual name, a branch of another one is somebody's work.
	if tracked && (slices.Contains(usual, v.current) || !slices.ContainsFunc(usual, atOrigin)) {
		names = append(names, v.current)
	}
	names = append(names, usual...)
	if len(v.refs.Here) == 1 {
		names = slices.AppendSeq(names, maps.Keys(v.refs.Here))
	}
	for _, branch := range slices.Sorted(maps.Keys(v.notes)) {
		names = append(names, v.notes[branch].Base)
	}
	for _, name := range names {
		if tip := v.refs.Tip(name); tip != "" {
			return name, tip
		}
	}
	return "", ""
}

// mayBeDefault says whether the branch is the default one, or was or may be: where
// origin does not tell, those of the usual names may.
func (v repoView) mayBeDefault(branch string) bool {
	def, _ := v.defaultBranch()
	return branch == v.origin || branch == v.refs.Head || branch == def ||
		v.origin == "" && slices.Contains(usual, branch)
}

// isPlans says whether the branch belongs to a plan: a note says so, or it has
// the name of one.
func (v repoView) isPlans(branch string) bool {
	_, ok := run.BranchSlug(branch)
	return ok || v.notes[branch].Plan != ""
}

// begunFrom is where a branch begins that is made while another is checked out: at
// that, or, where it belongs to a plan, on the branch that it was begun from itself.
// Where this is not known it is the default branch. at is "" where nothing is known;
// name is "" for what is checked out where that has none.
func (v repoView) begunFrom(branch string) (name string, at gitrepo.OID) {
	switch base := v.notes[branch].Base; {
	case branch == v.current && !v.isPlans(branch):
		return branch, v.head
	case base != "" && v.refs.Tip(base) != "":
		return base, v.refs.Tip(base)
	}
	return v.defaultBranch()
}

// wish is which branch is asked for.
type wish struct {
	// named is the branch that the person names, "" for none; here: the one that is
	// checked out.
	named string
	here  bool
	// planned is the branch that the plan names, "" for none.
	planned string
	// key and slug are the identity and the short name of the plan.
	key, slug string
}

// decide says where a plan is worked: on the branch that the person or the plan names,
// or on one of the plan's own. No other may get commits, whatever is checked out and
// whatever is the default branch. A branch that has to be made begins at what is checked
// out, unless that is a plan's. Nothing is changed: runs and dry runs ask alike.
func decide(v repoView, w wish) (place, error) {
	here := place{branch: v.current, base: v.head, slug: w.slug, made: v.notes[v.current].Made != ""}
	switch {
	case w.named != "":
		if !gitrepo.ValidBranch(w.named) {
			return place{}, &run.UserError{
				Message: fmt.Sprintf("--branch: %q is not a valid branch name", w.named),
				Hint:    "use a name such as ralph/my-plan",
			}
		}
		return v.at(w.key, place{branch: w.named, slug: w.slug})
	case v.current == "":
		return place{}, errDetached()
	case w.here:
		return here, nil
	case w.planned != "":
		if err := v.checkPlanned(w.planned); err != nil {
			return place{}, err
		}
		return v.at(w.key, place{branch: w.planned, slug: w.slug, own: true})
	case v.notes[v.current].Plan == w.key && !v.mayBeDefault(v.current):
		return here, nil
	}
	own, err := v.ownBranch(w.key, w.slug)
	if err != nil {
		return place{}, err
	}
	return v.at(w.key, own)
}

// checkPlanned refuses the branch that a plan names where work must not go
// there.
func (v repoView) checkPlanned(branch string) error {
	why := ""
	switch {
	case !gitrepo.ValidBranch(branch) || strings.HasPrefix(branch, "refs/"):
		why = "is not a valid branch name"
	case v.mayBeDefault(branch):
		why = "is the default branch"
		if def, _ := v.defaultBranch(); branch != def {
			why = "is, was or may be the default branch"
		}
	default:
		return nil
	}
	return &run.UserError{
		Message: fmt.Sprintf("the plan names the branch %q, which %s", branch, why),
		Hint:    `set another "branchName" in it, or use --branch NAME`,
	}
}

// ownBranch finds the branch of the plan, or a name that no other plan has.
func (v repoView) ownBranch(key, slug string) (place, error) {
	for _, branch := range slices.Sorted(maps.Keys(v.notes)) {
		if v.notes[branch].Plan != key || v.refs.Here[branch] == "" || v.mayBeDefault(branch) {
			continue
		}
		if own, ok := run.BranchSlug(branch); ok {
			slug = own
		}
		return place{branch: branch, slug: slug, own: true}, nil
	}
	for n := 1; n <= maxSlugs; n++ {
		p := place{slug: slug, own: true}
		if n > 1 {
			p.slug = fmt.Sprintf("%s-%d", slug, n)
		}
		p.branch = run.BranchNamed(p.slug)
		others, err := v.isOthers(p, key)
		if err != nil || !others {
			return p, err
		}
	}
	return place{}, &run.UserError{
		Message: fmt.Sprintf("%s and the branches numbered like it belong to other plans", run.BranchNamed(slug)),
		Hint:    "delete the finished ones, or use --branch NAME",
	}
}

// isOthers says whether the branch is there and holds the work of another plan.
func (v repoView) isOthers(p place, key string) (bool, error) {
	tip := v.refs.Here[p.branch]
	if tip == "" {
		return false, nil
	}
	if owner := v.notes[p.branch].Plan; owner != "" {
		return owner != key, nil
	}
	// It comes from another clone, say: its progress file tells.
	src, owner, err := v.bound(tip, p.slug)
	_, def := v.defaultBranch()
	if err != nil || owner == "" || owner == key || def == "" {
		return owner != "" && owner != key, err
	}
	// What the default branch has as well was merged there by another plan, and
	// says nothing about this branch.
	merged, _, err := v.bound(def, p.slug)
	return merged != src, err
}

// at completes a place whose branch is known: whether that has to be made, and
// from where the work begins.
func (v repoView) at(key string, p place) (place, error) {
	p.fresh = v.refs.Here[p.branch] == ""
	p.made = !p.fresh && v.notes[p.branch].Made != ""
	if (p.own || p.fresh) && v.notes[p.branch].Plan != key {
		p.note = &gitrepo.BranchNote{Plan: key}
	}
	if p.branch == v.current {
		p.base = v.head
		return p, nil
	}
	if v.isPlans(v.current) && v.notes[v.current].Plan != key {
		p.left = v.current
	}
	from := v.current
	if !p.fresh {
		from = p.branch
	}
	p.baseName, p.base = v.begunFrom(from)
	switch {
	case p.base != "":
	case p.fresh:
		return place{}, &run.UserError{
			Message: fmt.Sprintf("%s is the branch of a plan, and neither the branch that it was begun from nor the default "+
				"branch is known here", v.current),
			Hint: "check out the branch to start from, or use --here to stay on this one",
		}
	default:
		p.baseName, p.base = v.current, v.head
	}
	if p.fresh && p.note != nil {
		p.note.Base = p.baseName
	}
	return p, nil
}

// choose says where the plan of that key is worked, and changes nothing. planned is the
// branch that the plan names, "" for none.
func (c *checkout) choose(ctx context.Context, key, slug, planned string) (place, error) {
	v, err := c.view(ctx)
	if err != nil {
		return place{}, err
	}
	return decide(v, wish{named: c.named, here: c.here, planned: planned, key: key, slug: slug})
}

// view looks at the repository.
func (c *checkout) view(ctx context.Context) (v repoView, err error) {
	v.bound = func(commit gitrepo.OID, slug string) (src, key string, err error) {
		return c.boundTo(ctx, commit, slug)
	}
	if v.current, v.head, err = c.repo.Head(ctx); err != nil {
		return v, err
	}
	if v.notes, err = c.repo.BranchNotes(ctx); err != nil {
		return v, err
	}
	if v.refs, err = c.repo.Branches(ctx); err != nil {
		return v, err
	}
	err = c.ask(ctx, &v)
	return v, err
}

// originPatience is how long origin may take to name its default branch.
const originPatience = 5 * time.Second

// ask has origin name its default branch, once in a run, and tells where that is not
// what is noted here.
func (c *checkout) ask(ctx context.Context, v *repoView) error {
	if c.asked {
		v.origin = c.origin
		return nil
	}
	bound, cancel := context.WithTimeoutCause(ctx, originPatience,
		fmt.Errorf("it did not answer within %v", originPatience))
	defer cancel()
	branch, err := c.repo.AskOrigin(bound)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.asked, c.origin, v.origin = true, branch, branch
	name, _ := v.defaultBranch()
	instead := name + " is taken for it"
	if name == "" {
		instead = "none is known here"
	}
	switch {
	case errors.Is(err, gitrepo.ErrNotFound):
	case err != nil:
		c.say("origin could not be asked for its default branch: %v; %s", err, instead)
	case branch != name:
		c.say("the default branch of origin is %s, which is not here (git fetch origin brings it); %s", branch, instead)
	case v.refs.Head != "" && branch != v.refs.Head:
		c.say("the default branch of origin is %s, no longer %s (git remote set-head origin --auto notes that here)", branch,
			v.refs.Head)
	}
	return nil
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

// Bases are what a branch is compared with once the work is done.
type Bases struct {
	// Work is the branch that the work began from, as git finds it here; "" for none.
	Work string
	// PullRequest is the branch of origin that it may be merged into, "" for none.
	PullRequest string
}

// BasesOf looks for those of a branch, and asks nobody.
func BasesOf(ctx context.Context, repo *gitrepo.Repo, branch string) (Bases, error) {
	v, err := (&checkout{repo: repo, asked: true}).view(ctx)
	if err != nil {
		return Bases{}, err
	}
	return v.bases(branch), nil
}

func (v repoView) bases(branch string) Bases {
	def, _ := v.defaultBranch()
	base := v.notes[branch].Base
	if base == "" && def != branch {
		base = def
	}
	b := Bases{PullRequest: base}
	switch {
	case v.refs.Here[base] != "":
		b.Work = base
	case v.refs.Origin[base] != "":
		b.Work = "origin/" + base
	}
	// A branch that only the person has is no place for a pull request.
	if len(v.refs.Origin) > 0 && v.refs.Origin[base] == "" && def != branch && v.refs.Origin[def] != "" {
		b.PullRequest = def
	}
	return b
}

// enter makes the branch of the place where it has to be made, has it checked out
// where the checkout is to follow, and gives its tip. id is the run that enters, and
// current the branch that is checked out.
func (c *checkout) enter(ctx context.Context, p place, id run.ID, current string) (gitrepo.OID, error) {
	tip, err := p.base, error(nil)
	if !p.fresh {
		tip, err = c.repo.Resolve(ctx, "refs/heads/"+p.branch)
	}
	if err == nil && p.fresh {
		err = c.checkFree(ctx, p.branch)
	}
	if err == nil {
		err = c.tellMissing(ctx, p, tip)
	}
	if err != nil || c.looks {
		return tip, err
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
		if p.note.Run = string(id); p.fresh {
			p.note.Made = p.base
		}
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
		c.say("commits go to %s, which is checked out", p.branch)
		return c.switchTo(ctx, p.branch)
	case c.switches:
		if tip, err = c.switchTo(ctx, p.branch); err == nil {
			c.follows = true
			c.say("switched your checkout from %s to %s%s: commits go there", cmp.Or(current, "no branch"), p.branch, made)
		}
		return tip, err
	}
	if tip, err = c.repo.Free(ctx, p.branch); err == nil {
		c.sayBeside(p.branch+made, current)
	}
	return tip, err
}

// checkFree refuses a branch that cannot be made because git keeps branches like files:
// where there is a branch a, there is no a/b.
func (c *checkout) checkFree(ctx context.Context, branch string) error {
	for i, r := range branch {
		if r != '/' {
			continue
		}
		there, err := c.exists(ctx, branch[:i])
		if err != nil {
			return err
		}
		if there {
			return &run.UserError{
				Message: fmt.Sprintf("there is a branch %s, so git cannot make %s", branch[:i], branch),
				Hint:    fmt.Sprintf("name another one with --branch, or rename that one: git branch -m %s NAME", branch[:i]),
			}
		}
	}
	return nil
}

// tellMissing tells of a plan's file that is committed where the person is, and is not on
// the branch of the place, whose tip that is.
func (c *checkout) tellMissing(ctx context.Context, p place, tip gitrepo.OID) error {
	file := c.files.plan.committed()
	if file == "" {
		return nil
	}
	_, err := c.repo.ReadFile(ctx, tip, file, maxPlan)
	if !errors.Is(err, gitrepo.ErrNotFound) {
		return err
	}
	where := p.branch
	if p.fresh {
		where = fmt.Sprintf("%s, where %s begins", cmp.Or(p.baseName, fmt.Sprintf("%.7s", p.base)), p.branch)
	}
	c.say("%s is not on %s: it is worked as it is in your checkout, and no box is ticked in it", file, where)
	return nil
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
	tip, err := c.repo.Resolve(ctx, "refs/heads/"+s.Branch)
	if err != nil && !errors.Is(err, gitrepo.ErrNotFound) {
		return err
	}
	// A run before may have been cut off after its commits.
	if len(s.Commits) > 0 || note.Made != "" && tip != note.Made {
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
	if note.Made == "" || here {
		return c.repo.KeepBranch(ctx, s.Branch)
	}
	switch err := c.repo.RemoveBranch(ctx, s.Branch, note.Made); {
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
	if err != nil {
		return err
	}
	if current == branch {
		c.follows = true
		c.say("commits go to %s, which is checked out", branch)
		return nil
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
		c.say("switched your checkout from %s back to %s, the branch of this run: commits go there",
			cmp.Or(current, "no branch"), branch)
	}
	return err
}
