package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
	"github.com/org/ralph-action/internal/strs"
)

const (
	// defaultQuiet is how long nothing more must have been said before it is taken
	// in: a review comes as one event for itself and one for each of its comments.
	defaultQuiet = 3 * time.Second
	// patience is how long it may be put off by more and more of it.
	patience = 30 * time.Second
	// maxRounds is how often in a row bots and checks may bring work before a person
	// has to look.
	maxRounds = 3
	// maxCheckWords bounds what is quoted of one failed check, in bytes.
	maxCheckWords = 4 << 10
)

func feedbackKinds() []store.InputKind {
	return []store.InputKind{store.InputReview, store.InputReviewComment, store.InputThread, store.InputChecks}
}

// digest is what has become of what was said of a run's work.
type digest struct {
	// list is for the run, in the order in which it is to be worked.
	list []loop.Heard
	// settled are the inputs that are dealt with by that.
	settled []settledInput
	// seen is the newest input that was looked at, rounds the new
	// loop.State.FeedbackRounds.
	seen   int64
	rounds int
	// by is who is behind the first task, the zero value where nobody but bots and
	// checks is.
	by handlers.Author

	// questions are for people.
	questions []question
}

// settledInput is an input and what became of it.
type settledInput struct {
	input   store.Input
	state   store.InputState
	outcome string
}

// question is asked once for its occasion.
type question struct{ occasion, text string }

func (d *digest) settle(in store.Input, state store.InputState, outcome string) {
	d.settled = append(d.settled, settledInput{in, state, outcome})
}

// hasWork says whether there is something for a run to do.
func (d *digest) hasWork() bool {
	return slices.ContainsFunc(d.list, func(l loop.Heard) bool { return l.Task.Title != "" })
}

// hasQuestions says whether people have to decide something.
func (d *digest) hasQuestions() bool { return len(d.questions) > 0 }

// postponeWork takes out of the digest what brings work: it stays pending.
func (d *digest) postponeWork() {
	d.settled = slices.DeleteFunc(d.settled, func(done settledInput) bool { return done.state == store.InputDone })
	d.list = slices.DeleteFunc(d.list, func(l loop.Heard) bool { return l.Standing == loop.FeedbackTask })
}

// pendingFeedback is what was said of a run's work that it has not looked at, all of what
// is pending where there is some; wait is how long to let people finish first.
func (r *Reconciler) pendingFeedback(ctx context.Context, row store.Run,
	s loop.State) (pending []store.Input, wait time.Duration, err error) {
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
	now, quiet := r.cfg.Now(), cmp.Or(r.cfg.Quiet, defaultQuiet)
	return pending, min(last.Add(quiet).Sub(now), first.Add(patience).Sub(now)), nil
}

// askPeople tells people on the pull request what they have to decide, once each.
func (r *Reconciler) askPeople(ctx context.Context, row store.Run, d digest) error {
	for _, q := range d.questions {
		if err := r.comments.Comment(ctx, r.repoOf(row), row.PullNumber, q.occasion, q.text); err != nil {
			return err
		}
	}
	return nil
}

// readFeedback decides what is to be done about all that was said and is pending.
func (r *Reconciler) readFeedback(ctx context.Context, row store.Run, s loop.State, pending []store.Input) (digest, error) {
	h := digest{rounds: s.FeedbackRounds}
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
	if err := r.readThreads(ctx, row, s, conv, pending, &h); err != nil {
		return h, err
	}
	for _, in := range pending {
		if in.Kind == store.InputReview {
			if err := r.readReview(ctx, row, in, &h); err != nil {
				return h, err
			}
		}
	}
	if err := r.readChecks(ctx, row, s, conv, pending, &h); err != nil {
		return h, err
	}
	r.boundRounds(s, &h)
	return h, nil
}

// boundRounds keeps bots and checks from bringing work for ever, each in answer to the
// last.
func (r *Reconciler) boundRounds(s loop.State, h *digest) {
	if !h.hasWork() {
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
			l.Standing, l.Why, l.Task, l.Quote = loop.FeedbackAsked,
				fmt.Sprintf("bots and checks alone caused work %d times in a row", maxRounds), run.Task{}, ""
		}
	}
	h.questions = append(h.questions, question{fmt.Sprintf("rounds:%d", h.seen), publish.RoundsText(maxRounds)})
}

// mayReview says whether what was said counts: its author could write when it was
// said and can now, or is a bot that the server listens to.
func (r *Reconciler) mayReview(ctx context.Context, row store.Run, in store.Input) (may bool, err error) {
	if in.Role == "bot" {
		return slices.Contains(r.authorizer.People.Bots, in.AuthorID), nil
	}
	if !delivery.CouldWrite(in.Role) {
		return false, nil
	}
	p, err := r.authorizer.Permission(ctx, r.repoOf(row), row.RepoNode, in.Author)
	return p.CanWrite, err
}

// readThreads deals with the conversations in which something new was said.
func (r *Reconciler) readThreads(ctx context.Context, row store.Run, s loop.State, conv ghapp.Conversation,
	pending []store.Input, h *digest) error {
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
	var threads []thread
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
		thread, err := r.reviewThread(ctx, row, s, t)
		if err != nil {
			return err
		}
		thread.Reopened = reopened[t.ID]
		threads, inputs[t.ID] = append(threads, thread), news
	}
	for _, in := range fresh {
		h.settle(in, store.InputRefused, "the conversation is gone")
	}
	for _, d := range decideThreads(threads) {
		r.addDecision(row, d, threads, inputs[d.Thread.ID], h)
	}
	return nil
}

