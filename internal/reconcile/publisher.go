package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/publish/island"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// permissionAge is how old an answer about a person's permission may be.
const permissionAge = time.Minute

// showEvery is the pause between two updates of what people see while a run goes
// on. The first and the last come at once.
const showEvery = 15 * time.Second

// publisher brings a run's results to GitHub: it puts the loop's words into
// those of package publish, and asks about permission before each commit.
type publisher struct {
	now     func() time.Time
	repo    *ghapp.Repo
	host    *host.Host
	effects effects.Runner
	issue   int
	// branches names the branch of a run that has none yet.
	branches run.BranchTemplate
	agent    string
	mask     *redact.Masker
	box      sandbox.Sandbox
	// words are the last ones of the last agent, for the check run; nil is none.
	words func() (string, error)
	// label is the label that starts runs; those of state begin with it.
	label string
	// first says whether this is the first run here, whose issue is where people
	// meet the bot; nil where nobody has to be told.
	first func(ctx context.Context) (bool, error)
	// before is the run of the issue before this one, "" for none; nil is never
	// one.
	before func(ctx context.Context) (run.ID, error)
	// openReady and byJob are Config.OpenReady and Config.ByJob.
	openReady, byJob bool

	// permission says what somebody may do here, as of a minute ago at most.
	permission func(ctx context.Context, login string) (ghapp.Permission, error)

	// shown is when showing how the run stands was last tried.
	shown time.Time
	// seen is the pull request as it was read along with the last commit, nil once
	// it was made use of.
	seen *seenPR
	// noChecks: GitHub refuses check runs, and it has been said.
	noChecks bool
}

// seenPR is a pull request as it was when a commit landed.
type seenPR struct {
	pr   ghapp.PR
	head string
	at   time.Time
}

var _ loop.Publisher = (*publisher)(nil)

func (p *publisher) publish(s loop.State, objects publish.Objects) *publish.Publisher {
	pub := &publish.Publisher{
		GitHub: p.repo, Objects: objects, Effects: p.effects,
		Run: s.Run, Issue: p.issue, Branch: p.branch(s), BaseBranch: s.BaseBranch, OpenReady: p.openReady, ByJob: p.byJob, Label: p.label, Mask: p.mask,
	}
	if s.PullRequest != nil {
		pub.PR = s.PullRequest.Number
	}
	return pub
}

// branch is where the work of the run goes. One that has begun stays on its
// branch, however others are called by now.
func (p *publisher) branch(s loop.State) string { return cmp.Or(s.Branch, p.branches.Of(p.issue)) }

// Begin implements loop.Publisher.
func (p *publisher) Begin(ctx context.Context, s loop.State) error {
	pub := p.publish(s, nil)
	if err := pub.React(ctx, ghapp.ReactionSeen); err != nil || p.first == nil {
		return err
	}
	first, err := p.first(ctx)
	if err != nil || !first {
		return err
	}
	_, err = pub.Say(ctx, "welcome", publish.WelcomeText(p.branch(s), len(s.Plan.Tasks) > 0, p.label))
	return err
}

// Screen implements loop.Publisher.
func (p *publisher) Screen(s loop.State, changes []loop.Change) loop.Screened {
	return host.Screen(s, changes)
}

// Land implements loop.Publisher.
func (p *publisher) Land(ctx context.Context, l loop.Landing) (loop.Landed, error) {
	if err := p.authorise(ctx, l.State.Subject.RequestedBy); err != nil {
		return loop.Landed{}, err
	}
	if by, ok := l.State.Credits[l.Task.ID]; ok && by.Login != l.State.Subject.RequestedBy {
		if err := p.authorise(ctx, by.Login); err != nil {
			return loop.Landed{}, err
		}
	}
	repo, err := p.host.Repo(ctx)
	if err != nil {
		return loop.Landed{}, err
	}
	landed, err := p.publish(l.State, objects{repo}).Land(ctx, host.Commit(l, p.agent))
	if err != nil {
		return loop.Landed{}, notLanded(err)
	}
	p.seen = nil
	if landed.PR != nil {
		p.seen = &seenPR{pr: *landed.PR, head: landed.OID, at: p.now()}
	}
	return loop.Landed{OID: landed.OID, Tree: landed.Tree, Subject: landed.Subject, TaskID: landed.TaskID, Verified: &landed.Verified}, nil
}

