package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
	"github.com/org/ralph-action/internal/store/queue"
)

// The pauses between two looks at sub-issues, of which one is worked or all wait. The end
// of a run of one wakes that of the parent at once.
const (
	familyPause = 15 * time.Second
	familyIdle  = time.Minute
)

// leading is one tick of a run that works a family. What it does follows from the members'
// runs as they are stored: nothing has to be remembered but what was begun, which is saved
// in the transaction that begins it.
type leading struct {
	r     *Reconciler
	row   store.Run
	lease store.Lease
	d     *driver
	s     *loop.State
	repo  *ghapp.Repo
	// members are those of the family, in order.
	members []member
	// blocked are what members wait for that are not begun, and subjects the same as
	// loop.Delayed has them.
	blocked  map[int][]string
	subjects []string
}

// member is one of the family with its latest run, if it has any.
type member struct {
	*loop.Member
	row   store.Run
	state loop.State
}

func (m member) begun() bool   { return m.Run != "" }
func (m member) working() bool { return m.row.ID != "" && !m.row.Phase.Terminal() }
func (m member) done() bool    { return !m.working() && m.row.EndReason.Complete() }

// lead ticks a run that works a family.
func (r *Reconciler) lead(ctx context.Context, row store.Run, lease store.Lease, d *driver,
	s loop.State) (time.Duration, error) {
	f := s.Lead()
	s.CancelRequested = s.CancelRequested || !row.CancelRequestedAt.IsZero()
	if s.End == "" && !s.CancelRequested {
		if left := d.looksIn(ctx, r.cfg.Now()); left > 0 {
			return left, nil
		}
	}
	l := &leading{
		r: r, row: row, lease: lease, d: d, s: &s, blocked: map[int][]string{},
		repo: r.cfg.GitHub.Repo(row.Installation, row.RepoOwner, row.RepoName),
	}
	wait, err := l.tick(ctx, f)
	if errors.Is(err, queue.ErrBusy) { // a run of a member is being stopped
		return poll, nil
	}
	if err != nil {
		return r.trouble(ctx, row, lease, d, s, err)
	}
	d.failing = time.Time{}
	if s.Troubles > 0 && !s.Phase.Terminal() {
		if err := l.save(ctx); err != nil {
			return 0, err
		}
	}
	d.look = r.cfg.Now().Add(wait)
	return wait, nil
}

func (l *leading) tick(ctx context.Context, f *loop.Family) (time.Duration, error) {
	if err := l.look(ctx, f); err != nil {
		return 0, err
	}
	busy := slices.ContainsFunc(l.members, func(m member) bool { return m.begun() && m.working() && !awaits(m.state) })
	open := busy || slices.ContainsFunc(l.members, func(m member) bool { return m.begun() && m.working() })
	switch {
	case l.s.End != "": // it was given up
		return l.end(ctx, f, l.s.End, l.s.EndDetail)
	case !l.row.CancelRequestedAt.IsZero():
		stopping, err := l.stop(ctx)
		if err != nil || stopping {
			return poll, err
		}
		return l.end(ctx, f, run.EndCancelled, l.row.CancelBy)
	case !busy:
		began, err := l.next(ctx, f)
		if err != nil {
			return 0, err
		}
		if began {
			return poll, nil
		}
	}
	wait := familyPause
	if !busy {
		wait = familyIdle
	}
	switch done := l.done(); {
	case l.s.End != "":
		return l.end(ctx, f, l.s.End, l.s.EndDetail)
	case open:
		l.s.Delayed = nil // saved with whatever is shown next
	case len(l.subjects) > 0:
		wait = dependsPause
		if !awaits(*l.s) || !slices.Equal(l.s.Delayed.Subjects, l.subjects) {
			*l.s = l.d.engine.Await(*l.s, "its sub-issues wait for "+strings.Join(l.subjects, ", "), l.subjects)
			if err := l.save(ctx); err != nil {
				return 0, err
			}
		}
	case done == len(l.members):
		return l.end(ctx, f, run.EndAllTasksComplete, "")
	default:
		return l.end(ctx, f, run.EndBlocked, fmt.Sprintf("%d of %d sub-issues are done", done, len(l.members)))
	}
	return wait, l.show(ctx, f)
}

