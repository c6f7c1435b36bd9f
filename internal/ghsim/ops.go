package ghsim

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/strs"
)

// The functions of this file change the model, apply GitHub's rules and cause
// the webhooks. They are behind both the APIs and the Go methods, and run with
// Sim.mu held.

// author is who does something: a person, or an App through its bot.
type author struct {
	user *user
	via  *app
}

// may refuses a person whose role in r is below least.
func may(r *repo, u *user, least Role) error {
	if u.kind != "Bot" && r.role(u).rank() < least.rank() {
		return &Error{
			Status: http.StatusForbidden, Message: "Must have " + string(least) + " access to the repository",
			Detail: u.login + " is " + string(r.role(u)) + " in " + r.fullName(),
		}
	}
	return nil
}

func checkText(resource, title, body string) error {
	e := &Error{Status: http.StatusUnprocessableEntity, Message: "Validation Failed"}
	if tooLong(title, maxTitle) {
		e.Fields = append(e.Fields, FieldError{
			Resource: resource, Code: "custom", Field: "title",
			Message: fmt.Sprintf("title is too long (maximum is %d characters)", maxTitle),
		})
	}
	if tooLong(body, maxBody) {
		e.Fields = append(e.Fields, FieldError{
			Resource: resource, Code: "custom", Field: "body",
			Message: fmt.Sprintf("body is too long (maximum is %d characters)", maxBody),
		})
	}
	if len(e.Fields) > 0 {
		return e
	}
	return nil
}

