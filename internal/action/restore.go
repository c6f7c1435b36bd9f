package action

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// restore gives the store the run that an event is about, where an earlier job or
// a server has worked it: a command or a review goes on from there, and the store
// of a job knows nothing of it. What counts is on the branch and on GitHub. That
// there is none is no error.
func (j *job) restore(ctx context.Context, guid string, ev event) error {
	intent, err := j.deliveries.Decoder.Decode(ev.name, ev.payload)
	if err != nil {
		return nil //nolint:nilerr // working it says what is wrong with it
	}
	var in handlers.Subject
	var command *handlers.CommandIntent
	switch intent := intent.(type) {
	case handlers.CommandIntent:
		in, command = intent.Subject, &intent
	case handlers.FeedbackIntent:
		in = intent.Subject
	default:
		return nil
	}
	if _, err := j.deliveries.LastRun(ctx, in); !errors.Is(err, store.ErrNotFound) {
		if err != nil {
			return err
		}
		return j.workAnswers(ctx, guid, ev) // what a try before this one has not come to
	}
	row, worked, found, err := j.lastRun(ctx, in)
	if err != nil {
		return err
	}
	if command != nil && in.Issue > 0 && (!found || readsAnswers(command.Command.Verb)) {
		s := j.newState(in.Issue, in.IssueNode)
		if found {
			if s, err = loop.Decode(row.State); err != nil {
				return err
			}
		}
		asked, answers, waits, err := j.waitingRun(ctx, *command, s, worked)
		if err != nil {
			return err
		}
		if waits {
			row, j.answers, found = asked, answers, true
		}
	}
	if !found {
		return nil
	}
	if err := j.store.InTx(ctx, func(tx *store.Tx) error { return j.store.CreateRun(ctx, tx, row) }); err != nil {
		return err
	}
	return j.workAnswers(ctx, guid, ev)
}

// workAnswers works the answers that are left.
func (j *job) workAnswers(ctx context.Context, guid string, ev event) error {
	for ; len(j.answers) > 0; j.answers = j.answers[1:] {
		c := j.answers[0]
		if err := j.workComment(ctx, fmt.Sprintf("%s/%d", guid, c.ID), ev, c); err != nil {
			return err
		}
	}
	return nil
}

// readsAnswers says whether a command begins with a plan, which answers are for, also where there
// is work to go on with.
func readsAnswers(v handlers.Verb) bool { return v == handlers.VerbPlan || v == handlers.VerbStart }

// maxAnswers bounds the comments that are looked at for answers: each costs
// GitHub a question.
const maxAnswers = 100

// waitingRun is the run that waits for answers to the questions that it has posted on
// the issue, with what people have said since and before the command: no job ran
// for that. It has committed nothing: s is the run before it, or a new one, and worked is
// when that made its last commit, the zero time for never.
func (j *job) waitingRun(
	ctx context.Context, in handlers.CommandIntent, s loop.State, worked time.Time,
) (row store.Run, answers []ghapp.Comment, found bool, err error) {
	ctx = ghapp.WithPurpose(ctx, "restore")
	pub := publish.Publisher{GitHub: j.repoOf(in.Subject), Effects: j.deliveries.Comments.Effects, Run: s.Run,
		Issue: in.Issue, Mask: j.deliveries.Mask}
	questions, at, said, err := pub.FindQuestions(ctx)
	if errors.Is(err, publish.ErrNoQuestions) || errors.Is(err, ghapp.ErrNotFound) {
		return store.Run{}, nil, false, nil
	}
	if err != nil {
		return store.Run{}, nil, false, err
	}
	if !at.After(worked) {
		return store.Run{}, nil, false, nil // they were answered
	}
	for _, c := range said {
		if c.ID < in.Comment.ID && c.Author.Type == "User" {
			answers = append(answers, c)
		}
	}
	s.Questions, s.Phase, s.End, s.EndDetail = questions, run.PhasePaused, run.EndAwaitingPerson, ""
	s.Approval = "" // of a plan that is older
	row, err = rowOf(in.Subject, s, in.Issue, in.IssueNode)
	return row, answers[max(0, len(answers)-maxAnswers):], err == nil, err
}

// newState begins the state of a run on an issue that the store knows nothing of.
func (j *job) newState(issue int, node string) loop.State {
	now := j.deliveries.Now()
	return loop.NewState(loop.Request{
		Run: host.NewID(now),
		Subject: loop.Subject{Key: "issue:" + node, Slug: strconv.Itoa(issue),
			PlanFile: fmt.Sprintf("issue #%d", issue)},
		Agent:    j.deliveries.AgentName,
		Settings: loop.Settings{Limits: j.deliveries.Limits(run.Limits{}), Model: j.deliveries.Model},
	}, now)
}

// rowOf is what the store is given of such a run.
func rowOf(in handlers.Subject, s loop.State, issue int, node string) (store.Run, error) {
	state, err := loop.Encode(s)
	row := store.Run{
		ID: s.Run, RepoOwner: in.Owner, RepoName: in.Repo, RepoNode: in.RepoNode, Installation: in.Installation,
		IssueNumber: issue, IssueNode: node,
		Phase: s.Phase, EndReason: s.End, State: state, CreatedAt: s.StartedAt, UpdatedAt: s.StartedAt,
	}
	if s.PullRequest != nil {
		row.PullNumber = s.PullRequest.Number
	}
	return row, err
}