// look finds the latest run of each member, and takes in those that somebody else began.
func (l *leading) look(ctx context.Context, f *loop.Family) error {
	l.members = nil
	for i := range f.Members {
		m := member{Member: &f.Members[i]}
		if m.Skipped == "" {
			var err error
			m.row, err = l.r.cfg.Store.LatestRunByIssue(ctx, l.row.RepoNode, m.Number)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if err == nil {
				if m.state, err = loop.Decode(m.row.State); err != nil {
					return err
				}
			}
			if !m.begun() && m.row.ID != "" && (m.working() || m.done()) {
				m.Run, m.Joined = m.row.ID, true
			}
		}
		l.members = append(l.members, m)
	}
	return nil
}

// done counts the members that nothing is left to be done of.
func (l *leading) done() (n int) {
	for _, m := range l.members {
		if m.done() || m.Skipped == publish.MemberClosed {
			n++
		}
	}
	return n
}

// stop has the members stop that the run began; stopping says that some have not yet.
func (l *leading) stop(ctx context.Context) (stopping bool, err error) {
	err = l.r.cfg.Store.InTx(ctx, func(tx *store.Tx) error {
		for _, m := range l.members {
			if !m.begun() || m.Joined || !m.working() || m.row.ID != m.Run {
				continue
			}
			stopping = true
			why := fmt.Sprintf("the work on #%d was stopped: %s", l.row.IssueNumber, l.row.CancelBy)
			if err := l.r.cfg.Store.RequestCancel(ctx, tx, m.Run, why, l.r.cfg.Now()); err != nil {
				return err
			}
			if err := l.r.cfg.Queue.Wake(ctx, tx, m.Run); err != nil {
				return err
			}
		}
		return nil
	})
	return stopping, err
}

// next begins the run of the first member that has none and waits for nothing.
func (l *leading) next(ctx context.Context, f *loop.Family) (began bool, err error) {
	for i := range l.members {
		if l.members[i].begun() || l.members[i].Skipped != "" {
			continue
		}
		w, err := l.ready(ctx, f, i)
		if err != nil {
			return false, err
		}
		if w == nil {
			continue
		}
		why, err := l.r.barred(ctx, l.repo, l.row, *l.s)
		if err != nil {
			return false, err
		}
		if why != "" {
			*l.s = l.d.engine.Fail(*l.s, why)
			return false, nil
		}
		outcome, err := l.begin(ctx, l.members[i].Member, *w)
		switch {
		case err != nil:
			return false, err
		case outcome == delivery.OutcomeStarted, outcome == delivery.OutcomeRunning:
			return true, nil
		}
		l.members[i].Skipped = "not begun: " + outcome
		if err := l.save(ctx); err != nil {
			return false, err
		}
	}
	return false, nil
}

// begin begins the run of a member, and saves that in the same transaction.
func (l *leading) begin(ctx context.Context, m *loop.Member, w delivery.RunRequest) (outcome string, err error) {
	saved := func() {}
	outcome, err = l.r.starter.Begin(ctx, l.repo, w, func(tx *store.Tx, id run.ID) error {
		m.Run = id
		l.s.Delayed, l.s.Troubles = nil, 0
		b, err := loop.Encode(*l.s)
		if err != nil {
			return err
		}
		saved = l.r.saving(l.row.ID)
		return l.r.cfg.Store.SaveStateTx(ctx, tx, l.row.ID, l.lease, l.s.Phase, l.s.End, b, l.r.cfg.Now())
	})
	if err != nil || outcome != delivery.OutcomeStarted {
		m.Run = ""
		return outcome, err
	}
	saved()
	return outcome, nil
}