func (s *Sim) newIssue(r *repo, by author, title, body string, labels []string) (*issue, error) {
	if strings.TrimSpace(title) == "" {
		return nil, invalid("Issue", "title", "missing_field", "")
	}
	if err := checkText("Issue", title, body); err != nil {
		return nil, err
	}
	now := s.now()
	i := &issue{
		id: s.nextID(), number: len(r.issues) + 1, title: title, body: body, user: by.user, via: by.via,
		created: now, updated: now,
	}
	r.issues = append(r.issues, i)
	s.emit(r, "issues", "opened", by.user, obj{"issue": s.issueJSON(r, i)})
	if len(labels) > 0 {
		if err := s.addLabels(r, i, by, labels); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// editIssue changes title and body; nil leaves one as it is.
func (s *Sim) editIssue(r *repo, i *issue, by author, title, body *string) error {
	changes := obj{}
	newTitle, newBody := i.title, i.body
	if title != nil && *title != i.title {
		newTitle = *title
		changes["title"] = obj{"from": i.title}
	}
	if body != nil && *body != i.body {
		newBody = *body
		changes["body"] = obj{"from": i.body}
	}
	resource := "Issue"
	if i.pull != nil {
		resource = "PullRequest"
	}
	if strings.TrimSpace(newTitle) == "" {
		return invalid(resource, "title", "missing_field", "")
	}
	if err := checkText(resource, newTitle, newBody); err != nil {
		return err
	}
	if len(changes) == 0 {
		return nil
	}
	now := s.now()
	if newTitle != i.title {
		s.addEvent(i, by, event{kind: "renamed", from: i.title, to: newTitle})
	}
	i.title, i.body, i.updated = newTitle, newBody, now
	s.emitIssue(r, i, "edited", by.user, obj{"changes": changes})
	return nil
}

// addEvent puts what somebody did on the timeline.
func (s *Sim) addEvent(i *issue, by author, e event) {
	e.actor, e.at = by.user, s.now()
	i.events = append(i.events, &e)
}

// emitIssue tells of an issue as `issues` and of a pull request as
// `pull_request`.
func (s *Sim) emitIssue(r *repo, i *issue, action string, sender *user, extra obj) {
	if i.pull == nil {
		extra["issue"] = s.issueJSON(r, i)
		s.emit(r, "issues", action, sender, extra)
		return
	}
	extra["number"] = i.number
	extra["pull_request"] = s.pullJSON(r, i)
	s.emit(r, "pull_request", action, sender, extra)
}

// setState closes or reopens.
func (s *Sim) setState(r *repo, i *issue, by author, closed bool) error {
	if closed == i.closed {
		return nil
	}
	if i.pull != nil && !closed {
		if i.pull.merged {
			return invalid("PullRequest", "state", "invalid",
				"state cannot be changed. The pull request has already been merged.")
		}
		if _, err := r.git.branch(i.pull.head); err != nil {
			return invalid("PullRequest", "state", "invalid", "state cannot be changed. The "+i.pull.head+
				" branch has been deleted.")
		}
	}
	i.closed, i.updated = closed, s.now()
	kind := "reopened"
	if closed {
		kind = "closed"
	}
	s.addEvent(i, by, event{kind: kind})
	s.emitIssue(r, i, kind, by.user, obj{})
	return nil
}

// ensureLabel finds a label or makes it, as GitHub does when an unknown one is
// put on an issue.
func (s *Sim) ensureLabel(r *repo, name string) *label {
	if l := r.label(name); l != nil {
		return l
	}
	l := &label{id: s.nextID(), name: name, color: "ededed"}
	r.labels = append(r.labels, l)
	return l
}

func (s *Sim) addLabels(r *repo, i *issue, by author, names []string) error {
	for _, name := range names {
		if strings.TrimSpace(name) == "" || tooLong(name, 50) {
			return invalid("Label", "name", "invalid", "")
		}
	}
	for _, name := range names {
		if i.hasLabel(name) {
			continue
		}
		l := s.ensureLabel(r, name)
		now := s.now()
		i.labels = append(i.labels, l)
		i.updated = now
		s.addEvent(i, by, event{kind: "labeled", label: l})
		s.emitIssue(r, i, "labeled", by.user, obj{"label": s.labelJSON(r, l)})
	}
	return nil
}

func (s *Sim) removeLabel(r *repo, i *issue, by author, name string) error {
	at := slices.IndexFunc(i.labels, func(l *label) bool { return strings.EqualFold(l.name, name) })
	if at < 0 {
		return &Error{Status: http.StatusNotFound, Message: "Label does not exist"}
	}
	l, now := i.labels[at], s.now()
	i.labels = slices.Delete(slices.Clone(i.labels), at, at+1)
	i.updated = now
	s.addEvent(i, by, event{kind: "unlabeled", label: l})
	s.emitIssue(r, i, "unlabeled", by.user, obj{"label": s.labelJSON(r, l)})
	return nil
}

func (s *Sim) newComment(r *repo, i *issue, by author, body string) (*comment, error) {
	if strings.TrimSpace(body) == "" {
		return nil, invalid("IssueComment", "body", "unprocessable", "Body can't be blank")
	}
	if err := checkText("IssueComment", "", body); err != nil {
		return nil, err
	}
	if i.locked && by.via == nil && r.role(by.user).rank() < RoleWrite.rank() {
		return nil, &Error{Status: http.StatusForbidden, Message: "Unable to create comment because issue is locked"}
	}
	now := s.now()
	c := &comment{id: s.nextID(), user: by.user, via: by.via, body: body, created: now, updated: now}
	i.comments = append(i.comments, c)
	i.updated = now
	s.emit(r, "issue_comment", "created", by.user, obj{"issue": s.issueJSON(r, i), "comment": s.commentJSON(r, i, c)})
	return c, nil
}

func (s *Sim) editComment(r *repo, i *issue, c *comment, by author, body string) error {
	if strings.TrimSpace(body) == "" {
		return invalid("IssueComment", "body", "unprocessable", "Body can't be blank")
	}
	if err := checkText("IssueComment", "", body); err != nil {
		return err
	}
	if body == c.body {
		return nil
	}
	from := c.body
	c.body, c.updated = body, s.now()
	s.emit(r, "issue_comment", "edited", by.user,
		obj{"issue": s.issueJSON(r, i), "comment": s.commentJSON(r, i, c), "changes": obj{"body": obj{"from": from}}})
	return nil
}

// dropComment deletes a comment.
func (s *Sim) dropComment(r *repo, i *issue, cm *comment, by author) {
	i.comments = slices.DeleteFunc(slices.Clone(i.comments), func(c *comment) bool { return c == cm })
	i.updated = s.now()
	s.emit(r, "issue_comment", "deleted", by.user, obj{"issue": s.issueJSON(r, i), "comment": s.commentJSON(r, i, cm)})
}

// reactionContents are the eight of GitHub, in its order.
func reactionContents() []string {
	return []string{"+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"}
}

// react adds a reaction; the same one by the same user is found, not doubled.
func (s *Sim) react(list *[]*reaction, u *user, content string) (_ *reaction, created bool, err error) {
	if !slices.Contains(reactionContents(), content) {
		return nil, false, invalid("Reaction", "content", "invalid", "")
	}
	for _, have := range *list {
		if have.user == u && have.content == content {
			return have, false, nil
		}
	}
	re := &reaction{id: s.nextID(), user: u, content: content, created: s.now()}
	*list = append(*list, re)
	return re, true, nil
}

// newPull opens a pull request between two branches of r.
func (s *Sim) newPull(r *repo, by author, title, body, head, base string, draft bool) (*issue, error) {
	if owner, branch, ok := strings.Cut(head, ":"); ok {
		if !strings.EqualFold(owner, r.owner.login) {
			return nil, invalid("PullRequest", "head", "invalid", "")
		}
		head = branch
	}
	if strings.TrimSpace(title) == "" {
		return nil, invalid("PullRequest", "title", "missing_field", "")
	}
	if err := checkText("PullRequest", title, body); err != nil {
		return nil, err
	}
	headOID, err := r.git.branch(head)
	if errors.Is(err, errNoObject) {
		return nil, invalid("PullRequest", "head", "invalid", "")
	} else if err != nil {
		return nil, err
	}
	baseOID, err := r.git.branch(base)
	if errors.Is(err, errNoObject) {
		return nil, invalid("PullRequest", "base", "invalid", "")
	} else if err != nil {
		return nil, err
	}
	for _, i := range r.issues {
		if i.pull != nil && !i.closed && i.pull.head == head && i.pull.base == base {
			return nil, invalid("PullRequest", "", "custom", "A pull request already exists for "+r.owner.login+":"+head+".")
		}
	}
	commits, err := r.git.log(headOID, baseOID)
	if err != nil {
		return nil, err
	}
	if len(commits) == 0 {
		return nil, invalid("PullRequest", "", "custom", "No commits between "+base+" and "+head)
	}
	now := s.now()
	i := &issue{
		id: s.nextID(), number: len(r.issues) + 1, title: title, body: body, user: by.user, via: by.via, created: now,
		updated: now,
		pull: &pull{
			id: s.nextID(), head: head, base: base, headOID: headOID, baseOID: baseOID, draft: draft,
			arrived: map[string]time.Time{},
		},
	}
	if err := s.pullRef(r, i); err != nil {
		return nil, err
	}
	r.issues = append(r.issues, i)
	s.emitIssue(r, i, "opened", by.user, obj{})
	return i, nil
}

// pullRef keeps refs/pull/N/head at the pull request's head, and the list of
// its commits, which outlives the branch.
func (s *Sim) pullRef(r *repo, i *issue) error {
	p := i.pull
	name := "refs/pull/" + strconv.Itoa(i.number) + "/head"
	if err := r.git.setRef(name, p.headOID); err != nil {
		return err
	}
	commits, err := r.git.log(p.headOID, p.baseOID)
	if err != nil {
		return err
	}
	p.commits = p.commits[:0]
	for _, c := range slices.Backward(commits) {
		p.commits = append(p.commits, c.OID)
		if _, ok := p.arrived[c.OID]; !ok {
			p.arrived[c.OID] = s.now()
		}
	}
	return nil
}

func (s *Sim) setDraft(r *repo, i *issue, by author, draft bool) {
	if i.pull.draft == draft {
		return
	}
	i.pull.draft, i.updated = draft, s.now()
	kind, action := "ready_for_review", "ready_for_review"
	if draft {
		kind, action = "convert_to_draft", "converted_to_draft"
	}
	s.addEvent(i, by, event{kind: kind})
	s.emitIssue(r, i, action, by.user, obj{})
}

// closes finds the closing keywords of GitHub: "Closes #7", "fixes: #8".
var closes = strs.Lazy(`(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+#(\d+)\b`)

// merge merges a pull request by a merge commit.
func (s *Sim) merge(r *repo, i *issue, by author) error {
	p := i.pull
	notMergeable := &Error{Status: http.StatusMethodNotAllowed, Message: "Pull Request is not mergeable"}
	switch {
	case p.merged || i.closed:
		return notMergeable
	case p.draft:
		return &Error{Status: http.StatusMethodNotAllowed, Message: "Pull Request is still a draft"}
	}
	base, err := r.git.branch(p.base)
	if err != nil {
		return err
	}
	tree, err := r.git.mergeTrees(s.life, base, p.headOID)
	if err != nil {
		return err
	}
	if tree == "" {
		return notMergeable
	}
	now := s.now()
	oid, err := r.git.writeCommit(commitObject{
		Tree: tree, Parents: []string{base, p.headOID}, Author: by.user.person(now), Committer: webFlow(now),
		Message: fmt.Sprintf("Merge pull request #%d from %s/%s\n\n%s", i.number, r.owner.login, p.head, i.title),
	})
	if err != nil {
		return err
	}
	r.signed[oid] = by.user
	// Merged before the base branch moves, so that the move does not count as news for this pull request.
	p.merged, p.mergedAt, i.closed, i.updated = true, now, true, now
	if err := s.moveRef(r, by, "refs/heads/"+p.base, oid, base); err != nil {
		return err
	}
	s.addEvent(i, by, event{kind: "merged", commit: oid})
	s.addEvent(i, by, event{kind: "closed"})
	s.emitIssue(r, i, "closed", by.user, obj{})
	if p.base == r.def {
		return s.closeMentioned(r, by, i.body)
	}
	return nil
}

// closeMentioned closes the issues that text closes by keyword.
func (s *Sim) closeMentioned(r *repo, by author, text string) error {
	for _, m := range closes().FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			continue // more digits than an issue number has
		}
		target := r.issue(n)
		if target == nil || target.pull != nil || target.closed {
			continue
		}
		if err := s.setState(r, target, by, true); err != nil {
			return err
		}
	}
	return nil
}

