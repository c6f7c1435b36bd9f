package ghsim

import (
	"net/http"
	"slices"
)

// placed is an issue and the repository that it is in: relations reach into others.
type placed struct {
	repo  *repo
	issue *issue
}

// maxSubIssues is how many sub-issues GitHub lets one issue have.
const maxSubIssues = 100

// AddSubIssue makes an issue, of any repository, the last sub-issue of another, as a
// person with the triage role there.
func (s *Sim) AddSubIssue(owner, name string, number int, login, subOwner, subName string, sub int) error {
	return s.relate(owner, name, number, login, subOwner, subName, sub, func(to *issue, at placed) error {
		switch {
		case at.issue.parent != nil:
			return invalid("Issue", "sub_issue_id", "custom", "Sub issue may only have one parent")
		case at.issue == to, len(to.subs) == maxSubIssues:
			return invalid("Issue", "sub_issue_id", "invalid", "")
		}
		to.subs = append(to.subs, at)
		at.issue.parent = to
		return nil
	})
}

// BlockIssue has an issue wait for one of any repository, as a person with the triage
// role there.
func (s *Sim) BlockIssue(owner, name string, number int, login, byOwner, byName string, by int) error {
	return s.relate(owner, name, number, login, byOwner, byName, by, func(to *issue, at placed) error {
		if at.issue == to || slices.Contains(to.blockedBy, at) {
			return invalid("Issue", "issue_id", "invalid", "")
		}
		to.blockedBy = append(to.blockedBy, at)
		return nil
	})
}

func (s *Sim) relate(
	owner, name string, number int, login, otherOwner, otherName string, other int, f func(to *issue, at placed) error,
) error {
	return s.as(login, owner, name, number, RoleTriage, func(_ *repo, i *issue, _ author) error {
		r, at, err := s.issueByNumber(otherOwner, otherName, other)
		if err != nil {
			return err
		}
		if err := f(i, placed{r, at}); err != nil {
			return err
		}
		i.updated = s.now()
		return nil
	})
}

func (s *Sim) listSubIssues(c *call) (int, any, error) {
	i, err := c.issueOf()
	if err != nil {
		return 0, nil, err
	}
	return s.listPlaced(c, i.subs)
}

func (s *Sim) listBlockedBy(c *call) (int, any, error) {
	i, err := c.issueOf()
	if err != nil {
		return 0, nil, err
	}
	return s.listPlaced(c, i.blockedBy)
}

// listPlaced lists the issues that the caller can see.
func (s *Sim) listPlaced(c *call, all []placed) (int, any, error) {
	seen := slices.DeleteFunc(slices.Clone(all), func(p placed) bool {
		return p.repo.private && (c.who.tok != nil && !slices.Contains(c.who.tok.repos, p.repo) ||
			c.who.tok == nil && p.repo.role(c.who.user).rank() < RoleRead.rank())
	})
	list := []obj{}
	for _, p := range paginate(c, s.base, seen) {
		list = append(list, s.issueJSON(p.repo, p.issue))
	}
	return http.StatusOK, list, nil
}

// relationsJSON counts the relations of an issue.
func relationsJSON(i *issue) (subs, dependencies obj) {
	closed := func(p placed) bool { return p.issue.closed }
	total, open := len(i.subs), len(slices.DeleteFunc(slices.Clone(i.subs), closed))
	percent := 0
	if total > 0 {
		percent = 100 * (total - open) / total
	}
	blocked := len(slices.DeleteFunc(slices.Clone(i.blockedBy), closed))
	return obj{"total": total, "completed": total - open, "percent_completed": percent},
		obj{"blocked_by": blocked, "blocking": 0, "total_blocked_by": len(i.blockedBy), "total_blocking": 0}
}