// ready gives the run that the member i is to have, nil where it is not to have one, or not
// yet.
func (l *leading) ready(ctx context.Context, f *loop.Family, i int) (*delivery.RunRequest, error) {
	m := l.members[i]
	by := l.s.Subject
	w := delivery.RunRequest{
		Subject: subjectOf(l.row, m.Number), Under: l.row.IssueNumber,
		By: handlers.Author{Login: by.RequestedBy, ID: by.RequestedByID, Type: "User"},
	}
	w.IssueNode, w.SenderLogin, w.SenderID, w.SenderType = m.Node, w.By.Login, w.By.ID, w.By.Type
	var err error
	if m.Skipped, err = l.r.starter.Ready(ctx, l.repo, *m.Member, &w); err != nil {
		return nil, err
	}
	if m.Skipped != "" {
		return nil, l.save(ctx)
	}
	if f.Stacked {
		if w.StackedOn, w.Atop, err = l.below(ctx, i); err != nil {
			return nil, err
		}
	}
	on, err := l.r.starter.Depends(ctx, w)
	if err != nil {
		return nil, err
	}
	if open := without(on.Open, w.Atop); len(open) > 0 {
		l.blocked[m.Number] = open
		l.subjects = append(l.subjects, subjectsOf(l.row, open)...)
		return nil, nil
	}
	return &w, nil
}

// below is the branch that the work on member i is stacked on, "" for none: that of the
// last one before it whose pull request is open. atop are the issues that are worked there.
func (l *leading) below(ctx context.Context, i int) (branch string, atop []int, err error) {
	for _, m := range slices.Backward(l.members[:i]) {
		if m.row.PullNumber == 0 || m.state.Branch == "" {
			continue
		}
		pr, err := l.repo.PR(ghapp.WithPurpose(ctx, "family"), m.row.PullNumber)
		if err != nil && !errors.Is(err, ghapp.ErrNotFound) {
			return "", nil, err
		}
		if err == nil && pr.State == "open" {
			return m.state.Branch, append(slices.Clone(m.state.Atop), m.Number), nil
		}
	}
	return "", nil, nil
}

// without takes out what is said of issues of the same repository.
func without(names []string, numbers []int) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(numbers, func(n int) bool { return name == fmt.Sprintf("#%d", n) })
	})
}

// show brings the comment on the parent up to date.
func (l *leading) show(ctx context.Context, f *loop.Family) error {
	v := publish.Family{Stacked: f.Stacked, End: l.s.End}
	for _, m := range l.members {
		x := publish.Member{Name: m.Name, Pull: m.row.PullNumber, Skipped: m.Skipped, End: m.row.EndReason}
		switch {
		case m.begun() && awaits(m.state):
			x.Waits = m.state.Delayed.Subjects
		case m.begun():
			x.Working = m.working()
		default:
			x.Waits = l.blocked[m.Number]
		}
		v.Members = append(v.Members, x)
	}
	text := publish.FamilyText(v)
	sum := sha256.Sum256([]byte(text))
	if hash := hex.EncodeToString(sum[:]); hash != f.Shown {
		if err := l.r.comments.Keep(ctx, l.repo, l.row.ID, l.row.IssueNumber, "family", text); err != nil {
			return err
		}
		f.Shown = hash
		return l.save(ctx)
	}
	return nil
}

func (l *leading) save(ctx context.Context) error {
	l.s.Troubles = 0
	return l.r.save(ctx, l.row.ID, l.lease, *l.s)
}

// end ends the run, after people have been shown how.
func (l *leading) end(ctx context.Context, f *loop.Family, reason run.EndReason, detail string) (time.Duration, error) {
	l.s.End = reason
	if err := l.show(ctx, f); err != nil {
		return 0, err
	}
	*l.s = l.d.engine.EndFamily(*l.s, reason, cmp.Or(detail, l.s.EndDetail))
	if err := l.save(ctx); err != nil {
		return 0, err
	}
	l.d.engine.TellEnd(*l.s)
	l.r.retire(ctx, l.row.ID, l.d)
	row, err := l.r.cfg.Store.Run(ctx, l.row.ID)
	if err != nil {
		return 0, err
	}
	return l.r.takeUp(ctx, row, l.lease)
}

// leader is the run that a run which has ended was begun by, "" for none at work.
func (r *Reconciler) leader(ctx context.Context, id run.ID, s loop.State) (run.ID, error) {
	if s.Under == 0 || !s.Phase.Terminal() {
		return "", nil
	}
	row, err := r.cfg.Store.Run(ctx, id)
	if err != nil {
		return "", err
	}
	row, err = r.cfg.Store.ActiveRunByIssue(ctx, row.RepoNode, s.Under)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return row.ID, err
}