// notLanded is why something did not land, in the words of the loop.
func notLanded(err error) error {
	var policy *publish.PolicyError
	var moved *publish.MovedError
	var odd *publish.CommitError
	switch {
	case errors.As(err, &moved) && moved.Head == "":
		return &loop.Halt{Reason: run.EndCancelled, Detail: fmt.Sprintf("the branch %s was deleted", moved.Branch)}
	case errors.Is(err, publish.ErrBranchMoved):
		return loop.ErrBranchMoved
	case errors.As(err, &policy):
		return &loop.Rejection{Refusals: host.Refusals(policy.Held)}
	case errors.As(err, &odd):
		where := "the branch was not moved"
		if odd.OnBranch {
			where = "the branch now points at it: check it before you build on it"
		}
		return &loop.Halt{Reason: run.EndAwaitingPerson, Detail: fmt.Sprintf("GitHub made a commit that cannot be trusted, and %s: %v", where, odd)}
	case ghapp.Refused(err):
		return &loop.Halt{Reason: run.EndAwaitingPerson, Detail: fmt.Sprintf("GitHub does not let the App commit here; the branch was not moved: %v", err)}
	default:
		return err
	}
}

// objects are the host's own git objects. A named type keeps the rest of the
// repository out of the publisher's reach.
type objects struct{ repo *gitrepo.Repo }

func (o objects) Diff(ctx context.Context, from, to gitrepo.OID) ([]gitrepo.Change, error) {
	return o.repo.Diff(ctx, from, to)
}

func (o objects) Blob(ctx context.Context, oid gitrepo.OID, limit int64) ([]byte, error) {
	return o.repo.Blob(ctx, oid, limit)
}

// authorise asks whether the person who started the run may still write. No
// answer is no permission: the step fails and is tried again.
func (p *publisher) authorise(ctx context.Context, login string) error {
	may, err := p.permission(ctx, login)
	if err != nil {
		return err
	}
	if !may.CanWrite {
		return fmt.Errorf("%s: %w", login, loop.ErrNotAllowed)
	}
	return nil
}

// Show implements loop.Publisher: a pull request as soon as there is a commit,
// and a word on the issue where a run ends short of its work.
func (p *publisher) Show(ctx context.Context, s loop.State) (*loop.PullRequest, error) {
	if s.End == "" && s.PullRequest != nil && p.now().Before(p.shown.Add(showEvery)) {
		return s.PullRequest, nil
	}
	if s.PullRequest != nil {
		p.shown = p.now() // also if it fails: the run goes on, and it is tried again then
	}
	return p.show(ctx, s)
}