// moveRef creates (oldOID zero), moves or deletes (newOID zero) a ref, and does what follows from it: pull
// requests follow it, and commit messages on the default branch close issues.
func (s *Sim) moveRef(r *repo, by author, name, newOID, oldOID string) error {
	if err := r.git.updateRef(name, newOID, oldOID); err != nil {
		return err
	}
	branch, isBranch := strings.CutPrefix(name, "refs/heads/")
	if !isBranch {
		return nil
	}
	for _, i := range r.issues {
		if i.pull == nil || i.closed {
			continue
		}
		p := i.pull
		switch branch {
		case p.head:
			if newOID == zeroOID {
				s.addEvent(i, by, event{kind: "head_ref_deleted"})
				if err := s.setState(r, i, by, true); err != nil {
					return err
				}
				continue
			}
			before := p.headOID
			p.headOID, i.updated = newOID, s.now()
			if err := s.pullRef(r, i); err != nil {
				return err
			}
			s.emitIssue(r, i, "synchronize", by.user, obj{"before": before, "after": newOID})
		case p.base:
			if newOID != zeroOID {
				p.baseOID = newOID
				if err := s.pullRef(r, i); err != nil {
					return err
				}
			}
		}
	}
	if branch == r.def && oldOID != zeroOID && newOID != zeroOID {
		added, err := r.git.log(newOID, oldOID)
		if err != nil {
			return err
		}
		for _, c := range added {
			if err := s.closeMentioned(r, by, c.Message); err != nil {
				return err
			}
		}
	}
	return nil
}