// addDecision puts a decision into the words of the run.
func (r *Reconciler) addDecision(row store.Run, d decision, threads []thread, news []store.Input, h *digest) {
	l := loop.Heard{Feedback: loop.Feedback{Key: d.Thread.ID, Comment: d.Thread.Root, Where: where(d.Thread),
		By: d.By.Login, Why: d.Why}}
	if n := len(d.Thread.Comments); n > 0 {
		l.Last = d.Thread.Comments[n-1].ID
	}
	switch d.Handling {
	case handleNothing, handleWait:
		return
	case handleDrop:
		l.Standing = loop.FeedbackDropped
	case handleAsk:
		l.Standing = loop.FeedbackAsked
		h.questions = append(h.questions, r.question(row, d, threads))
		h.list = append(h.list, l)
		return // what was said is looked at again once somebody has decided
	case handleWork:
		l.Standing = loop.FeedbackTask
		if l.As = d.With; l.As == "" {
			l.Task, l.Quote = d.Task, d.Quote
		}
		if human := !slices.Contains(r.authorizer.People.Bots, d.By.ID); human {
			l.Person = loop.Person{Login: d.By.Login, ID: d.By.ID}
			if h.by.ID == 0 {
				h.by = handlers.Author{Login: d.By.Login, ID: d.By.ID, Type: "User"}
			}
		}
	}
	for _, in := range news {
		h.settle(in, store.InputDone, string(d.Handling))
	}
	h.list = append(h.list, l)
}

func where(t thread) string {
	if len(t.Comments) == 0 {
		return linesOf(t.Path, 0, 0)
	}
	return linesOf(t.Path, t.Comments[0].Start, t.Comments[0].Line)
}

// question is what people have to decide about a conversation.
func (r *Reconciler) question(row store.Run, d decision, threads []thread) question {
	url := func(id string) string {
		for _, t := range threads {
			if t.ID == id {
				return fmt.Sprintf("%s/pull/%d#discussion_r%d", r.repoOf(row).HTMLURL(), row.PullNumber, t.Root)
			}
		}
		return ""
	}
	if d.With == "" {
		return question{fmt.Sprintf("again:%s:%d", d.Thread.ID, d.Thread.Rounds),
			publish.AgainText(url(d.Thread.ID), d.Thread.Rounds)}
	}
	pair := []string{d.Thread.ID, d.With}
	slices.Sort(pair)
	return question{"dispute:" + strings.Join(pair, ":"),
		publish.DisputeText(r.cfg.Mask.Mask, where(d.Thread), url(pair[0]), url(pair[1]))}
}

// reviewThread is a conversation with what is known of the comments in it: each as it
// was when it was written. What its author has changed since counts for nothing.
func (r *Reconciler) reviewThread(ctx context.Context, row store.Run, s loop.State, t ghapp.Thread) (thread, error) {
	out := thread{ID: t.ID, Path: t.Path, Resolved: t.Resolved, Outdated: t.Outdated}
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
		out.Comments = append(out.Comments, comment{
			ID: id, By: loop.Person{Login: in.Author, ID: in.AuthorID}, Text: in.Text, MayWrite: may,
			Fresh: in.State == store.InputPending,
			Start: d.StartLine, Line: d.Line, Hunk: d.DiffHunk,
		})
	}
	return out, nil
}

// readReview deals with what a review says as a whole.
func (r *Reconciler) readReview(ctx context.Context, row store.Run, in store.Input, h *digest) error {
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
	c, commanded, problem := handlers.ParseCommand(in.Text)
	switch {
	case !may:
		h.settle(in, store.InputRefused, string(delivery.DeniedRole))
		return nil
	case commanded && problem == nil && c.Verb == handlers.VerbDo:
		asked, _ := plan.Sanitize(c.Text)
		l.Task = run.Task{Title: strings.TrimSpace(asked), Priority: 1}
	case d.Verdict == "changes_requested" && text != "" && !commanded:
		gist := strs.OneLine(text)
		l.Task = run.Task{Title: "Address the review by " + in.Author + ": " + strs.Cut(gist, 120),
			Accept:   []string{"The work does what " + in.Author + " asks in the review: " + strs.Cut(gist, 600)},
			Priority: 1}
		l.Quote = in.Author + " wrote:\n\n" + strs.Cut(text, 8<<10)
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

// readChecks makes one task of the checks of others that failed on the head that
// the run has left. What failed on any other commit is history.
func (r *Reconciler) readChecks(ctx context.Context, row store.Run, s loop.State, conv ghapp.Conversation,
	pending []store.Input, h *digest) error {
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
		name = strs.Cut(strs.OneLine(name), 100)
		names = append(names, name)
		fmt.Fprintf(&b, "\n%s (%s)\n", name, c.Conclusion)
		words, _ := plan.Sanitize(strings.TrimSpace(c.Title + "\n" + c.Summary + "\n" + c.Text))
		b.WriteString(strs.Cut(words, maxCheckWords) + "\n")
	}
	what := strings.Join(names, ", ")
	if what == "" {
		what = "see the pull request"
	}
	h.list = append(h.list, loop.Heard{
		Feedback: loop.Feedback{Key: "checks:" + s.Head, Standing: loop.FeedbackTask,
			Where: "checks on " + s.Head[:min(len(s.Head), 7)], Quote: r.cfg.Mask.Mask(strs.Cut(b.String(), 16<<10))},
		Task: run.Task{Title: "Fix the checks that failed on the pull request: " + strs.Cut(what, 200),
			Accept: []string{"The cause of each failure is fixed, and no check is weakened"}, Priority: 1},
	})
	return nil
}
