package ghsim

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// as runs f with somebody, a repository and an issue looked up. What a bot may
// do is not asked: its App's permissions are for the APIs.
func (s *Sim) as(login, owner, name string, number int, least Role, f func(r *repo, i *issue, by author) error) error {
	_, err := inRepo(s, owner, name, func(r *repo) (none struct{}, err error) {
		u, err := s.userByLogin(login)
		if err != nil {
			return none, err
		}
		if err := may(r, u, least); err != nil {
			return none, err
		}
		var i *issue
		if number != 0 {
			if i, err = r.numbered(number); err != nil {
				return none, err
			}
		}
		return none, f(r, i, author{user: u, via: u.app})
	})
	return err
}

// CreateIssue opens an issue as a person.
func (s *Sim) CreateIssue(owner, name, login, title, body string, labels ...string) (Issue, error) {
	var out Issue
	err := s.as(login, owner, name, 0, RoleRead, func(r *repo, _ *issue, by author) error {
		if r.role(by.user).rank() < RoleTriage.rank() {
			labels = nil // GitHub drops them without a word
		}
		i, err := s.newIssue(r, by, title, body, labels)
		if err == nil {
			out = s.issueOut(r, i)
		}
		return err
	})
	return out, err
}

// AddLabel puts a label on an issue or pull request as a person, who needs the
// triage role; a label that is not there yet is made.
func (s *Sim) AddLabel(owner, name string, number int, login, label string) error {
	return s.as(login, owner, name, number, RoleTriage, func(r *repo, i *issue, by author) error {
		return s.addLabels(r, i, by, []string{label})
	})
}

// RemoveLabel takes a label off as a person.
func (s *Sim) RemoveLabel(owner, name string, number int, login, label string) error {
	return s.as(login, owner, name, number, RoleTriage, func(r *repo, i *issue, by author) error {
		return s.removeLabel(r, i, by, label)
	})
}

// Comment comments as a person.
func (s *Sim) Comment(owner, name string, number int, login, body string) (Comment, error) {
	var out Comment
	err := s.as(login, owner, name, number, RoleRead, func(r *repo, i *issue, by author) error {
		c, err := s.newComment(r, i, by, body)
		if err == nil {
			out = commentOut(c)
		}
		return err
	})
	return out, err
}

// RenameRepo calls a repository otherwise. Unlike on GitHub, nothing leads from
// the old name to the new one, and nobody is told.
func (s *Sim) RenameRepo(owner, name, login, newName string) error {
	return s.as(login, owner, name, 0, RoleAdmin, func(r *repo, _ *issue, _ author) error {
		if _, err := s.repoByName(owner, newName); err == nil {
			return invalid("Repository", "name", "custom", "name already exists on this account")
		}
		delete(s.repos, strings.ToLower(r.fullName()))
		r.name = newName
		s.repos[strings.ToLower(r.fullName())] = r
		return nil
	})
}

// EditComment changes a comment as its author or somebody with the write role.
func (s *Sim) EditComment(owner, name string, number int, id int64, login, body string) error {
	return s.withComment(owner, name, number, id, login, func(r *repo, i *issue, c *comment, by author) error {
		return s.editComment(r, i, c, by, body)
	})
}

// DeleteComment deletes a comment as its author or somebody with the write role.
func (s *Sim) DeleteComment(owner, name string, number int, id int64, login string) error {
	return s.withComment(owner, name, number, id, login, func(r *repo, i *issue, c *comment, by author) error {
		s.dropComment(r, i, c, by)
		return nil
	})
}

func (s *Sim) withComment(
	owner, name string, number int, id int64, login string, f func(*repo, *issue, *comment, author) error,
) error {
	return s.as(login, owner, name, number, RoleRead, func(r *repo, i *issue, by author) error {
		c, ok := find(i.comments, func(c *comment) bool { return c.id == id })
		if !ok {
			return notFound()
		}
		if by.user != c.user {
			if err := may(r, by.user, RoleWrite); err != nil {
				return err
			}
		}
		return f(r, i, c, by)
	})
}

// EditIssue changes title and body of an issue or pull request as its author
// or somebody with the write role; empty strings leave them.
func (s *Sim) EditIssue(owner, name string, number int, login, title, body string) error {
	return s.as(login, owner, name, number, RoleRead, func(r *repo, i *issue, by author) error {
		if by.user != i.user {
			if err := may(r, by.user, RoleWrite); err != nil {
				return err
			}
		}
		var newTitle, newBody *string
		if title != "" {
			newTitle = &title
		}
		if body != "" {
			newBody = &body
		}
		return s.editIssue(r, i, by, newTitle, newBody)
	})
}