// newReview submits a review of a pull request with comments on lines.
func (s *Sim) newReview(r *repo, i *issue, by author, state, body string, lines []ReviewLine) (*review, error) {
	if !slices.Contains([]string{"APPROVED", "CHANGES_REQUESTED", "COMMENTED"}, state) {
		return nil, invalid("PullRequestReview", "event", "invalid", "")
	}
	if state != "COMMENTED" && by.user == i.user {
		return nil, unprocessable("Can not approve your own pull request")
	}
	if state != "APPROVED" && strings.TrimSpace(body) == "" && len(lines) == 0 {
		return nil, unprocessable("Body can't be blank")
	}
	if err := checkText("PullRequestReview", "", body); err != nil {
		return nil, err
	}
	for _, l := range lines {
		if err := checkText("PullRequestReviewComment", "", l.Body); err != nil {
			return nil, err
		}
		if l.Path == "" || l.Line < 1 || l.StartLine > l.Line {
			return nil, invalid("PullRequestReviewComment", "line", "invalid", "")
		}
	}
	rv := s.addReview(r, i, by, state, body)
	for _, l := range lines {
		t := &thread{id: s.nextID(), path: l.Path, start: l.StartLine, line: l.Line, commit: cmp.Or(l.Commit, i.pull.headOID)}
		i.pull.threads = append(i.pull.threads, t)
		s.addReviewComment(r, i, t, rv, by, l.Body)
	}
	return rv, nil
}

