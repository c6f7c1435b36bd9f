package inline

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
)

// place is where a plan is worked. Nothing of it is made before the first commit.
type place struct {
	branch string
	// head is the commit that the work goes on from: the branch's tip, or that of from,
	// the branch that it begins from, where it has to be made or is merged already.
	head gitrepo.OID
	from string
	// base is the default branch's tip, or head where none is known.
	base gitrepo.OID
	// slug is the short name of the plan, with a number where a branch of that name
	// holds the work of another plan.
	slug string
	// checkedOut: the checkout moves with the branch.
	checkedOut bool
}

// maxSlugs bounds how many plans may have one short name.
const maxSlugs = 20

// errDetached says that no branch is checked out.
func errDetached() error {
	return &run.UserError{
		Message: "no branch is checked out (HEAD is detached)", Hint: "check out the branch you want the work on",
	}
}

// repoView is what the choice of a place looks at.
type repoView struct {
	current string // the branch that is checked out, "" where HEAD is detached
	head    gitrepo.OID
	refs    gitrepo.Branches
	// origin is the default branch that origin names now, "" where it names none.
	origin string
	// owner is the key of the plan that a branch of that short name belongs to, as far as
	// that is known; "" where it is not. A tip of "" is a branch that does not exist (yet).
	owner func(branch, slug string, tip gitrepo.OID) (key string, err error)
	// merged says whether a commit is part of what another leads to.
	merged func(into, commit gitrepo.OID) (bool, error)
}

// usual are the names that default branches mostly have. No work goes to one of them.
var usual = []string{"main", "master", "trunk"}

// defaultBranch is the default branch and its tip, "" where none is known: what origin
// says now, what it said when the person last fetched, the usual names, a branch of
// origin that is checked out, and the only branch there is. Of two usual names the one
// that is checked out counts: a repository that renames its branch has both. A branch
// that is not here is passed over.
func (v repoView) defaultBranch() (name string, tip gitrepo.OID) {
	names := append([]string{v.origin, v.refs.Head}, usual...)
	if i := slices.IndexFunc(names, func(name string) bool { return v.refs.Tip(name) != "" }); i >= 0 {
		if slices.Contains(usual, names[i]) && slices.Contains(usual, v.current) {
			names = slices.Insert(names, 0, v.current)
		}
	}
	if _, plans := run.BranchSlug(v.current); v.refs.Tracking[v.current] && !plans {
		names = append(names, v.current)
	}
	if len(v.refs.Here) == 1 {
		names = slices.AppendSeq(names, maps.Keys(v.refs.Here))
	}
	for _, name := range names {
		if tip := v.refs.Tip(name); tip != "" {
			return name, tip
		}
	}
	return "", ""
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
	// last is the branch of the plan's last run, "" for none, and finished: that run did
	// all of another plan that stood in the same file.
	last     string
	finished bool
	// pushes: the branch has to be one that origin takes.
	pushes bool
}

// decide says where a plan is worked: on the branch that the person or the plan names, or
// on the plan's own, which begins at the default branch as it is now; with here on the one
// that is checked out, and so where that is the one of the plan's last run. Never on the default
// branch, nor on what may be it. Nothing is changed: runs and dry runs ask alike.
func decide(v repoView, w wish) (place, error) {
	p := place{branch: w.named, slug: w.slug}
	option := "--branch"
	switch {
	case w.here && v.current == "":
		return p, errDetached()
	case w.here:
		p.branch, option = v.current, "--here"
	case w.named == "" && w.planned == "" && w.last != "" && w.last == v.current && !w.finished &&
		v.check(w.last, option, w.pushes) == nil: // it may be the default branch by now
		p.branch = v.current
		if slug, ok := run.BranchSlug(v.current); ok {
			p.slug = slug
		}
	case w.named == "" && w.planned != "":
		p.branch, option = w.planned, `"branchName" in the plan`
	case w.named == "":
		if err := v.ownBranch(&p, w); err != nil {
			return p, err
		}
	}
	if err := v.check(p.branch, option, w.pushes); err != nil {
		return p, err
	}
	def, base := v.defaultBranch()
	p.base, p.checkedOut = base, p.branch == v.current
	switch tip := v.refs.Tip(p.branch); {
	case tip == "" && def == "":
		return p, &run.UserError{
			Message: "the default branch is not known here, so " + p.branch + " cannot begin there",
			Hint:    "check out the branch to work on and use --here, or let git know it: git remote set-head origin --auto",
		}
	case tip == "":
		p.head, p.from = base, def
	case p.checkedOut:
		p.head = v.head
	default:
		merged, err := v.merged(base, tip)
		if err != nil {
			return p, err
		}
		switch p.head = tip; {
		case merged && base != "":
			p.head, p.from = base, def
		case v.refs.Here[p.branch] == "":
			p.from = "origin/" + p.branch
		}
	}
	p.base = cmp.Or(p.base, p.head)
	return p, nil
}