// CloseIssue closes an issue or pull request as its author or somebody with
// the triage role.
func (s *Sim) CloseIssue(owner, name string, number int, login string) error {
	return s.setStateAs(owner, name, number, login, true)
}

// ReopenIssue opens a closed issue or pull request again.
func (s *Sim) ReopenIssue(owner, name string, number int, login string) error {
	return s.setStateAs(owner, name, number, login, false)
}

// LockIssue locks the conversation of an issue, or unlocks it, as somebody with the write role.
func (s *Sim) LockIssue(owner, name string, number int, login string, locked bool) error {
	return s.as(login, owner, name, number, RoleWrite, func(r *repo, i *issue, by author) error {
		if i.locked == locked {
			return nil
		}
		i.locked = locked
		action := "unlocked"
		if locked {
			action = "locked"
		}
		s.emitIssue(r, i, action, by.user, obj{})
		return nil
	})
}

// DeleteIssue takes an issue away for good, as somebody with the admin role.
func (s *Sim) DeleteIssue(owner, name string, number int, login string) error {
	return s.as(login, owner, name, number, RoleAdmin, func(r *repo, i *issue, by author) error {
		s.emitIssue(r, i, "deleted", by.user, obj{})
		i.gone, i.closed = true, true
		return nil
	})
}

// TransferIssue makes an issue one of another repository of the same owner, with the same labels, as
// somebody with the write role. Its old address leads to the new one.
func (s *Sim) TransferIssue(owner, name string, number int, login, to string) error {
	return s.as(login, owner, name, number, RoleWrite, func(r *repo, i *issue, by author) error {
		other, err := s.repoByName(owner, to)
		if err != nil {
			return err
		}
		if err := may(other, by.user, RoleWrite); err != nil {
			return err
		}
		var labels []string
		for _, l := range i.labels {
			labels = append(labels, l.name)
		}
		moved, err := s.newIssue(other, by, i.title, i.body, labels)
		if err != nil {
			return err
		}
		s.emitIssue(r, i, "transferred", by.user, obj{"changes": obj{
			"new_issue": s.issueJSON(other, moved), "new_repository": s.repoJSON(other),
		}})
		i.gone, i.closed, i.moved = true, true, s.api(other)+"/issues/"+strconv.Itoa(moved.number)
		return nil
	})
}

func (s *Sim) setStateAs(owner, name string, number int, login string, closed bool) error {
	return s.as(login, owner, name, number, RoleRead, func(r *repo, i *issue, by author) error {
		if by.user != i.user {
			if err := may(r, by.user, RoleTriage); err != nil {
				return err
			}
		}
		return s.setState(r, i, by, closed)
	})
}

// Push commits and pushes to a branch as a person, and returns the commit. It
// is not signed.
func (s *Sim) Push(owner, name, branch, login string, o PushOptions) (string, error) {
	var oid string
	err := s.as(login, owner, name, 0, RoleWrite, func(r *repo, _ *issue, by author) error {
		old, err := r.git.branch(branch)
		if errors.Is(err, errNoObject) {
			old = zeroOID
		} else if err != nil {
			return err
		}
		parent := old
		if old == zeroOID || o.Force {
			parent = zeroOID // the first commit of an empty repository
			if c, err := r.git.resolve(cmp.Or(o.From, r.def)); err == nil {
				parent = c.OID
			} else if !errors.Is(err, errNoObject) {
				return err
			}
		}
		now := s.now()
		c := commitObject{
			Author: by.user.person(now), Committer: by.user.person(now), Message: cmp.Or(o.Message, "Update") + "\n",
		}
		base := ""
		if parent != zeroOID {
			p, err := r.git.commit(parent)
			if err != nil {
				return err
			}
			base, c.Parents = p.Tree, []string{parent}
		}
		changes, err := r.git.additions(o.Files, func(path string) string {
			if e, err := r.git.entry(base, path); err == nil && e.Mode != modeTree {
				return e.Mode
			}
			return modeFile
		})
		if err != nil {
			return err
		}
		for _, path := range o.Delete {
			changes = append(changes, change{Path: path})
		}
		if c.Tree, err = r.git.writeTree(base, changes); err != nil {
			return err
		}
		if oid, err = r.git.writeCommit(c); err != nil {
			return err
		}
		return s.moveRef(r, by, "refs/heads/"+branch, oid, old)
	})
	return oid, err
}

// RenameBranch renames a branch as a person: pull requests into it go into the new one.
func (s *Sim) RenameBranch(owner, name, branch, login, newName string) error {
	return s.as(login, owner, name, 0, RoleAdmin, func(r *repo, _ *issue, by author) error {
		tip, err := r.git.branch(branch)
		if err != nil {
			return err
		}
		if r.def == branch {
			r.def = newName
			if err := r.git.writeFile("HEAD", []byte("ref: refs/heads/"+newName+"\n")); err != nil {
				return err
			}
		}
		if err := s.moveRef(r, by, "refs/heads/"+newName, tip, zeroOID); err != nil {
			return err
		}
		for _, i := range r.issues {
			if i.pull != nil && i.pull.base == branch {
				i.pull.base = newName
			}
		}
		return s.moveRef(r, by, "refs/heads/"+branch, zeroOID, tip)
	})
}

