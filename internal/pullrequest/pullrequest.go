package pullrequest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// ShowEvery is the pause between two updates of what people see while a run goes
// on. The first and the last come at once.
const ShowEvery = 15 * time.Second

// Publisher brings a run's results to GitHub: it puts the loop's words into those of
// package publish, and asks about permission before each commit. For [Publisher.View]
// and [Publisher.Branch] the first group of fields is enough.
type Publisher struct {
	Repo  *ghapp.Repo
	Issue int
	Agent string
	Mask  *redact.Masker
	// Label starts runs; those of state begin with it.
	Label string
	// Sandbox describes the sandbox to people, "" where they need not know.
	Sandbox string

	// Objects gives the host's own copy of the repository.
	Objects func(ctx context.Context) (*gitrepo.Repo, error)
	Effects effects.Runner
	Now     func() time.Time
	// Permission says what somebody may do here, as of a minute ago at most.
	Permission func(ctx context.Context, login string) (ghapp.Permission, error)
	// LastWords are those of the run's last agent, for the check run; nil is none.
	LastWords func() (string, error)
	// First says whether this is the first run here, whose issue is where people
	// meet the bot; nil where nobody has to be told.
	First func(ctx context.Context) (bool, error)
	// Before is the run of the issue before this one, "" for none; nil is never
	// one.
	Before func(ctx context.Context) (run.ID, error)
	// ByJob: a job of a workflow does the work.
	ByJob bool

	// shown is when showing how the run stands was last tried.
	shown time.Time
}

var _ loop.Publisher = (*Publisher)(nil)

func (p *Publisher) publisher(s loop.State, objects publish.Objects) *publish.Publisher {
	pub := &publish.Publisher{
		GitHub: p.Repo, Objects: objects, Effects: p.Effects,
		Run: s.Run, Issue: p.Issue, Branch: p.Branch(s), BaseBranch: s.BaseBranch,
		ByJob: p.ByJob, Label: p.Label, Mask: p.Mask,
	}
	return pub
}

// Branch is where the work of the run goes. One that has begun stays on its
// branch, however others are called by now.
func (p *Publisher) Branch(s loop.State) string { return cmp.Or(s.Branch, run.Branch(p.Issue)) }

// Begin implements loop.Publisher.
func (p *Publisher) Begin(ctx context.Context, s loop.State) error {
	pub := p.publisher(s, nil)
	if err := pub.React(ctx, ghapp.ReactionSeen); err != nil || p.First == nil {
		return err
	}
	first, err := p.First(ctx)
	if err != nil || !first {
		return err
	}
	_, err = pub.Comment(ctx, "welcome", publish.WelcomeText(p.Branch(s), len(s.Plan.Tasks) > 0, p.Label))
	return err
}

// Screen implements loop.Publisher.
func (p *Publisher) Screen(s loop.State, changes []loop.Change) loop.Screened {
	return host.Screen(s, changes)
}

// Land implements loop.Publisher.
func (p *Publisher) Land(ctx context.Context, l loop.Landing) (loop.Landed, error) {
	if err := p.authorize(ctx, l.State.Subject.RequestedBy); err != nil {
		return loop.Landed{}, err
	}
	if by, ok := l.State.Credits[l.Task.ID]; ok && by.Login != l.State.Subject.RequestedBy {
		if err := p.authorize(ctx, by.Login); err != nil {
			return loop.Landed{}, err
		}
	}
	repo, err := p.Objects(ctx)
	if err != nil {
		return loop.Landed{}, err
	}
	landed, err := p.publisher(l.State, objects{repo}).Land(ctx, host.Commit(l, p.Agent))
	if err != nil {
		return loop.Landed{}, explainNotLanded(err)
	}
	return loop.Landed{OID: landed.OID, Tree: landed.Tree, Subject: landed.Subject, TaskID: landed.TaskID,
		Verified: &landed.Verified}, nil
}

