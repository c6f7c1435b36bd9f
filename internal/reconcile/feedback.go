package reconcile

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/review"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
	"github.com/org/ralph-action/internal/strs"
)

const (
	// feedbackQuiet is how long nothing more must have been said before it is taken
	// in: a review comes as one event for itself and one for each of its comments.
	feedbackQuiet = 3 * time.Second
	// feedbackPatience is how long it may be put off by more and more of it.
	feedbackPatience = 30 * time.Second
	// maxRounds is how often in a row bots and checks may bring work before a person
	// has to look.
	maxRounds = 3
	// maxCheckWords bounds what is quoted of one failed check, in bytes.
	maxCheckWords = 4 << 10
)

func feedbackKinds() []store.InputKind {
	return []store.InputKind{store.InputReview, store.InputReviewComment, store.InputThread, store.InputChecks}
}

// heard is what has become of what was said of a run's work.
type heard struct {
	// list is for the run, the order in which it is to be worked.
	list []loop.Heard
	// settled are the inputs that are dealt with by that, and how.
	settled []settled
	// asks are questions to people: what for, once, and the words.
	asks [][2]string
	// seen is the newest input that was looked at, rounds the new
	// loop.State.FeedbackRounds.
	seen   int64
	rounds int
	// by is who is behind the first task, the zero value where nobody but bots and
	// checks is.
	by handlers.Author
}

type settled struct {
	input   store.Input
	state   store.InputState
	outcome string
}

func (h *heard) settle(in store.Input, state store.InputState, outcome string) {
	h.settled = append(h.settled, settled{in, state, outcome})
}

// work says whether there is something for a run to do.
func (h *heard) work() bool {
	return slices.ContainsFunc(h.list, func(l loop.Heard) bool { return l.Task.Title != "" })
}

// unheard is what was said of a run's work that it has not looked at, all of what
// is pending where there is some; wait is how long to let people finish first.
func (r *Reconciler) unheard(ctx context.Context, row store.Run, s loop.State) (pending []store.Input, wait time.Duration, err error) {
	if row.PullNumber == 0 {
		return nil, 0, nil
	}
	pending, err = r.cfg.Store.PendingInputs(ctx, row.RepoNode, row.IssueNumber, feedbackKinds()...)
	if err != nil {
		return nil, 0, err
	}
	var first, last time.Time
	for _, in := range pending {
		if in.ID <= s.FeedbackSeen && !(in.Kind == store.InputChecks && s.Phase.Terminal()) {
			continue
		}
		if first.IsZero() || in.ReceivedAt.Before(first) {
			first = in.ReceivedAt
		}
		if in.ReceivedAt.After(last) {
			last = in.ReceivedAt
		}
	}
	if first.IsZero() {
		return nil, 0, nil
	}
	now, quiet := r.cfg.Now(), cmp.Or(r.cfg.Quiet, feedbackQuiet)
	return pending, min(last.Add(quiet).Sub(now), first.Add(feedbackPatience).Sub(now)), nil
}

// heed has a run at work take in what was said of it, as soon as nothing is at
// work that it would change. The state and the word that it was taken in are stored
// together.
func (r *Reconciler) heed(ctx context.Context, row store.Run, lease store.Lease, d *driver, s loop.State) (loop.State, error) {
	if !s.Receptive() {
		return s, nil
	}
	pending, wait, err := r.unheard(ctx, row, s)
	if err != nil || len(pending) == 0 || wait > 0 {
		return s, err
	}
	h, err := r.digest(ctx, row, s, pending)
	if err != nil {
		return s, err
	}
	if err := r.ask(ctx, row, h); err != nil {
		return s, err
	}
	next, err := d.engine.Heed(ctx, s, h.list)
	if errors.Is(err, loop.ErrNotNow) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	next.FeedbackSeen, next.FeedbackRounds = h.seen, h.rounds
	return next, r.saveHeard(ctx, row.ID, lease, next, h)
}

func (r *Reconciler) saveHeard(ctx context.Context, id run.ID, lease store.Lease, s loop.State, h heard) error {
	b, err := loop.Encode(s)
	if err != nil {
		return err
	}
	defer r.saving(id)()
	ctx = context.WithoutCancel(ctx)
	return r.cfg.Store.InTx(ctx, func(tx *sql.Tx) error {
		for _, done := range h.settled {
			if _, err := r.cfg.Store.SettleInput(ctx, tx, done.input.ID, done.state, done.outcome, id, r.cfg.Now()); err != nil {
				return err
			}
		}
		return r.cfg.Store.SaveStateTx(ctx, tx, id, lease, s.Phase, s.End, b, r.cfg.Now())
	})
}