// ownBranch takes the plan's own branch, or a name that holds no other work.
func (v repoView) ownBranch(p *place, w wish) error {
	own := run.BranchNamed(w.slug)
	free := func() (bool, error) {
		owner, err := v.owner(p.branch, p.slug, v.refs.Tip(p.branch))
		return owner == "" || owner == w.key, err
	}
	if v.refs.Tip(w.last) != "" && strings.HasPrefix(w.last, own) && !w.finished {
		p.branch = w.last
		p.slug, _ = run.BranchSlug(w.last)
		if ok, err := free(); ok || err != nil {
			return err
		}
	}
	for n := 1; n <= maxSlugs; n++ {
		if p.slug = w.slug; n > 1 {
			p.slug = fmt.Sprintf("%s-%d", w.slug, n)
		}
		p.branch = run.BranchNamed(p.slug)
		if w.finished && v.refs.Tip(p.branch) != "" {
			continue
		}
		if ok, err := free(); ok || err != nil {
			return err
		}
	}
	return &run.UserError{
		Message: fmt.Sprintf("%s and the branches numbered like it hold the work of other plans", own),
		Hint:    "delete the finished ones, or use --branch NAME",
	}
}

// check refuses a branch where work must not go, and one that git cannot make because it
// keeps branches like files: where there is a branch a, there is no a/b. option is what
// chose it.
func (v repoView) check(branch, option string, pushes bool) error {
	def, _ := v.defaultBranch()
	switch {
	case !gitrepo.ValidBranch(branch) || strings.HasPrefix(branch, "refs/"):
		return &run.UserError{
			Message: fmt.Sprintf("%s: %q is not a valid branch name", option, branch), Hint: "use a name such as ralph/my-plan",
		}
	case branch == v.origin || branch == v.refs.Head || branch == def:
		return &run.UserError{
			Message: fmt.Sprintf("%s: %s is the default branch, and no work goes there", option, branch),
			Hint:    "use --branch NAME, or leave it out for the plan's own branch",
		}
	case slices.Contains(usual, branch):
		return &run.UserError{
			Message: fmt.Sprintf("%s: %s was or may be the default branch, and no work goes there", option, branch),
			Hint:    "use --branch NAME, or leave it out for the plan's own branch",
		}
	}
	inWay := func(name string) bool {
		return strings.HasPrefix(name, branch+"/") || strings.HasPrefix(branch, name+"/")
	}
	for _, name := range slices.Sorted(maps.Keys(v.refs.Here)) {
		if inWay(name) {
			return &run.UserError{
				Message: fmt.Sprintf("there is a branch %s, so git cannot make %s", name, branch),
				Hint:    fmt.Sprintf("name another one with --branch, or rename that one: git branch -m %s NAME", name),
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.refs.Origin)) {
		if pushes && inWay(name) {
			return &run.UserError{
				Message: fmt.Sprintf("origin has a branch %s, so it cannot take %s", name, branch),
				Hint:    "name another one with --branch, or leave out --push",
			}
		}
	}
	return nil
}

// words say where the commits go, and where the person's checkout stays.
func (p place) words(current string) string {
	said := "commits go to " + p.branch
	switch {
	case strings.HasPrefix(p.from, "origin/"):
		said += fmt.Sprintf(" (as it is on origin, at %.7s)", p.head)
	case p.from != "":
		said += fmt.Sprintf(" (new, from %s at %.7s)", p.from, p.head)
	}
	if p.checkedOut {
		return said + ", which is checked out"
	}
	return fmt.Sprintf("%s; your checkout stays on %s", said, cmp.Or(current, "no branch"))
}

// view looks at the repository.
func (c *checkout) view(ctx context.Context) (v repoView, err error) {
	v.owner = func(branch, slug string, tip gitrepo.OID) (string, error) {
		if tip != "" {
			if key, err := c.boundTo(ctx, tip, slug); err != nil || key != "" {
				return key, err
			}
		}
		return c.owners.of(branch, tip != ""), nil
	}
	v.merged = func(into, commit gitrepo.OID) (bool, error) {
		if into == "" {
			return false, nil
		}
		return c.repo.Contains(ctx, into, commit)
	}
	if v.current, v.head, err = c.repo.Head(ctx); err != nil {
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
	case branch != name && v.refs.Tip(branch) == "":
		c.say("the default branch of origin is %s, which is not here (git fetch origin brings it); %s", branch, instead)
	case branch != name:
		c.say("the default branch of origin is %s, and %s is checked out; %s", branch, v.current, instead)
	case v.refs.Head != "" && branch != v.refs.Head:
		c.say("the default branch of origin is %s, no longer %s (git remote set-head origin --auto notes that here)", branch,
			v.refs.Head)
	}
	return nil
}

// boundTo reads which plan the progress file of that short name in a commit belongs to; ""
// where that is not known.
func (c *checkout) boundTo(ctx context.Context, commit gitrepo.OID, slug string) (key string, err error) {
	b, err := c.repo.ReadFile(ctx, commit, ".ralph/"+slug+"/progress.md", progress.MaxSize)
	if errors.Is(err, gitrepo.ErrNotFound) || errors.Is(err, gitrepo.ErrTooLarge) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	doc, err := progress.Parse(b)
	if err != nil {
		return "", nil //nolint:nilerr // what cannot be read belongs to nobody
	}
	binding, _ := doc.Binding()
	return binding.Key, nil
}

// tellMissing tells of a plan's file that is committed where the person is, and is not
// where the work begins.
func (c *checkout) tellMissing(ctx context.Context, p place) error {
	file := c.files.plan.committed()
	if file == "" {
		return nil
	}
	_, err := c.repo.ReadFile(ctx, p.head, file, maxPlan)
	if !errors.Is(err, gitrepo.ErrNotFound) {
		return err
	}
	where := p.branch
	if p.from != "" {
		where = fmt.Sprintf("%s, where %s begins", p.from, p.branch)
	}
	c.say("%s is not on %s: it is worked as it is in your checkout, and no box is ticked in it", file, where)
	return nil
}

// Bases are what a branch is compared with once the work is done.
type Bases struct {
	// Work is the default branch, as git finds it here; "" for none.
	Work string
	// PullRequest is the branch that it may be merged into, "" for none.
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
	switch def, _ := v.defaultBranch(); {
	case def == "" || def == branch:
		return Bases{}
	case v.refs.Here[def] != "":
		return Bases{Work: def, PullRequest: def}
	default:
		return Bases{Work: "origin/" + def, PullRequest: def}
	}
}

// choose finds the place of a new run of a plan. last is how its last run stands.
func (c *checkout) choose(ctx context.Context, subject loop.Subject, p plan.Plan, last loop.State) error {
	v, err := c.view(ctx)
	if err != nil {
		return err
	}
	if last.NoCommit { // where that was says nothing of where commits may go
		last = loop.State{}
	}
	w := wish{
		named: c.named, here: c.here || c.writes != "", planned: p.Branch, key: subject.Key, slug: subject.Slug, pushes: c.pushes,
		last: last.Branch, finished: !c.spec && last.End.Complete() && last.End != run.EndPlanned && isAnother(p, last.Plan),
	}
	c.place, err = decide(v, w)
	if why, ok := errors.AsType[*run.UserError](err); ok && c.writes != "" && !c.here {
		return &run.UserError{
			Message: c.writes + " is written where you can read and change it, on the branch that is checked out. " + why.Message,
			Hint:    "git switch -c " + run.BranchNamed(subject.Slug) + ", and run the same command again", Err: err,
		}
	}
	if err != nil {
		return err
	}
	if w.finished && c.place.branch != w.last && c.place.slug != subject.Slug {
		c.say("%s holds another plan than the one that is finished on %s (--branch %s goes on there)", subject.PlanFile,
			w.last, w.last)
	}
	if !c.place.checkedOut { // a checkout elsewhere would not move with its branch
		if _, err := c.repo.Free(ctx, c.place.branch); err != nil && !errors.Is(err, gitrepo.ErrNotFound) {
			return err
		}
	}
	return c.tellMissing(ctx, c.place)
}

// lastProgress is a progress file with the tasks of the last one that a run wrote for the plan in
// the commits that a new run goes on from, "" for none: a run takes the file away when it
// completes, and git has it one commit back.
func (c *checkout) lastProgress(ctx context.Context, j job) (string, error) {
	refs, err := c.repo.Branches(ctx)
	if err != nil {
		return "", err
	}
	tip := cmp.Or(refs.Tip(c.place.branch), c.place.head)
	if tip == "" { // nothing is to be committed, and the work begins where the checkout is
		if _, tip, err = c.repo.Head(ctx); err != nil {
			return "", err
		}
	}
	var commits []gitrepo.CommitInfo
	if c.place.base != "" {
		if commits, err = c.repo.Log(ctx, c.place.base, tip); err != nil {
			return "", err
		}
	}
	if len(commits) == 0 { // the branch is merged, or none is known
		if commits, err = c.repo.Newest(ctx, tip, host.MaxRestored); err != nil {
			return "", err
		}
	}
	var wrote []gitrepo.CommitInfo
	for _, commit := range commits[:min(len(commits), host.MaxRestored)] {
		ok, err := c.isRecord(ctx, commit, j.subject.Slug)
		if err != nil {
			return "", err
		}
		if ok {
			wrote = append(wrote, commit)
		}
	}
	doc, err := host.LastProgress(ctx, c.repo, wrote, j.subject)
	if err != nil || doc == nil {
		return "", err
	}
	binding, _ := doc.Binding()
	fresh := progress.New(j.subject.Name, binding)
	if isAnother(plan.Plan{SHA256: j.plan.SHA256, Title: fresh.Title(), Tasks: j.plan.Tasks},
		plan.Plan{SHA256: binding.PlanSHA256, Title: doc.Title(), Tasks: doc.Tasks()}) {
		return "", nil
	}
	if err := fresh.SetTasks(doc.Tasks()); err != nil { // the notes are history: agents are told none of them
		return "", fmt.Errorf("take over the tasks that are done: %w", err)
	}
	return string(fresh.Bytes()), nil
}

// isRecord says whether a commit is a run's and wrote the progress file: what somebody else
// put into history is no record of what is done.
func (c *checkout) isRecord(ctx context.Context, commit gitrepo.CommitInfo, slug string) (bool, error) {
	if _, ok := publish.RecordOf(commit.Subject + "\n\n" + commit.Body); !ok || len(commit.Parents) == 0 {
		return false, nil
	}
	var versions [2][]byte
	for i, oid := range []gitrepo.OID{commit.OID, commit.Parents[0]} {
		src, err := c.repo.ReadFile(ctx, oid, ".ralph/"+slug+"/progress.md", progress.MaxSize)
		if err != nil && !errors.Is(err, gitrepo.ErrNotFound) && !errors.Is(err, gitrepo.ErrTooLarge) {
			return false, err
		}
		versions[i] = src
	}
	return !bytes.Equal(versions[0], versions[1]), nil
}

// isAnother says whether a plan is not the one that was worked on last: it has another title and
// other content, and lacks one of its tasks. A plan without a title is called after its file, which
// may have another name.
func isAnother(p, last plan.Plan) bool {
	if p.SHA256 == last.SHA256 || p.Title == last.Title {
		return false
	}
	titles := map[string]bool{}
	for _, t := range p.Tasks {
		titles[t.Title] = true
	}
	return len(last.Tasks) == 0 || slices.ContainsFunc(last.Tasks, func(t run.Task) bool { return !titles[t.Title] })
}

// sayConfig says that the repository's file in the person's checkout is not the one that
// counts, which stands on the default branch.
func (c *checkout) sayConfig(ctx context.Context) error {
	v, err := c.view(ctx)
	if err != nil {
		return err
	}
	def, at := v.defaultBranch()
	if at == "" {
		return nil
	}
	for _, spelled := range []string{"ralph.yaml", "ralph.json"} {
		name := path.Join(path.Dir(config.RepoPath), spelled)
		if _, err := os.Lstat(filepath.Join(c.repo.Top(), filepath.FromSlash(name))); err == nil {
			c.say("! %s is not read: its name has to be %s", name, config.RepoPath)
		}
	}
	here, err := os.ReadFile(filepath.Join(c.repo.Top(), filepath.FromSlash(config.RepoPath)))
	if err != nil {
		return nil //nolint:nilerr // a checkout without it says nothing
	}
	there, found, err := host.ReadConfig(ctx, c.repo, at, "")
	switch {
	case err != nil:
		return err
	case !found:
		c.say("! %s is not committed on %s: its settings do not count", config.RepoPath, def)
	case !there.TooLarge && !bytes.Equal(here, there.Source):
		c.say("! %s in your checkout is not what %s has: its changes do not count until they are committed there",
			config.RepoPath, def)
	}
	return nil
}

// sayWhere says where the commits of a run go.
func (c *checkout) sayWhere(ctx context.Context, s loop.State, dir string) error {
	if s.NoCommit {
		return nil
	}
	current, _, err := c.repo.Head(ctx)
	if err != nil {
		return err
	}
	p := c.place
	if s.Branch != "" {
		p = place{branch: s.Branch, checkedOut: s.Branch == current}
	}
	c.say("%s", p.words(current))
	c.say("agents work in %s", dir)
	signs, err := c.repo.Signs(ctx)
	if signs {
		c.say("commits are not signed, though commit.gpgSign is set: sign them before you publish them")
	}
	return err
}