// show is Show without putting it off.
func (p *publisher) show(ctx context.Context, s loop.State) (*loop.PullRequest, error) {
	pub := p.publish(s, nil)
	v, err := p.view(s)
	if err != nil {
		return nil, err
	}
	read, err := p.pullRequest(ctx, pub, s, v)
	if why, ok := errors.AsType[*run.UserError](err); ok && s.End != "" {
		// How the run has ended is told all the same.
		read, err = ghapp.PR{}, nil
		if s.EndDetail != why.Error() {
			_, err = pub.Say(ctx, "no pull request", publish.NoPullRequestText(p.mask.Mask, why.Error()))
		}
	}
	if err != nil {
		return nil, err
	}
	number, known := read.Number, read.Body
	if s.PullRequest != nil {
		number, known = s.PullRequest.Number, s.PullRequest.Body
	}
	v.PullNumber = number // also where the state does not know it yet
	pub.Edited = func(body string) bool {
		if body == known { // as it mostly is; reading it takes longer
			return false
		}
		now, err := island.Parse(body)
		return err == nil && now.Edited
	}
	if number == 0 {
		if s.End != "" {
			if err := errors.Join(handOver(ctx, pub, s, 0), comment(ctx, pub, s, v, 0)); err != nil {
				return nil, err
			}
			p.foldEarlier(ctx, pub)
			p.labelEnd(ctx, pub, s, false)
		}
		return nil, nil
	}
	if read.Number == 0 {
		if read, err = p.read(ctx, pub, s); err != nil {
			return nil, err
		}
	}
	pr, err := p.describe(ctx, pub, s, v, read)
	if errors.Is(err, publish.ErrEdited) {
		return edited(known, pr)
	}
	if err != nil {
		return nil, err
	}
	if s.End != "" && !s.End.Complete() {
		if err := comment(ctx, pub, s, v, pr.Number); err != nil {
			return nil, err
		}
	}
	if err := handOver(ctx, pub, s, pr.Number); err != nil {
		return nil, err
	}
	if err := p.answer(ctx, pub, s, pr.Number); err != nil {
		return nil, err
	}
	if s.End != "" {
		p.foldEarlier(ctx, pub)
		p.labelEnd(ctx, pub, s, pr.Merged)
	}
	if s.PullRequest == nil {
		p.shown = p.now()
	}
	out := shownAs(pr)
	out.Head = s.Head
	return out, nil
}

// seenFor is how long a pull request that was read along with a commit is taken
// for what it is.
const seenFor = 5 * time.Second

// read gives the run's pull request as it is.
func (p *publisher) read(ctx context.Context, pub *publish.Publisher, s loop.State) (ghapp.PR, error) {
	seen, number := p.seen, s.PullRequest.Number
	p.seen = nil
	if seen != nil && seen.pr.Number == number && seen.head == s.Head && p.now().Before(seen.at.Add(seenFor)) {
		return seen.pr, nil
	}
	return pub.ReadPR(ctx, number)
}

// describe brings what people see up to date: the pull request and the check
// run on its head, in one call where both have to be. At the end of all work the
// pull request is taken out of draft.
func (p *publisher) describe(ctx context.Context, pub *publish.Publisher, s loop.State, v island.View, read ghapp.PR) (ghapp.PR, error) {
	described, err := p.check(ctx, pub, s, v, read)
	if err != nil {
		return read, err
	}
	if described == nil {
		updated, err := pub.UpdatePR(ctx, read, v)
		if err != nil {
			return read, err
		}
		described = &updated
	}
	if !s.End.Complete() {
		return *described, nil
	}
	return pub.Ready(ctx, *described)
}

func shownAs(pr ghapp.PR) *loop.PullRequest {
	return &loop.PullRequest{Number: pr.Number, NodeID: pr.NodeID, URL: pr.URL, Draft: pr.Draft, Body: pr.Body, Base: pr.BaseRef, Closed: pr.State == "closed", Merged: pr.Merged}
}

// edited hands over what people made of the task list. GitHub lets those who
// may write to the repository edit the App's pull request, and nobody else.
func edited(before string, pr ghapp.PR) (*loop.PullRequest, error) {
	was, err := island.Parse(before)
	if err != nil {
		return nil, fmt.Errorf("read the last rendering: %w", err)
	}
	now, err := island.Parse(pr.Body)
	if err != nil {
		return nil, fmt.Errorf("read the edited description: %w", err)
	}
	shown := shownAs(pr)
	shown.Edit = &loop.PlanEdit{Was: was.RunTasks(), Now: now.RunTasks()}
	return shown, nil
}

// checkTroubles is how many steps in a row may fail before a check run that
// GitHub does not take is left alone.
const checkTroubles = 3