// addReview makes a review and tells of it. A reply in a conversation is one
// without a text of its own.
func (s *Sim) addReview(r *repo, i *issue, by author, state, body string) *review {
	rv := &review{id: s.nextID(), user: by.user, state: state, body: body, commit: i.pull.headOID, submitted: s.now()}
	i.pull.reviews = append(i.pull.reviews, rv)
	i.updated = rv.submitted
	s.emit(r, "pull_request_review", "submitted", by.user,
		obj{"pull_request": s.pullJSON(r, i), "review": s.reviewJSON(r, i, rv, true)})
	return rv
}

// setResolved ends a conversation or opens it again, and tells of it.
func (s *Sim) setResolved(r *repo, i *issue, t *thread, by author, resolved bool) {
	if (t.resolved != nil) == resolved {
		return
	}
	action := "unresolved"
	t.resolved = nil
	if resolved {
		action, t.resolved = "resolved", by.user
	}
	i.updated = s.now()
	comments := shapes(t.comments, func(c *reviewComment) *github.PullRequestComment {
		return s.reviewCommentJSON(r, i, t, c)
	})
	s.emit(r, "pull_request_review_thread", action, by.user, obj{
		"pull_request": s.pullJSON(r, i), "updated_at": stamp(i.updated),
		"thread": obj{"node_id": nodeID("PRRT", t.id), "comments": comments},
	})
}

// outdated says whether the lines of a conversation were changed since. Between
// what two versions of a file have in common at the start and at the end, all
// counts as changed.
func (s *Sim) outdated(r *repo, i *issue, t *thread) bool {
	head := i.pull.headOID
	if t.commit == head {
		return false
	}
	was, err := r.git.blobAt(t.commit, t.path)
	if err != nil {
		return false // nothing to compare with
	}
	now, err := r.git.blobAt(head, t.path)
	if err != nil {
		return true
	}
	a, b := strings.SplitAfter(string(was), "\n"), strings.SplitAfter(string(now), "\n")
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	if t.line <= same {
		return false
	}
	first, tail := cmp.Or(t.start, t.line), 0
	for tail < min(len(a), len(b))-same && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return first <= len(a)-tail
}

func (s *Sim) addReviewComment(r *repo, i *issue, t *thread, rv *review, by author, body string) *reviewComment {
	now := s.now()
	c := &reviewComment{
		id: s.nextID(), review: rv, user: by.user, body: body, commit: t.commit, created: now, updated: now,
		diffHunk: fmt.Sprintf("@@ -%d,1 +%d,1 @@", t.line, t.line),
	}
	t.comments = append(t.comments, c)
	s.emit(r, "pull_request_review_comment", "created", by.user,
		obj{"pull_request": s.pullJSON(r, i), "comment": s.reviewCommentJSON(r, i, t, c)})
	return c
}