// workComment works a comment on the event's issue as if its webhook had come, if it may hold an
// answer: a command had a job of its own.
func (j *job) workComment(ctx context.Context, guid string, ev event, c ghapp.Comment) error {
	user := object{"login": c.Author.Login, "id": c.Author.ID, "type": c.Author.Type}
	said, err := ev.as("issue_comment", "created", object{
		"sender": user, "comment": object{"id": c.ID, "body": c.Body, "html_url": c.URL, "user": user},
	})
	if err != nil {
		return err
	}
	if intent, err := j.deliveries.Decoder.Decode(said.name, said.payload); err != nil || !mayAnswer(intent) {
		return nil //nolint:nilerr // what cannot be read answers nothing
	}
	d := said.delivery(guid)
	d.ReceivedAt = c.CreatedAt
	_, err = j.deliveries.Deliver(ctx, d)
	return err
}

// mayAnswer says whether a comment may hold an answer: also beside what is nearly a command.
func mayAnswer(intent handlers.Intent) bool {
	switch in := intent.(type) {
	case handlers.RemarkIntent:
		return true
	case handlers.CommandIntent:
		return in.Problem != "" && in.Beside
	default:
		return false
	}
}

// lastRun is the last run of the issue or pull request, as far as it can be told
// from what it has left behind. worked is when a run last made a commit.
func (j *job) lastRun(
	ctx context.Context, in handlers.Subject,
) (row store.Run, worked time.Time, found bool, err error) {
	repo := j.repoOf(in)
	ctx = ghapp.WithPurpose(ctx, "restore")
	issue, pr, err := j.deliveries.PullOf(ctx, repo, in)
	if err != nil || issue == 0 {
		return store.Run{}, worked, false, err
	}
	about, err := repo.Issue(ctx, issue)
	if errors.Is(err, ghapp.ErrNotFound) {
		return store.Run{}, worked, false, nil
	}
	if err != nil {
		return store.Run{}, worked, false, err
	}
	s := j.newState(issue, about.NodeID)
	at, err := j.locate(ctx, repo, in.RepoNode, s)
	if err != nil || at.Head == at.Base {
		return store.Run{}, worked, false, err
	}
	commits, err := at.Repo.Log(ctx, at.Base, at.Head)
	if err != nil {
		return store.Run{}, worked, false, err
	}
	s.Earlier = publish.Earlier(commits)
	for _, c := range slices.Backward(commits) {
		if _, ours := publish.RecordOf(c.Subject + "\n\n" + c.Body); ours {
			worked = c.When
		}
	}
	doc, err := host.LastProgress(ctx, at.Repo, commits, s.Subject)
	if err != nil || doc == nil {
		return store.Run{}, worked, false, err
	}
	a, err := approval(ctx, repo, commits[:min(len(commits), host.MaxRestored)])
	if err != nil {
		return store.Run{}, worked, false, err
	}
	s.Approved, s.ApprovedBy, s.Covered = a.Plan, a.By, a.Covered
	s.Earlier.Iterations = max(s.Earlier.Iterations, doc.LastIteration())
	s.Branch, s.BaseBranch, s.Base, s.Head = at.Branch, at.BaseBranch, string(at.Base), string(at.Head)
	s.Progress, s.Plan = string(doc.Bytes()), approvedPlan(doc, about)
	s.Subject.Name = s.Plan.Title
	if pr.Number > 0 {
		s.PullRequest = &loop.PullRequest{Number: pr.Number, NodeID: pr.NodeID, URL: pr.URL, Draft: pr.Draft,
			Body: pr.Body, Head: pr.HeadOID, Base: pr.BaseRef, Closed: pr.State != "open", Merged: pr.Merged}
	}
	if s.Feedback, err = j.restoreFeedback(ctx, repo, pr); err != nil {
		return store.Run{}, worked, false, err
	}
	if err := j.restoreEnd(ctx, repo, &s, doc, issue); err != nil {
		return store.Run{}, worked, false, err
	}
	row, err = rowOf(in, s, issue, about.NodeID)
	return row, worked, true, err
}