// check shows the state on the run's last commit, and gives the pull request
// where it was brought up to date in the same call. A run does not depend on it: GitHub's refusal is told
// once and its trouble is not waited out, nor is any other for long.
func (p *publisher) check(ctx context.Context, pub *publish.Publisher, s loop.State, v island.View, read ghapp.PR) (*ghapp.PR, error) {
	if p.noChecks {
		return nil, nil //nolint:nilnil // nothing was asked of GitHub
	}
	on := publish.CheckOn{Head: s.Head, PR: &read, DetailsURL: read.URL, StartedAt: s.StartedAt, Text: p.words}
	if s.End != "" {
		on.Annotations = p.annotations(ctx, s)
	}
	described, err := pub.Check(ctx, on, v)
	class, _ := ghapp.Classify(err)
	_, answered := errors.AsType[*ghapp.Error](err)
	passes := class == ghapp.Transient || !answered
	switch {
	case err == nil || ctx.Err() != nil, errors.Is(err, publish.ErrEdited), class == ghapp.RateLimited, passes && s.Troubles < checkTroubles:
		return described, err
	case ghapp.ChecksRefused(err):
		p.noChecks = true
		zerolog.Ctx(ctx).Warn().Err(err).Msg("the App may not write check runs; grant it checks: write to have the run shown on its commits")
	default:
		zerolog.Ctx(ctx).Warn().Err(err).Msg("the check run was not brought up to date")
	}
	return described, nil
}

// answer says in conversations what was done for them, each once.
func (p *publisher) answer(ctx context.Context, pub *publish.Publisher, s loop.State, pr int) error {
	done, err := s.Answered()
	if err != nil {
		return err
	}
	for _, f := range done {
		if err := pub.Answer(ctx, pr, publish.Answer{Thread: f.Key, Comment: f.Comment, TaskID: f.TaskID, OID: f.Commit, Did: f.Did, RepoURL: p.repo.HTMLURL()}); err != nil {
			return err
		}
	}
	return nil
}

// handOver gives people what was held back, each once.
func handOver(ctx context.Context, pub *publish.Publisher, s loop.State, pr int) error {
	for _, h := range s.Held {
		held := publish.Held{TaskID: h.TaskID, Patch: h.Patch}
		for _, path := range h.Paths {
			held.Paths = append(held.Paths, publish.HeldBack(path))
		}
		if _, err := pub.CommentHeld(ctx, pr, held); err != nil {
			return err
		}
	}
	return nil
}

// comment says on the issue how the run ended, or asks what it has to know.
func comment(ctx context.Context, pub *publish.Publisher, s loop.State, v island.View, pr int) error {
	if len(s.Questions) > 0 {
		_, err := pub.CommentQuestions(ctx, s.Questions, s.Plan.Hidden())
		return err
	}
	if s.Approval != "" {
		_, err := pub.CommentPlan(ctx, v, s.Approval)
		return err
	}
	_, err := pub.CommentEnded(ctx, v, pr, s.EndCause)
	return err
}

// foldEarlier leaves one comment open that says how the issue stands, this run's
// own: what the run before has said is out of date. Nothing depends on it.
func (p *publisher) foldEarlier(ctx context.Context, pub *publish.Publisher) {
	if p.before == nil {
		return
	}
	earlier, err := p.before(ctx)
	if err == nil && earlier != "" {
		err = pub.FoldEnded(ctx, earlier)
	}
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("what an earlier run has said of its end was not folded away")
	}
}

// labelEnd labels the issue by how the run ended. Nothing depends on it.
func (p *publisher) labelEnd(ctx context.Context, pub *publish.Publisher, s loop.State, merged bool) {
	if p.label == "" {
		return
	}
	state := stateLabel(s.End, merged)
	if s.Unsettled() && !merged {
		state = labelNeedsHuman
	}
	if err := pub.SetLabel(ctx, p.label+":"+state, true); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("the label that says how the run ended was not put on")
	}
}

