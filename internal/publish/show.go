package publish

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// ShowEvery is the pause between two updates of what people see while a run goes
// on. The first and the last come at once.
const ShowEvery = 15 * time.Second

var _ loop.Publisher = (*Publisher)(nil)

// of is p for the branch of a run. One that has begun stays on its branch, however others are called by now.
func (p *Publisher) of(s loop.State) *Publisher {
	pub := *p
	pub.Run, pub.Branch, pub.BaseBranch = s.Run, cmp.Or(s.Branch, run.Branch(p.Issue)), s.BaseBranch
	return &pub
}

// Begin implements loop.Publisher.
func (p *Publisher) Begin(ctx context.Context, s loop.State) error {
	pub := p.of(s)
	if p.ByJob && s.PullRequest == nil { // where a setting forbids it, that is told before an agent works
		ctx := ghapp.WithPurpose(ctx, "pr")
		if refused := p.GitHub.MayOpenPRs(ctx, s.BaseBranch); refused != nil {
			// What an earlier run has opened is taken up.
			if _, err := p.GitHub.FindPR(ctx, pub.Branch); errors.Is(err, ghapp.ErrNotFound) {
				return p.explainNotOpened(ctx, "", refused)
			} else if err != nil {
				return err
			}
		}
	}
	if err := pub.React(ctx, ghapp.ReactionSeen); err != nil || p.First == nil {
		return err
	}
	first, err := p.First(ctx)
	if err != nil || !first {
		return err
	}
	_, err = pub.Comment(ctx, "welcome", WelcomeText(pub.Branch, len(s.Plan.Tasks) > 0, p.Label))
	return err
}

// Screen implements loop.Publisher.
func (p *Publisher) Screen(s loop.State, changes []loop.Change) []loop.Refusal {
	return Screen(s, changes)
}

// Land implements loop.Publisher.
func (p *Publisher) Land(ctx context.Context, l loop.Landing) (loop.Landed, error) {
	if err := p.authorize(ctx, l.State.Subject.RequestedBy); err != nil {
		return loop.Landed{}, err
	}
	if by := l.State.AskedBy(l.Task.ID); by.Login != l.State.Subject.RequestedBy {
		if err := p.authorize(ctx, by.Login); err != nil {
			return loop.Landed{}, err
		}
	}
	landed, err := p.of(l.State).LandCommit(ctx, CommitOf(l, p.Agent))
	return landed, explainNotLanded(err)
}

// authorize asks whether the person who started the run may still write. No
// answer is no permission: the step fails and is tried again.
func (p *Publisher) authorize(ctx context.Context, login string) error {
	may, err := p.Permission(ctx, login)
	if err != nil {
		return err
	}
	if !may.CanWrite {
		return &loop.Halt{Reason: run.EndCancelled, Detail: login + " may no longer write to the repository"}
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
	pub := p.of(s)
	v, err := p.View(s)
	if err != nil {
		return nil, err
	}
	read, err := p.pullRequest(ctx, pub, s, v)
	if why, ok := errors.AsType[*run.UserError](err); ok && s.End != "" {
		// How the run has ended is told all the same.
		read, err = ghapp.PR{}, nil
		if s.EndDetail != why.Error() {
			_, err = pub.Comment(ctx, "no pull request", NoPullRequestText(p.Mask.Mask, why.Error()))
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
	if ticks := Ticks(known, read.Body); len(ticks) > 0 {
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
		if err := p.showCheck(ctx, pub, s, v, pr); err != nil {
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

// showCheck shows on the run's last commit how it has ended.
func (p *Publisher) showCheck(ctx context.Context, pub *Publisher, s loop.State, v View, pr ghapp.PR) error {
	err := pub.ShowCheck(ctx, Check{
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
func (p *Publisher) answer(ctx context.Context, pub *Publisher, s loop.State, pr int) error {
	done, err := s.Answered()
	if err != nil {
		return err
	}
	for _, f := range done {
		if err := pub.Answer(ctx, pr, Answer{Thread: f.Key, Comment: f.Comment, TaskID: f.TaskID,
			OID: f.Commit, Did: f.Did, RepoURL: p.GitHub.HTMLURL()}); err != nil {
			return err
		}
	}
	return nil
}

// comment says on the issue how the run ended, or asks what it has to know.
func comment(ctx context.Context, pub *Publisher, s loop.State, v View, pr int) (err error) {
	switch {
	case len(s.Questions) > 0:
		_, err = pub.CommentQuestions(ctx, s.Questions, s.Plan.Removed)
	case s.Approval != "":
		_, err = pub.CommentPlan(ctx, v, s.Approval)
	default:
		_, err = pub.CommentEnded(ctx, v, pr, s.EndCause)
	}
	return Tolerate(ctx, "GitHub takes no comment there, so a label alone tells how the run ended", err)
}

// labelEnd labels the issue by how the run ended.
func (p *Publisher) labelEnd(ctx context.Context, pub *Publisher, s loop.State, merged bool) error {
	if p.Label == "" {
		return nil
	}
	state := StateLabel(s.End, merged)
	if s.Unsettled() && !merged {
		state = LabelNeedsHuman
	}
	return extra(ctx, s, "the label that says how the run ended was not put on", pub.AddLabel(ctx, p.Label+":"+state))
}

// pullRequest is the run's pull request where the state does not know it yet,
// with number 0 if there is none: a run that has landed nothing opens none,
// since GitHub refuses one without commits, but takes up what an earlier run on
// the branch opened.
func (p *Publisher) pullRequest(ctx context.Context, pub *Publisher, s loop.State,
	v View) (ghapp.PR, error) {
	switch {
	case s.PullRequest != nil:
		return ghapp.PR{}, nil
	case len(s.Commits) > 0 || s.Closing != nil:
		return pub.EnsurePR(ctx, v)
	case s.Head == s.Base:
		return ghapp.PR{}, nil
	}
	pr, err := p.GitHub.FindPR(ghapp.WithPurpose(ctx, "pr"), pub.Branch)
	if errors.Is(err, ghapp.ErrNotFound) {
		return ghapp.PR{}, nil
	}
	return pr, err
}