// restoreFeedback is what was said of the work that earlier runs have made tasks
// of, as our pull request lists it: whoever may edit that may have work done, too.
func (j *job) restoreFeedback(ctx context.Context, repo *ghapp.Repo, pr ghapp.PR) ([]loop.Feedback, error) {
	shown := publish.SaidIn(pr.Body)
	if pr.Number == 0 || len(shown) == 0 {
		return nil, nil
	}
	conv, err := repo.Conversation(ctx, pr.Number)
	if err != nil {
		return nil, err
	}
	// The description lists a commit before its conversations are answered.
	pub := publish.Publisher{GitHub: repo, Effects: j.deliveries.Comments.Effects, Mask: j.deliveries.Mask}
	answered, err := pub.FindAnswers(ctx, pr.Number)
	if err != nil {
		return nil, err
	}
	threads := map[int64]ghapp.Thread{} // by each comment in them
	for _, t := range conv.Threads {
		for _, c := range t.Comments {
			threads[c] = t
		}
	}
	var list []loop.Feedback
	for _, said := range shown {
		f := loop.Feedback{Where: said.Where, By: said.By, Standing: loop.FeedbackTask, TaskID: said.TaskID,
			Commit: said.OID, Rounds: 1}
		if t, ok := threads[said.Comment]; ok {
			f.Key, f.Comment, f.Last = t.ID, t.Comments[0], said.Comment
			f.Told = said.OID != "" && answered(f.Comment, said.OID)
		}
		if said.Review != 0 {
			f.Key = handlers.ReviewSource(said.Review)
		}
		if f.Key != "" { // the conversation is gone
			list = append(list, f)
		}
	}
	return list, nil
}

// readAlong keeps what was said in a conversation before what is to be worked: it brings no work
// by itself. Whether it counts is asked as of anything else.
func (j *job) readAlong(ctx context.Context, guid string, ev event) error {
	return retry(ctx, func() error {
		if err := j.restore(ctx, guid, ev); err != nil {
			return err
		}
		return j.deliveries.ReadAlong(ctx, ev.delivery(guid))
	})
}

func (j *job) repoOf(in handlers.Subject) *ghapp.Repo {
	return j.github.Repo(in.Installation, in.Owner, in.Repo)
}

// locate finds the branch of a run, and waits for the fetch that this takes. What
// people cannot fix is errNoBranch: it is most often the way to GitHub.
func (j *job) locate(ctx context.Context, repo *ghapp.Repo, node string, s loop.State) (host.Location, error) {
	source := j.runs.Source(repo, node)
	for {
		at, err := source.Locate(ctx, s)
		if _, byPerson := errors.AsType[*run.UserError](err); byPerson || err == nil {
			return at, err
		}
		if !errors.Is(err, host.ErrFetching) {
			return at, fmt.Errorf("%w: %w", errNoBranch, err)
		}
		if err := j.pause(ctx, firstPause, nil); err != nil {
			return host.Location{}, err
		}
	}
}

// approval is what the last run had for its plan, as the newest commit of a run among
// commits tells. Whoever merges a branch puts the commits of others on this one, so
// GitHub has to vouch for it that the bot itself has written this.
func approval(
	ctx context.Context, repo *ghapp.Repo, commits []gitrepo.CommitInfo,
) (none publish.Approval, err error) {
	for _, c := range commits {
		told, ours := publish.RecordOf(c.Subject + "\n\n" + c.Body)
		if !ours {
			continue
		}
		if told.Approval.Plan == "" {
			return none, nil
		}
		made, err := repo.Commit(ctx, string(c.OID))
		if err != nil {
			return none, err
		}
		if ours, err = repo.Ours(ctx, made.Author); err != nil {
			return none, err
		}
		if ours && made.Verified {
			return told.Approval, nil
		}
	}
	return none, nil
}

// approvedPlan is the plan that a progress file is bound to: the issue's text, if it
// still is what was worked. Otherwise nothing of it is told to anybody, and the
// tasks in the file speak for themselves.
func approvedPlan(doc *progress.Doc, about ghapp.Issue) plan.Plan {
	b, _ := doc.Binding()
	if p, err := plan.FromIssue(about.Title, about.Body); err == nil && p.SHA256 == b.PlanSHA256 {
		return p
	}
	return plan.Plan{Title: doc.Title(), SHA256: b.PlanSHA256}
}

// restoreEnd says how the run ended, as far as that is to be seen.
func (j *job) restoreEnd(ctx context.Context, repo *ghapp.Repo, s *loop.State, doc *progress.Doc, issue int) error {
	s.Phase, s.End, s.EndDetail = run.PhaseCancelled, run.EndCancelled, "an earlier job stopped before the end"
	done, total := progress.Counts(doc.Tasks())
	complete := total > 0 && done == total
	if complete {
		s.Phase, s.End, s.EndDetail = run.PhaseDone, run.EndAllTasksComplete, ""
	}
	hash := doc.PlanSHA256()
	if cmp.Or(s.Covered, s.Approved) == hash || complete && s.Approved == "" {
		return nil
	}
	// Maybe somebody has to approve the plan as it is now.
	pub := publish.Publisher{GitHub: repo, Effects: j.deliveries.Comments.Effects, Run: s.Run, Issue: issue,
		Branch: s.Branch, Agent: j.deliveries.AgentName, Mask: j.deliveries.Mask}
	v, err := pub.View(*s)
	if err != nil {
		return err
	}
	switch err := pub.FindPlan(ctx, v, hash); {
	case errors.Is(err, publish.ErrNoPlan):
		return nil
	case err != nil:
		return err
	}
	s.Phase, s.End, s.EndDetail, s.Approval = run.PhasePaused, run.EndAwaitingPerson, "", hash
	return nil
}