// pullRequest is the run's pull request where the state does not know it yet,
// with number 0 if there is none: a run that has landed nothing opens none,
// since GitHub refuses one without commits, but takes up what an earlier run on
// the branch opened.
func (p *publisher) pullRequest(ctx context.Context, pub *publish.Publisher, s loop.State, v island.View) (ghapp.PR, error) {
	switch {
	case s.PullRequest != nil:
		return ghapp.PR{}, nil
	case len(s.Commits) > 0 || s.Closing != nil:
		return pub.EnsurePR(ctx, 0, v)
	case s.Head == s.Base:
		return ghapp.PR{}, nil
	}
	pr, err := p.repo.FindPR(ghapp.WithPurpose(ctx, "pr"), p.branch(s))
	if errors.Is(err, ghapp.ErrNotFound) {
		return ghapp.PR{}, nil
	}
	return pr, err
}

// view is the state as the pull request shows it.
func (p *publisher) view(s loop.State) (island.View, error) {
	sum := s.Sum()
	v := island.View{
		Label: p.label, Title: s.Subject.Name, RepoURL: p.repo.HTMLURL(), Phase: s.Phase, End: s.End, Iteration: sum.Iterations, Runs: sum.Runs,
		CostUSD: sum.CostUSD, Older: sum.Older, Agent: p.agent, Model: s.SeenModel, RequestedBy: s.Subject.RequestedBy, Note: s.EndDetail, Merged: s.Merged, Removed: s.Plan.Removed, Hidden: s.Plan.Hidden(), Closes: true,
		Questions: s.Questions, Diagnostics: s.Diagnostics, Reviews: s.Reviews, ReviewNote: s.ReviewNote, Proof: s.Proof(),
	}
	if _, varies := p.box.(sandbox.Confiner); varies {
		v.Sandbox = sandbox.Describe(p.box)
	}
	if s.Progress != "" {
		doc, err := progress.Parse([]byte(s.Progress))
		if err != nil {
			return v, fmt.Errorf("read the accepted progress: %w", err)
		}
		v.Tasks, v.Learnings = doc.Tasks(), doc.Section(progress.SectionLearnings)
		v.Patterns, v.Analysis = doc.Section(progress.SectionPatterns), doc.Section(progress.SectionAnalysis)
		v.Testing, v.Log = doc.Section(progress.SectionTesting), doc.Log()
		for i, t := range v.Tasks {
			v.Tasks[i].Status = s.Standing(t)
		}
	}
	for _, c := range sum.Commits {
		v.Commits = append(v.Commits, island.Commit{OID: c.OID, Subject: c.Subject, TaskID: c.TaskID, Verified: c.Verified})
	}
	for _, g := range s.GateLast {
		sum := island.Gate{Name: g.Gate, Passed: g.Passed, Duration: g.Duration}
		switch {
		case g.Passed:
		case g.Verdict.Standing.Holds():
			sum.Detail = g.Output
		default:
			sum.Note = g.Verdict.Note
		}
		v.Gates = append(v.Gates, sum)
	}
	for _, h := range s.History {
		v.Calls = append(v.Calls, island.Call{Iteration: h.Number, TaskID: h.TaskID, Models: h.Models, Hosts: h.Hosts})
	}
	for _, f := range s.Feedback {
		v.Said = append(v.Said, island.Said{Where: f.Where, By: f.By, Comment: cmp.Or(f.Last, f.Comment), Review: handlers.ReviewOf(f.Key), TaskID: f.TaskID, OID: f.Commit, Why: f.Why})
	}
	if s.PullRequest != nil {
		v.PullNumber = s.PullRequest.Number
	}
	for _, f := range s.Findings {
		v.Findings = append(v.Findings, f.Text)
	}
	return v, nil
}