// explainNotLanded is why something did not land, in the words of the loop.
func explainNotLanded(err error) error {
	var policy *publish.PolicyError
	var moved *publish.MovedError
	var odd *publish.CommitError
	var byPerson *run.UserError
	switch {
	case errors.As(err, &byPerson):
		return err
	case errors.As(err, &moved) && moved.Head == "":
		return &loop.Halt{Reason: run.EndCancelled, Detail: fmt.Sprintf("the branch %s was deleted", moved.Branch)}
	case errors.Is(err, publish.ErrBranchMoved):
		return loop.ErrBranchMoved
	case errors.As(err, &policy):
		return &loop.Rejection{Refusals: host.Refusals(policy.Refusals)}
	case errors.As(err, &odd):
		where := "the branch was not moved"
		if odd.OnBranch {
			where = "the branch now points at it: check it before you build on it"
		}
		return &loop.Halt{Reason: run.EndAwaitingPerson,
			Detail: fmt.Sprintf("GitHub made a commit that cannot be trusted, and %s: %v", where, odd)}
	case ghapp.Refused(err):
		return &loop.Halt{Reason: run.EndAwaitingPerson,
			Detail: fmt.Sprintf("GitHub does not let the App commit here; the branch was not moved: %v", err)}
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

// authorize asks whether the person who started the run may still write. No
// answer is no permission: the step fails and is tried again.
func (p *Publisher) authorize(ctx context.Context, login string) error {
	may, err := p.Permission(ctx, login)
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
func (p *Publisher) Show(ctx context.Context, s loop.State) (*loop.PullRequest, error) {
	if s.End == "" && s.PullRequest != nil && p.Now().Before(p.shown.Add(ShowEvery)) {
		return s.PullRequest, nil
	}
	if s.PullRequest != nil {
		p.shown = p.Now() // also if it fails: the run goes on, and it is tried again then
	}
	return p.show(ctx, s)
}

// show is Show without putting it off.
func (p *Publisher) show(ctx context.Context, s loop.State) (*loop.PullRequest, error) {
	pub := p.publisher(s, nil)
	v, err := p.View(s)
	if err != nil {
		return nil, err
	}
	read, err := p.pullRequest(ctx, pub, s, v)
	if why, ok := errors.AsType[*run.UserError](err); ok && s.End != "" {
		// How the run has ended is told all the same.
		read, err = ghapp.PR{}, nil
		if s.EndDetail != why.Error() {
			_, err = pub.Comment(ctx, "no pull request", publish.NoPullRequestText(p.Mask.Mask, why.Error()))
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
	if number == 0 {
		if s.End != "" {
			if err := comment(ctx, pub, s, v, 0); err != nil {
				return nil, err
			}
			p.foldEarlier(ctx, pub)
			if err := p.labelEnd(ctx, pub, s, false); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	if read.Number == 0 {
		if read, err = pub.ReadPR(ctx, s.PullRequest.Number); err != nil {
			return nil, err
		}
	}
	if ticks := publish.Ticks(known, read.Body); len(ticks) > 0 {
		shown := pullRequestOf(read)
		// GitHub lets those who may write to the repository edit the App's pull request, and nobody else.
		shown.Ticks = ticks
		return shown, nil
	}
	pr, err := pub.UpdatePR(ctx, read, v)
	if err = refusable(ctx, s, "the description of the pull request was not brought up to date", err); err != nil {
		return nil, err
	}
	if s.End.Complete() {
		pr, err = pub.Ready(ctx, pr)
		if err = refusable(ctx, s, "the pull request was not taken out of draft", err); err != nil {
			return nil, err
		}
	}
	if s.End != "" {
		if err := p.check(ctx, pub, s, v, pr); err != nil {
			return nil, err
		}
	}
	if s.End != "" && !s.End.Complete() {
		if err := comment(ctx, pub, s, v, pr.Number); err != nil {
			return nil, err
		}
	}
	if err := p.answer(ctx, pub, s, pr.Number); err != nil {
		return nil, err
	}
	if s.End != "" {
		p.foldEarlier(ctx, pub)
		if err := p.labelEnd(ctx, pub, s, pr.Merged); err != nil {
			return nil, err
		}
	}
	if s.PullRequest == nil {
		p.shown = p.Now()
	}
	out := pullRequestOf(pr)
	out.Head = s.Head
	return out, nil
}

func pullRequestOf(pr ghapp.PR) *loop.PullRequest {
	return &loop.PullRequest{Number: pr.Number, NodeID: pr.NodeID, URL: pr.URL, Draft: pr.Draft, Body: pr.Body,
		Base: pr.BaseRef, Closed: pr.State == "closed", Merged: pr.Merged}
}

// extraTroubles is how many steps in a row may fail before a check run or a label that
// GitHub does not take is left alone.
const extraTroubles = 6

// MaxRefusals is how often in a row GitHub refuses to have the end of a run told before that is
// taken for its word: a replica may not show yet what is there.
const MaxRefusals = 3

// check shows on the run's last commit how it has ended.
func (p *Publisher) check(ctx context.Context, pub *publish.Publisher, s loop.State, v publish.View, pr ghapp.PR) error {
	err := pub.ShowCheck(ctx, publish.Check{
		Head: s.Head, DetailsURL: pr.URL, StartedAt: s.StartedAt, Text: p.LastWords, Annotations: p.annotations(ctx, s),
	}, v)
	what := "the check run was not made"
	if ghapp.ChecksRefused(err) {
		what = "the App may not write check runs; grant it checks: write to have the end of runs shown on their commits"
	}
	return extra(ctx, s, what, err)
}

// extra gives back an error of something that a run does not depend on if it is worth
// another try, and logs it otherwise, with what it kept from happening.
func extra(ctx context.Context, s loop.State, what string, err error) error {
	class, _ := ghapp.Classify(err)
	_, answered := errors.AsType[*ghapp.Error](err)
	passes := class == ghapp.Transient || !answered
	if err == nil || ctx.Err() != nil || class == ghapp.RateLimited || passes && s.Troubles < extraTroubles {
		return err
	}
	zerolog.Ctx(ctx).Warn().Err(err).Msg(what)
	return nil
}

// refusable gives back an error of what tells how a run ended, but for a refusal that GitHub repeats:
// that is logged, and the rest is told all the same.
func refusable(ctx context.Context, s loop.State, what string, err error) error {
	if s.End == "" || !ghapp.Denied(err) || s.Troubles < MaxRefusals-1 {
		return err
	}
	zerolog.Ctx(ctx).Warn().Err(err).Msg(what)
	return nil
}

// answer says in conversations what was done for them, each once.
func (p *Publisher) answer(ctx context.Context, pub *publish.Publisher, s loop.State, pr int) error {
	done, err := s.Answered()
	if err != nil {
		return err
	}
	for _, f := range done {
		if err := pub.Answer(ctx, pr, publish.Answer{Thread: f.Key, Comment: f.Comment, TaskID: f.TaskID,
			OID: f.Commit, Did: f.Did, RepoURL: p.Repo.HTMLURL()}); err != nil {
			return err
		}
	}
	return nil
}

// comment says on the issue how the run ended, or asks what it has to know.
func comment(ctx context.Context, pub *publish.Publisher, s loop.State, v publish.View, pr int) (err error) {
	switch {
	case len(s.Questions) > 0:
		_, err = pub.CommentQuestions(ctx, s.Questions, s.Plan.Removed)
	case s.Approval != "":
		_, err = pub.CommentPlan(ctx, v, s.Approval)
	default:
		_, err = pub.CommentEnded(ctx, v, pr, s.EndCause)
	}
	return publish.Tolerate(ctx, "GitHub takes no comment there, so a label alone tells how the run ended", err)
}

// foldEarlier leaves one comment open that says how the issue stands, this run's
// own: what the run before has said is out of date. Nothing depends on it.
func (p *Publisher) foldEarlier(ctx context.Context, pub *publish.Publisher) {
	if p.Before == nil {
		return
	}
	earlier, err := p.Before(ctx)
	if err == nil && earlier != "" {
		err = pub.FoldEnded(ctx, earlier)
	}
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("what an earlier run has said of its end was not folded away")
	}
}

// labelEnd labels the issue by how the run ended.
func (p *Publisher) labelEnd(ctx context.Context, pub *publish.Publisher, s loop.State, merged bool) error {
	if p.Label == "" {
		return nil
	}
	state := publish.StateLabel(s.End, merged)
	if s.Unsettled() && !merged {
		state = publish.LabelNeedsHuman
	}
	return extra(ctx, s, "the label that says how the run ended was not put on", pub.AddLabel(ctx, p.Label+":"+state))
}

// pullRequest is the run's pull request where the state does not know it yet,
// with number 0 if there is none: a run that has landed nothing opens none,
// since GitHub refuses one without commits, but takes up what an earlier run on
// the branch opened.
func (p *Publisher) pullRequest(ctx context.Context, pub *publish.Publisher, s loop.State,
	v publish.View) (ghapp.PR, error) {
	switch {
	case s.PullRequest != nil:
		return ghapp.PR{}, nil
	case len(s.Commits) > 0 || s.Closing != nil:
		return pub.EnsurePR(ctx, 0, v)
	case s.Head == s.Base:
		return ghapp.PR{}, nil
	}
	pr, err := p.Repo.FindPR(ghapp.WithPurpose(ctx, "pr"), p.Branch(s))
	if errors.Is(err, ghapp.ErrNotFound) {
		return ghapp.PR{}, nil
	}
	return pr, err
}

// View is the state as the pull request shows it.
func (p *Publisher) View(s loop.State) (publish.View, error) {
	sum := s.Sum()
	v := publish.View{
		Label: p.Label, Title: s.Subject.Name, RepoURL: p.Repo.HTMLURL(), Phase: s.Phase, End: s.End,
		Iteration: sum.Iterations, Runs: sum.Runs,
		CostUSD: sum.CostUSD, Older: sum.Older, Agent: p.Agent, Model: s.SeenModel,
		RequestedBy: s.Subject.RequestedBy, Note: s.EndDetail, Merged: s.Merged, Removed: s.Plan.Removed,
		Closes:    true,
		Questions: s.Questions, Diagnostics: s.Diagnostics, Reviews: s.Reviews, ReviewNote: s.ReviewNote,
		Proof: s.Proof(), Sandbox: p.Sandbox,
	}
	if d := s.Delayed; d != nil {
		v.Waits, v.WaitsSince = d.Why, d.Since
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
		v.Commits = append(v.Commits, publish.PastCommit{OID: c.OID, Subject: c.Subject, TaskID: c.TaskID,
			Verified: c.Verified, Summary: c.Summary})
	}
	for _, g := range s.GateLast {
		sum := publish.Gate{Name: g.Gate, Passed: g.Passed, Duration: g.Duration}
		switch {
		case g.Verdict.Standing == gate.NoTests:
			sum.Note = g.Verdict.Note
		case g.Passed:
		case g.Verdict.Standing.Holds():
			sum.Detail = g.Output
		default:
			sum.Note = g.Verdict.Note
		}
		v.Gates = append(v.Gates, sum)
	}
	for _, f := range s.Feedback {
		v.Said = append(v.Said, publish.Said{Where: f.Where, By: f.By, Comment: cmp.Or(f.Last, f.Comment),
			Review: handlers.ReviewOf(f.Key), TaskID: f.TaskID, OID: f.Commit, Why: f.Why})
	}
	if s.PullRequest != nil {
		v.PullNumber = s.PullRequest.Number
	}
	for _, f := range s.Findings {
		v.Findings = append(v.Findings, f.Text)
	}
	return v, nil
}
