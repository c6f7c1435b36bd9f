package delivery

import (
	"context"
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/publish"
)

// maxDepends bounds the issues that are read in search of a circle.
const maxDepends = 50

// Depends says what an issue depends on: what GitHub has it blocked by, and what the plan
// of it names.
func (r *Receiver) Depends(ctx context.Context, w RunRequest) (publish.Dependencies, error) {
	l := look{r: r, in: w.Subject, ctx: ghapp.WithPurpose(ctx, "depends"), met: map[string]bool{}}
	self := subject{Owner: w.Owner, Repo: w.Repo, Number: w.Issue}
	on, unread, err := l.behind(self, w.Plan.Waits)
	var out publish.Dependencies
	for _, at := range on {
		if at.state != "open" {
			continue
		}
		circular, err := l.leadsTo(at, self)
		if err != nil {
			return out, err
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

// look follows dependencies for one issue.
type look struct {
	r   *Receiver
	in  handlers.Subject
	ctx context.Context //nolint:containedctx // it lives for one question
	// met are the issues that were followed, and whether they lead to the first one.
	met map[string]bool
}

// name is the issue as it is called in the repository of the first.
func (l *look) name(s subject) string {
	if strings.EqualFold(s.Owner, l.in.Owner) && strings.EqualFold(s.Repo, l.in.Repo) {
		s.Owner, s.Repo = "", ""
	}
	return plan.IssueRef(s).String()
}

// behind gives the issues that one depends on; waits are those that its text names.
// unread are those that the App cannot read.
func (l *look) behind(of subject, waits []plan.IssueRef) (on []found, unread []subject, err error) {
	repo := l.r.GitHub.Repo(l.in.Installation, of.Owner, of.Repo)
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
		issue, err := l.r.GitHub.Repo(l.in.Installation, at.Owner, at.Repo).Issue(l.ctx, at.Number)
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
	if !l.r.hasLabel(issue) {
		return f
	}
	if p, err := plan.FromIssue(issue.Title, issue.Body); err == nil {
		f.waits = p.Waits
	}
	return f
}

// leadsTo says whether an issue is another one, or depends on it by way of whatever is open.
func (l *look) leadsTo(from found, to subject) (bool, error) {
	key := from.ref.key()
	if key == to.key() {
		return true, nil
	}
	if leads, met := l.met[key]; met || len(l.met) == maxDepends {
		return leads, nil
	}
	l.met[key] = false
	on, _, err := l.behind(from.ref, from.waits)
	if err != nil && !isBarred(err) {
		return false, err
	}
	for _, next := range on {
		if next.state != "open" {
			continue
		}
		if leads, err := l.leadsTo(next, to); err != nil || leads {
			l.met[key] = leads
			return leads, err
		}
	}
	return false, nil
}