// ask tells people on the pull request what they have to decide, once each.
func (r *Reconciler) ask(ctx context.Context, row store.Run, h heard) error {
	for _, a := range h.asks {
		if err := r.tell(ctx, r.repoOf(row), row.PullNumber, a[0], a[1]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) repoOf(row store.Run) *ghapp.Repo {
	return r.cfg.GitHub.Repo(row.Installation, row.RepoOwner, row.RepoName)
}

// takeUpFeedback begins another run where something was said of the work of one
// that has ended, and keeps what brings no work in the state of that one. wait is
// when to come back.
func (r *Reconciler) takeUpFeedback(ctx context.Context, row store.Run, lease store.Lease) (wait time.Duration, err error) {
	if row.PullNumber == 0 {
		return 0, nil
	}
	s, err := loop.Decode(row.State)
	if err != nil {
		return 0, err
	}
	pending, wait, err := r.unheard(ctx, row, s)
	if err != nil || len(pending) == 0 || wait > 0 {
		return wait, err
	}
	h, err := r.digest(ctx, row, s, pending)
	if err != nil {
		return 0, err
	}
	if h.work() {
		begun, err := r.beginForFeedback(ctx, row, s, h)
		if err != nil || begun {
			return 0, err
		}
		// What was said waits for the next run.
		h.settled = slices.DeleteFunc(h.settled, func(done settled) bool { return done.state == store.InputDone })
		h.list = slices.DeleteFunc(h.list, func(l loop.Heard) bool { return l.Standing == loop.FeedbackTask })
	}
	if err := r.ask(ctx, row, h); err != nil {
		return 0, err
	}
	s.Note(h.list)
	s.FeedbackSeen = h.seen
	if err := r.saveHeard(ctx, row.ID, lease, s, h); err != nil {
		return 0, err
	}
	if len(h.asks) > 0 {
		r.label(ctx, r.repoOf(row), row.IssueNumber, labelNeedsHuman)
	}
	if len(h.list) == 0 {
		return 0, nil
	}
	// Notifications still work when the driver is incomplete.
	d, _ := r.driver(ctx, row)
	_, err = d.engine.Publisher.Show(ctx, s)
	r.retire(ctx, row.ID, d)
	return 0, r.soft(ctx, "what was said of a run that has ended was not shown", err)
}

// beginForFeedback begins the run that does what was said.
func (r *Reconciler) beginForFeedback(ctx context.Context, row store.Run, s loop.State, h heard) (begun bool, err error) {
	repo := r.repoOf(row)
	switch {
	case h.by.ID == 0 && !s.End.Complete():
		return false, nil // bots and checks do not bring work back that stopped short
	case !goesOn(s):
		// A job gives the run that it recalls a name of its own.
		return false, r.tell(ctx, repo, row.PullNumber, "kept:"+cmp.Or(s.Head, string(row.ID)), publish.KeptText(s.End))
	}
	by := h.by
	if by.ID == 0 {
		by = handlers.Author{Login: s.Subject.RequestedBy, ID: s.Subject.RequestedByID, Type: "User"}
		may, err := r.permission(ctx, repo, row.RepoNode, by.Login)
		if err != nil || !may.CanWrite {
			return false, err
		}
	}
	outcome, err := r.begin(ctx, repo, wanted{
		Subject: handlers.Subject{
			Owner: row.RepoOwner, Repo: row.RepoName, RepoNode: row.RepoNode, Installation: row.Installation, Issue: row.IssueNumber, IssueNode: row.IssueNode,
			SenderLogin: by.Login, SenderID: by.ID, SenderType: by.Type,
		},
		by: by, plan: s.Plan, approved: s.Approved, approvedBy: s.ApprovedBy, progress: s.Progress,
	}, nil)
	if err != nil {
		return false, err
	}
	zerolog.Ctx(ctx).Info().Int("tasks", len(h.list)).Str("outcome", outcome).Msg("feedback on an ended run")
	return outcome == outcomeStarted || outcome == outcomeRunning, nil
}

// digest decides what is to be done about all that was said and is pending.
func (r *Reconciler) digest(ctx context.Context, row store.Run, s loop.State, pending []store.Input) (heard, error) {
	h := heard{rounds: s.FeedbackRounds}
	for _, in := range pending {
		h.seen = max(h.seen, in.ID)
	}
	conv, err := r.repoOf(row).Conversation(ghapp.WithPurpose(ctx, "threads"), row.PullNumber)
	if err != nil && !errors.Is(err, ghapp.ErrNotFound) {
		return h, err
	}
	if err != nil || conv.State != "OPEN" {
		for _, in := range pending {
			h.settle(in, store.InputRefused, "the pull request is closed")
		}
		return h, nil
	}
	if err := r.digestThreads(ctx, row, s, conv, pending, &h); err != nil {
		return h, err
	}
	for _, in := range pending {
		if in.Kind == store.InputReview {
			if err := r.digestReview(ctx, row, in, &h); err != nil {
				return h, err
			}
		}
	}
	if err := r.digestChecks(ctx, row, s, conv, pending, &h); err != nil {
		return h, err
	}
	r.bound(s, &h)
	return h, nil
}

// bound keeps bots and checks from bringing work for ever, each in answer to the
// last.
func (r *Reconciler) bound(s loop.State, h *heard) {
	if !h.work() {
		return
	}
	if slices.ContainsFunc(h.list, func(l loop.Heard) bool { return l.Task.Title != "" && l.Person.ID != 0 }) {
		h.rounds = 0
		return
	}
	if s.FeedbackRounds < maxRounds {
		h.rounds++
		return
	}
	for i := range h.list {
		l := &h.list[i]
		if l.Standing == loop.FeedbackTask {
			l.Standing, l.Why, l.Task, l.Quote, l.Suggestion = loop.FeedbackAsked, fmt.Sprintf("bots and checks alone caused work %d times in a row", maxRounds), run.Task{}, "", nil
		}
	}
	h.asks = append(h.asks, [2]string{fmt.Sprintf("rounds:%d", h.seen), publish.RoundsText(maxRounds)})
}

// mayReview says whether what was said counts: its author could write when it was
// said and can now, or is a bot that the server listens to.
func (r *Reconciler) mayReview(ctx context.Context, row store.Run, in store.Input) (may bool, err error) {
	if in.Role == "bot" {
		return slices.Contains(r.cfg.People.Bots, in.AuthorID), nil
	}
	if !couldWrite(in) {
		return false, nil
	}
	p, err := r.permission(ctx, r.repoOf(row), row.RepoNode, in.Author)
	return p.CanWrite, err
}

// couldWrite says whether it was said by a person who could write then.
func couldWrite(in store.Input) bool {
	return !slices.Contains([]string{"", "none", "read", "triage", "bot"}, in.Role)
}

// digestThreads deals with the conversations in which something new was said.
func (r *Reconciler) digestThreads(ctx context.Context, row store.Run, s loop.State, conv ghapp.Conversation, pending []store.Input, h *heard) error {
	fresh := map[string]store.Input{} // comments, by source
	reopened := map[string]bool{}
	for _, in := range pending {
		switch in.Kind { //nolint:exhaustive // the others are dealt with elsewhere
		case store.InputReviewComment:
			fresh[in.Source] = in
		case store.InputThread:
			var d handlers.Thread
			if err := json.Unmarshal(in.Detail, &d); err != nil {
				return fmt.Errorf("read %s: %w", in.Source, err)
			}
			may, err := r.mayReview(ctx, row, in)
			if err != nil {
				return err
			}
			if may && !d.Resolved {
				reopened[d.NodeID] = true
			}
			h.settle(in, store.InputDone, "looked at")
		}
	}
	var threads []review.Thread
	inputs := map[string][]store.Input{} // those that are pending, by conversation
	for _, t := range conv.Threads {
		var news []store.Input
		for _, id := range t.Comments {
			if in, ok := fresh[handlers.ReviewCommentSource(id)]; ok {
				news = append(news, in)
				delete(fresh, in.Source)
			}
		}
		if len(news) == 0 && !reopened[t.ID] {
			continue
		}
		thread, err := r.thread(ctx, row, s, t)
		if err != nil {
			return err
		}
		thread.Reopened = reopened[t.ID]
		threads, inputs[t.ID] = append(threads, thread), news
	}
	for _, in := range fresh {
		h.settle(in, store.InputRefused, "the conversation is gone")
	}
	decisions := review.Decide(threads)
	// Suggestions first, from the top of each file down: so each is found where the
	// one before has left it.
	slices.SortStableFunc(decisions, func(a, b review.Decision) int {
		if a.Suggestion != nil && b.Suggestion != nil {
			return cmp.Or(strings.Compare(a.Suggestion.Path, b.Suggestion.Path), cmp.Compare(a.Suggestion.Start, b.Suggestion.Start))
		}
		return cmp.Compare(suggests(b), suggests(a))
	})
	for _, d := range decisions {
		r.decided(row, d, threads, inputs[d.Thread.ID], h)
	}
	return nil
}

func suggests(d review.Decision) int {
	if d.Suggestion != nil {
		return 1
	}
	return 0
}

// decided puts a decision into the words of the run.
func (r *Reconciler) decided(row store.Run, d review.Decision, threads []review.Thread, news []store.Input, h *heard) {
	l := loop.Heard{Feedback: loop.Feedback{Key: d.Thread.ID, Comment: d.Thread.Root, Where: where(d.Thread), By: d.By.Login, Why: d.Why}}
	if n := len(d.Thread.Comments); n > 0 {
		l.Last = d.Thread.Comments[n-1].ID
	}
	switch d.Verdict {
	case review.Nothing, review.Wait:
		return
	case review.Drop:
		l.Standing = loop.FeedbackDropped
	case review.Ask:
		l.Standing = loop.FeedbackAsked
		h.asks = append(h.asks, r.question(row, d, threads))
		h.list = append(h.list, l)
		return // what was said is looked at again once somebody has decided
	case review.Work, review.Apply:
		l.Standing = loop.FeedbackTask
		if l.As = d.With; l.As == "" {
			l.Task, l.Quote, l.Suggestion = d.Task, d.Quote, d.Suggestion
		}
		if human := !slices.Contains(r.cfg.People.Bots, d.By.ID); human {
			l.Person = loop.Person{Login: d.By.Login, ID: d.By.ID}
			if h.by.ID == 0 {
				h.by = handlers.Author{Login: d.By.Login, ID: d.By.ID, Type: "User"}
			}
		}
	}
	for _, in := range news {
		h.settle(in, store.InputDone, string(d.Verdict))
	}
	h.list = append(h.list, l)
}

func where(t review.Thread) string {
	if len(t.Comments) == 0 {
		return review.Where(t.Path, 0, 0)
	}
	return review.Where(t.Path, t.Comments[0].Start, t.Comments[0].Line)
}

// question is what people have to decide about a conversation.
func (r *Reconciler) question(row store.Run, d review.Decision, threads []review.Thread) [2]string {
	url := func(id string) string {
		for _, t := range threads {
			if t.ID == id {
				return fmt.Sprintf("%s/pull/%d#discussion_r%d", r.repoOf(row).HTMLURL(), row.PullNumber, t.Root)
			}
		}
		return ""
	}
	if d.With == "" {
		return [2]string{fmt.Sprintf("again:%s:%d", d.Thread.ID, d.Thread.Rounds), publish.AgainText(url(d.Thread.ID), d.Thread.Rounds)}
	}
	pair := []string{d.Thread.ID, d.With}
	slices.Sort(pair)
	return [2]string{"dispute:" + strings.Join(pair, ":"), publish.DisputeText(r.cfg.Mask.Mask, where(d.Thread), url(pair[0]), url(pair[1]))}
}

// thread is a conversation with what is known of the comments in it: each as it
// was when it was written. What its author has changed since counts for nothing.
func (r *Reconciler) thread(ctx context.Context, row store.Run, s loop.State, t ghapp.Thread) (review.Thread, error) {
	out := review.Thread{ID: t.ID, Path: t.Path, Resolved: t.Resolved, Outdated: t.Outdated}
	if len(t.Comments) > 0 {
		out.Root = t.Comments[0]
	}
	for _, f := range s.Feedback {
		if f.Key == t.ID {
			out.Rounds = f.Rounds
		}
	}
	for _, id := range t.Comments {
		in, err := r.cfg.Store.InputBySource(ctx, row.RepoNode, handlers.ReviewCommentSource(id))
		if errors.Is(err, store.ErrNotFound) || err == nil && in.State == store.InputWithdrawn {
			continue
		}
		if err != nil {
			return out, err
		}
		var d handlers.ReviewComment
		if err := json.Unmarshal(in.Detail, &d); err != nil {
			return out, fmt.Errorf("read %s: %w", in.Source, err)
		}
		may, err := r.mayReview(ctx, row, in)
		if err != nil {
			return out, err
		}
		out.Comments = append(out.Comments, review.Comment{
			ID: id, By: review.Person{Login: in.Author, ID: in.AuthorID}, Text: in.Text, MayWrite: may, Fresh: in.State == store.InputPending,
			Commit: d.CommitID, Start: d.StartLine, Line: d.Line, OldSide: d.Side == "LEFT", Hunk: d.DiffHunk,
		})
	}
	return out, nil
}

// digestReview deals with what a review says as a whole.
func (r *Reconciler) digestReview(ctx context.Context, row store.Run, in store.Input, h *heard) error {
	var d handlers.Review
	if err := json.Unmarshal(in.Detail, &d); err != nil {
		return fmt.Errorf("read %s: %w", in.Source, err)
	}
	may, err := r.mayReview(ctx, row, in)
	if err != nil {
		return err
	}
	text, _ := plan.Sanitize(in.Text)
	text = strings.TrimSpace(text)
	l := loop.Heard{Feedback: loop.Feedback{Key: in.Source, By: in.Author, Standing: loop.FeedbackTask}}
	c, commanded, problem := review.ParseCommand(in.Text)
	switch {
	case !may:
		h.settle(in, store.InputRefused, string(refusedRole))
		return nil
	case commanded && problem == nil && c.Verb == review.VerbDo:
		asked, _ := plan.Sanitize(c.Text)
		l.Task = run.Task{Title: strings.TrimSpace(asked), Priority: 1}
	case d.Verdict == "changes_requested" && text != "" && !commanded:
		gist := strs.OneLine(text)
		l.Task = run.Task{Title: "Address the review by " + in.Author + ": " + cutText(gist, 120), Accept: []string{"The work does what " + in.Author + " asks in the review: " + cutText(gist, 600)}, Priority: 1}
		l.Quote = in.Author + " wrote:\n\n" + cutText(text, 8<<10)
	}
	if l.Task.Title == "" {
		h.settle(in, store.InputDone, "nothing to do")
		return nil
	}
	if in.Role != "bot" {
		l.Person = loop.Person{Login: in.Author, ID: in.AuthorID}
		if h.by.ID == 0 {
			h.by = handlers.Author{Login: in.Author, ID: in.AuthorID, Type: "User"}
		}
	}
	h.settle(in, store.InputDone, "a task")
	h.list = append(h.list, l)
	return nil
}

// cutText is at most limit bytes of text.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// digestChecks makes one task of the checks of others that failed on the head that
// the run has left. What failed on any other commit is history.
func (r *Reconciler) digestChecks(ctx context.Context, row store.Run, s loop.State, conv ghapp.Conversation, pending []store.Input, h *heard) error {
	var failed []store.Input
	for _, in := range pending {
		if in.Kind != store.InputChecks {
			continue
		}
		var d handlers.Checks
		if err := json.Unmarshal(in.Detail, &d); err != nil {
			return fmt.Errorf("read %s: %w", in.Source, err)
		}
		switch {
		case d.Head != conv.HeadOID || d.Head != s.Head:
			h.settle(in, store.InputRefused, "not of the head")
		case !s.Phase.Terminal() && len(s.Commits) > 0:
			// More commits may come; it is looked at once the run has ended.
		default:
			failed = append(failed, in)
			h.settle(in, store.InputDone, "a task")
		}
	}
	if len(failed) == 0 {
		return nil
	}
	checks, err := r.repoOf(row).FailedChecks(ghapp.WithPurpose(ctx, "checks"), s.Head)
	if err != nil && !ghapp.Denied(err) {
		return err
	}
	if err == nil && len(checks) == 0 {
		return nil // they were run again meanwhile, and passed
	}
	var names []string
	var b strings.Builder
	fmt.Fprintf(&b, "These checks failed on commit %s:\n", s.Head)
	for _, c := range checks {
		name, _ := plan.Sanitize(c.Name)
		name = cutText(strs.OneLine(name), 100)
		names = append(names, name)
		fmt.Fprintf(&b, "\n%s (%s)\n", name, c.Conclusion)
		words, _ := plan.Sanitize(strings.TrimSpace(c.Title + "\n" + c.Summary + "\n" + c.Text))
		b.WriteString(cutText(words, maxCheckWords) + "\n")
	}
	what := strings.Join(names, ", ")
	if what == "" {
		what = "see the pull request"
	}
	h.list = append(h.list, loop.Heard{
		Feedback: loop.Feedback{Key: "checks:" + s.Head, Standing: loop.FeedbackTask, Where: "checks on " + s.Head[:min(len(s.Head), 7)], Quote: r.cfg.Mask.Mask(cutText(b.String(), 16<<10))},
		Task:     run.Task{Title: "Fix the checks that failed on the pull request: " + cutText(what, 200), Accept: []string{"The cause of each failure is fixed, and no check is weakened"}, Priority: 1},
	})
	return nil
}