// DeleteBranch deletes a branch as a person.
func (s *Sim) DeleteBranch(owner, name, branch, login string) error {
	return s.as(login, owner, name, 0, RoleWrite, func(r *repo, _ *issue, by author) error {
		old, err := r.git.branch(branch)
		if err != nil {
			return err
		}
		return s.moveRef(r, by, "refs/heads/"+branch, zeroOID, old)
	})
}

// Review reviews a pull request as a person. State is APPROVED,
// CHANGES_REQUESTED or COMMENTED.
func (s *Sim) Review(owner, name string, number int, login, state, body string, lines ...ReviewLine) (Review, error) {
	var out Review
	err := s.as(login, owner, name, number, RoleRead, func(r *repo, i *issue, by author) error {
		if i.pull == nil {
			return notFound()
		}
		rv, err := s.newReview(r, i, by, state, body, lines)
		if err == nil {
			out = s.reviewOut(r, i, rv)
		}
		return err
	})
	return out, err
}

// Reply answers in a conversation, named by any of its comments, as a person.
func (s *Sim) Reply(owner, name string, number int, login string, comment int64, body string) (ReviewLine, error) {
	var out ReviewLine
	err := s.inThread(owner, name, number, login, comment, RoleRead, func(r *repo, i *issue, t *thread, by author) error {
		if err := checkText("PullRequestReviewComment", "", body); err != nil {
			return err
		}
		c := s.addReviewComment(r, i, t, s.addReview(r, i, by, "COMMENTED", ""), by, body)
		out = ReviewLine{
			ID: c.id, Thread: nodeID("PRRT", t.id), Path: t.path, Line: t.line, StartLine: t.start, Commit: t.commit,
			Body: c.body, User: login,
		}
		return nil
	})
	return out, err
}

// ResolveThread resolves a conversation, named by any of its comments, as a
// person, or opens it again.
func (s *Sim) ResolveThread(owner, name string, number int, login string, comment int64, resolved bool) error {
	return s.inThread(owner, name, number, login, comment, RoleWrite, func(r *repo, i *issue, t *thread, by author) error {
		s.setResolved(r, i, t, by, resolved)
		return nil
	})
}

func (s *Sim) inThread(
	owner, name string, number int, login string, comment int64, least Role, f func(*repo, *issue, *thread, author) error,
) error {
	return s.as(login, owner, name, number, least, func(r *repo, i *issue, by author) error {
		if i.pull == nil {
			return notFound()
		}
		t, ok := find(i.pull.threads, func(t *thread) bool {
			return slices.ContainsFunc(t.comments, func(c *reviewComment) bool { return c.id == comment })
		})
		if !ok {
			return notFound()
		}
		return f(r, i, t, by)
	})
}

// CompleteCheck has another App's check of a branch's head end, and with it that
// App's suite.
func (s *Sim) CompleteCheck(owner, name, branch string, appID int64, check CheckRun) error {
	_, err := inRepo(s, owner, name, func(r *repo) (none struct{}, err error) {
		a, err := s.appByID(appID)
		if err != nil {
			return none, err
		}
		head, err := r.git.branch(branch)
		if err != nil {
			return none, err
		}
		ch := &checkRun{
			id: s.nextID(), app: a, name: check.Name, headOID: head, status: "completed", conclusion: check.Conclusion,
			title: check.Title, summary: check.Summary, text: check.Text, started: s.now(), completed: s.now(),
			suiteID: s.nextID(),
		}
		r.checks = append(r.checks, ch)
		s.emit(r, "check_suite", "completed", a.bot, obj{"check_suite": s.suiteJSON(ch, branch)})
		return none, nil
	})
	return err
}

// ConvertToDraft makes a pull request a draft again, as a person.
func (s *Sim) ConvertToDraft(owner, name string, number int, login string) error {
	return s.as(login, owner, name, number, RoleWrite, func(r *repo, i *issue, by author) error {
		if i.pull == nil {
			return notFound()
		}
		s.setDraft(r, i, by, true)
		return nil
	})
}

// Merge merges a pull request as a person.
func (s *Sim) Merge(owner, name string, number int, login string) error {
	return s.as(login, owner, name, number, RoleWrite, func(r *repo, i *issue, by author) error {
		if i.pull == nil {
			return notFound()
		}
		return s.merge(r, i, by)
	})
}
