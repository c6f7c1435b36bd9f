package reconcile

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/store"
	"github.com/org/ralph-action/internal/store/queue"
)

// dependsPause is the pause between two looks at what a run waits for. The webhook of
// an issue that is closed wakes it at once; this is for those that do not come, and
// for a relation that is taken away, of which the App is not told.
const dependsPause = 5 * time.Minute

// awaitIssues has a run that has not begun wait until the issues that its own depends on
// are closed; wait is when to look again, 0 for no wait. Work that people can see already
// is not held up.
func (r *Reconciler) awaitIssues(ctx context.Context, row store.Run, lease store.Lease, d *driver,
	s loop.State) (_ loop.State, wait time.Duration, err error) {
	if !s.Untouched() || s.CancelRequested || row.PullNumber > 0 {
		return s, 0, nil
	}
	if left := d.looksIn(ctx, r.cfg.Now()); left > 0 {
		if d.clear {
			left = 0
		}
		return s, left, nil
	}
	repo := r.cfg.GitHub.Repo(row.Installation, row.RepoOwner, row.RepoName)
	on, err := r.starter.Depends(ctx, delivery.RunRequest{Subject: subjectOf(row, row.IssueNumber), Plan: s.Plan})
	if err != nil {
		return s, 0, err
	}
	d.failing = time.Time{}
	on.Open = without(on.Open, s.Atop)
	if text := publish.DependsText(on, r.cfg.ByJob, r.comments.Label); text != "" && !awaits(s) {
		if err := r.comments.Comment(ctx, repo, row.IssueNumber, "depends:"+string(row.ID), text); err != nil {
			return s, 0, err
		}
	}
	wait = dependsPause
	if queue.Woken(ctx) {
		wait = familyPause // GitHub may not show yet what it has just told
	}
	if len(on.Open) == 0 {
		if awaits(s) { // it may have waited for long
			why, err := r.barred(ctx, repo, row, s)
			if err != nil {
				return s, 0, err
			}
			if why != "" {
				return d.engine.Fail(s, why), 0, nil
			}
		}
		d.look, d.clear = r.cfg.Now().Add(dependsPause), true
		return s, 0, nil
	}
	why := "it waits for " + strings.Join(on.Open, ", ")
	if r.cfg.ByJob {
		return d.engine.AwaitPerson(s, why+", and a job cannot wait"), 0, nil
	}
	subjects := subjectsOf(row, on.Open)
	if !awaits(s) || !slices.Equal(s.Delayed.Subjects, subjects) || s.Troubles > 0 {
		s = d.engine.Await(s, why, subjects)
		s.Troubles = 0
		if err := r.save(ctx, row.ID, lease, s); err != nil {
			return s, 0, err
		}
	}
	d.look, d.clear = r.cfg.Now().Add(wait), false
	return s, wait, nil
}

// barred says why what a person asked for some time ago is not begun now: they may no
// longer write to the repository. It is "" where they may.
func (r *Reconciler) barred(ctx context.Context, repo *ghapp.Repo, row store.Run, s loop.State) (why string, err error) {
	by := s.Subject.RequestedBy
	may, err := r.authorizer.Permission(ctx, repo, row.RepoNode, by)
	if err != nil || may.CanWrite {
		return "", err
	}
	return by + " may no longer write to this repository", nil
}

// looksIn is how long it is until GitHub is to be asked again what a run waits for, 0 for
// now. A signal has it asked at once, and so does a look that failed.
func (d *driver) looksIn(ctx context.Context, now time.Time) time.Duration {
	if left := d.look.Sub(now); left > 0 && left <= dependsPause && !queue.Woken(ctx) {
		return left
	}
	d.look = time.Time{}
	return 0
}

// subjectsOf are issues, as they are called in a run's repository, as loop.Delayed has them.
func subjectsOf(row store.Run, names []string) []string {
	subjects := make([]string, len(names))
	for i, name := range names {
		if strings.HasPrefix(name, "#") {
			name = row.RepoOwner + "/" + row.RepoName + name
		}
		subjects[i] = strings.ToLower(name)
	}
	return subjects
}

func awaits(s loop.State) bool { return s.Delayed != nil && len(s.Delayed.Subjects) > 0 }

// subjectOf is an issue of a run's repository.
func subjectOf(row store.Run, issue int) handlers.Subject {
	return handlers.Subject{
		Owner: row.RepoOwner, Repo: row.RepoName, RepoNode: row.RepoNode, Installation: row.Installation, Issue: issue,
	}
}
