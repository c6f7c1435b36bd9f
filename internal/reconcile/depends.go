package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/store"
)

const (
	// dependsPause is the pause between two looks at what a run waits for. The webhook of
	// an issue that is closed wakes it at once; this is for those that do not come, and
	// for a relation that is taken away, of which the App is not told.
	dependsPause = 5 * time.Minute
	// maxDepends bounds the issues that are read in search of a circle.
	maxDepends = 50
)

// awaitIssues has a run that has not begun wait until the issues that its own depends on
// are closed; wait is when to look again, 0 for no wait. Work that people can see already
// is not held up.
func (r *Reconciler) awaitIssues(ctx context.Context, row store.Run, lease store.Lease, d *driver,
	s loop.State) (_ loop.State, wait time.Duration, err error) {
	if !s.Untouched() || s.CancelRequested || row.PullNumber > 0 {
		return s, 0, nil
	}
	repo := r.cfg.GitHub.Repo(row.Installation, row.RepoOwner, row.RepoName)
	on, err := r.depends(ctx, row, s.Plan)
	if err != nil {
		return s, 0, err
	}
	on.Open = without(on.Open, s.Atop)
	if text := publish.DependsText(on, r.cfg.ByJob, r.comments.Label); text != "" && !awaits(s) {
		if err := r.comments.Comment(ctx, repo, row.IssueNumber, "depends:"+string(row.ID), text); err != nil {
			return s, 0, err
		}
	}
	if len(on.Open) == 0 {
		return s, 0, nil
	}
	why := "it waits for " + strings.Join(on.Open, ", ")
	if r.cfg.ByJob {
		return d.engine.AwaitPerson(s, why+", and a job cannot wait"), 0, nil
	}
	subjects := subjectsOf(row, on.Open)
	if !awaits(s) || !slices.Equal(s.Delayed.Subjects, subjects) {
		s = d.engine.Await(s, why, subjects)
		if err := r.save(ctx, row.ID, lease, s); err != nil {
			return s, 0, err
		}
	}
	return s, dependsPause, nil
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

// depends says what the issue of a run depends on: what GitHub has it blocked by, and what
// the text that is worked names.
func (r *Reconciler) depends(ctx context.Context, row store.Run, p plan.Plan) (publish.Dependencies, error) {
	l := look{r: r, row: row, ctx: ghapp.WithPurpose(ctx, "depends"), met: map[string]bool{}}
	self := subject{Owner: row.RepoOwner, Repo: row.RepoName, Number: row.IssueNumber}
	on, unread, err := l.behind(self, p.Waits)
	var out publish.Dependencies
	for _, at := range on {
		if at.state != "open" {
			continue
		}
		circular := at.ref.key() == self.key()
		if !circular {
			if circular, err = l.leadsTo(at, self); err != nil {
				return out, err
			}
		}
		if circular {
			out.Circular = append(out.Circular, l.name(at.ref))
		} else {
			out.Open = append(out.Open, l.name(at.ref))
		}
	}
	for _, ref := range unread {
		out.Unread = append(out.Unread, l.name(ref))
	}
	return out, err
}

// subject is an issue of any repository.
type subject plan.IssueRef

func (s subject) key() string {
	return strings.ToLower(fmt.Sprintf("%s/%s#%d", s.Owner, s.Repo, s.Number))
}

// found is an issue that another depends on.
type found struct {
	ref   subject
	state string
	// waits are the issues that its text names, none unless a person has approved that.
	waits []plan.IssueRef
}

// look follows dependencies for one run.
type look struct {
	r   *Reconciler
	row store.Run
	ctx context.Context //nolint:containedctx // it lives for one question
	// met are the issues that were followed.
	met map[string]bool
}

// name is the issue as it is called in the run's repository.
func (l *look) name(s subject) string {
	if strings.EqualFold(s.Owner, l.row.RepoOwner) && strings.EqualFold(s.Repo, l.row.RepoName) {
		s.Owner, s.Repo = "", ""
	}
	return plan.IssueRef(s).String()
}

// behind gives the issues that one depends on; waits are those that its text names.
// unread are those that the App cannot read.
func (l *look) behind(of subject, waits []plan.IssueRef) (on []found, unread []subject, err error) {
	repo := l.r.cfg.GitHub.Repo(l.row.Installation, of.Owner, of.Repo)
	related, err := repo.BlockedBy(l.ctx, of.Number)
	if err != nil {
		return nil, nil, err
	}
	known := map[string]bool{}
	for _, i := range related {
		at := subject{Owner: i.Owner, Repo: i.Repo, Number: i.Number}
		known[at.key()] = true
		on = append(on, l.found(at, i.Issue))
	}
	for _, ref := range waits {
		at := subject(ref)
		if at.Repo == "" {
			at.Owner, at.Repo = of.Owner, of.Repo
		}
		if known[at.key()] {
			continue
		}
		known[at.key()] = true
		issue, err := l.r.cfg.GitHub.Repo(l.row.Installation, at.Owner, at.Repo).Issue(l.ctx, at.Number)
		switch {
		case err == nil:
			on = append(on, l.found(at, issue))
		case isBarred(err):
			unread = append(unread, at)
		default:
			return nil, nil, err
		}
	}
	return on, unread, nil
}

// isBarred says whether GitHub will not let the App read something, however often it asks.
func isBarred(err error) bool {
	switch class, _ := ghapp.Classify(err); class { //nolint:exhaustive // others may pass
	case ghapp.NotFound, ghapp.Forbidden, ghapp.Invalid, ghapp.Unauthorised:
		return true
	default:
		return false
	}
}

func (l *look) found(at subject, issue ghapp.Issue) found {
	f := found{ref: at, state: issue.State}
	if !delivery.HasLabel(issue, l.r.comments.Label) {
		return f
	}
	if p, err := plan.FromIssue(issue.Title, issue.Body); err == nil {
		f.waits = p.Waits
	}
	return f
}

// leadsTo says whether an issue depends, by way of whatever is open, on another one.
func (l *look) leadsTo(from found, to subject) (bool, error) {
	if l.met[from.ref.key()] || len(l.met) == maxDepends {
		return false, nil
	}
	l.met[from.ref.key()] = true
	on, _, err := l.behind(from.ref, from.waits)
	if err != nil && !isBarred(err) {
		return false, err
	}
	for _, next := range on {
		if next.state != "open" {
			continue
		}
		if next.ref.key() == to.key() {
			return true, nil
		}
		if leads, err := l.leadsTo(next, to); err != nil || leads {
			return leads, err
		}
	}
	return false, nil
}
