package ghsim

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func parseTime(v string) (time.Time, error) { return time.Parse(time.RFC3339, v) }

// issueOf is the issue or pull request a call names.
func (c *call) issueOf() (*issue, error) {
	if i := c.repo.issue(c.num("issue_number")); i != nil {
		return i, nil
	}
	return nil, notFound()
}

func (s *Sim) getIssue(c *call) (int, any, error) {
	if n := c.num("issue_number"); n > 0 && n <= len(c.repo.issues) && c.repo.issues[n-1].moved != "" {
		to := c.repo.issues[n-1].moved
		c.header.Set("Location", to)
		return http.StatusMovedPermanently, obj{"message": "Moved Permanently", "url": to}, nil
	}
	i, err := c.issueOf()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.issueJSON(c.repo, i), nil
}

func (s *Sim) listIssues(c *call) (int, any, error) {
	q := c.URL.Query()
	state := q.Get("state")
	if state == "" {
		state = "open"
	}
	var since time.Time
	if v := q.Get("since"); v != "" {
		var err error
		if since, err = parseTime(v); err != nil {
			return 0, nil, invalid("Issue", "since", "invalid", "")
		}
	}
	var found []*issue
	for _, i := range slices.Backward(c.repo.issues) { // newest first
		wrong := state != "all" && i.state() != state || i.updated.Before(since) || i.gone
		if creator := q.Get("creator"); creator != "" && !strings.EqualFold(creator, i.user.login) {
			wrong = true
		}
		for name := range strings.SplitSeq(q.Get("labels"), ",") {
			if name = strings.TrimSpace(name); name != "" && !i.hasLabel(name) {
				wrong = true
			}
		}
		if !wrong {
			found = append(found, i)
		}
	}
	switch q.Get("sort") {
	case "updated":
		slices.SortStableFunc(found, func(a, b *issue) int { return b.updated.Compare(a.updated) })
	case "comments":
		slices.SortStableFunc(found, func(a, b *issue) int { return len(b.comments) - len(a.comments) })
	}
	if q.Get("direction") == "asc" {
		slices.Reverse(found)
	}
	list := []obj{}
	for _, i := range paginate(c, s.base, found) {
		list = append(list, s.issueJSON(c.repo, i))
	}
	return http.StatusOK, list, nil
}

func (s *Sim) postIssue(c *call) (int, any, error) {
	var in struct {
		Title, Body string
		Labels      []string
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	i, err := s.newIssue(c.repo, c.who.author(), in.Title, in.Body, in.Labels)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, s.issueJSON(c.repo, i), nil
}

func (s *Sim) patchIssue(c *call) (int, any, error) {
	i, err := c.issueOf()
	if err != nil {
		return 0, nil, err
	}
	var in struct {
		Title, Body, State *string
		StateReason        string    `json:"state_reason"`
		Labels             *[]string // replaces all of them
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if u := c.who.user; u != nil && u != i.user && c.repo.role(u).rank() < RoleTriage.rank() {
		return 0, nil, &Error{Status: http.StatusForbidden, Message: "Must have admin rights to Repository."}
	}
	by := c.who.author()
	if err := s.editIssue(c.repo, i, by, in.Title, in.Body); err != nil {
		return 0, nil, err
	}
	if in.Labels != nil {
		for _, l := range slices.Clone(i.labels) {
			if !slices.ContainsFunc(*in.Labels, func(n string) bool { return strings.EqualFold(n, l.name) }) {
				if err := s.removeLabel(c.repo, i, by, l.name); err != nil {
					return 0, nil, err
				}
			}
		}
		if err := s.addLabels(c.repo, i, by, *in.Labels); err != nil {
			return 0, nil, err
		}
	}
	if in.State != nil {
		if err := s.setState(c.repo, i, by, *in.State == "closed", in.StateReason); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, s.issueJSON(c.repo, i), nil
}

func (s *Sim) listComments(c *call) (int, any, error) {
	i, err := c.issueOf()
	if err != nil {
		return 0, nil, err
	}
	comments := i.comments
	if v := c.URL.Query().Get("since"); v != "" {
		since, err := parseTime(v)
		if err != nil {
			return 0, nil, invalid("IssueComment", "since", "invalid", "")
		}
		comments = slices.DeleteFunc(slices.Clone(comments), func(c *comment) bool { return c.updated.Before(since) })
	}
	list := []obj{}
	for _, cm := range paginate(c, s.base, comments) {
		list = append(list, s.commentJSON(c.repo, i, cm))
	}
	return http.StatusOK, list, nil
}

func (s *Sim) postComment(c *call) (int, any, error) {
	i, err := c.issueOf()
	if err != nil {
		return 0, nil, err
	}
	var in struct{ Body string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	cm, err := s.newComment(c.repo, i, c.who.author(), in.Body)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, s.commentJSON(c.repo, i, cm), nil
}

// commentOf is the comment a call names, and its issue. A comment on a pull
// request takes the pull_requests permission.
func (s *Sim) commentOf(c *call) (*issue, *comment, error) {
	for _, i := range c.repo.issues {
		cm, ok := find(i.comments, func(cm *comment) bool { return cm.id == int64(c.num("comment_id")) })
		if !ok {
			continue
		}
		_, want, _ := strings.Cut(c.route.need, ":")
		if t := c.who.tok; t != nil && i.pull != nil && !t.allows("pull_requests", want) {
			return nil, nil, forbidden()
		}
		return i, cm, nil
	}
	return nil, nil, notFound()
}

func (s *Sim) getComment(c *call) (int, any, error) {
	i, cm, err := s.commentOf(c)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.commentJSON(c.repo, i, cm), nil
}

// mayChange says whether the caller may edit or delete what u wrote.
func (c *call) mayChange(u *user) error {
	by := c.who.author().user
	if by == u || c.who.tok != nil || c.repo.role(by).rank() >= RoleWrite.rank() {
		return nil
	}
	return &Error{Status: http.StatusForbidden, Message: "Must have admin rights to Repository."}
}

func (s *Sim) patchComment(c *call) (int, any, error) {
	i, cm, err := s.commentOf(c)
	if err != nil {
		return 0, nil, err
	}
	var in struct{ Body string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if err := c.mayChange(cm.user); err != nil {
		return 0, nil, err
	}
	if err := s.editComment(c.repo, i, cm, c.who.author(), in.Body); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.commentJSON(c.repo, i, cm), nil
}

func (s *Sim) deleteComment(c *call) (int, any, error) {
	i, cm, err := s.commentOf(c)
	if err != nil {
		return 0, nil, err
	}
	if err := c.mayChange(cm.user); err != nil {
		return 0, nil, err
	}
	s.dropComment(c.repo, i, cm, c.who.author())
	return http.StatusNoContent, nil, nil
}

func (s *Sim) reactionList(c *call, list []*reaction) (int, any, error) {
	if content := c.URL.Query().Get("content"); content != "" {
		list = slices.DeleteFunc(slices.Clone(list), func(r *reaction) bool { return r.content != content })
	}
	out := []obj{}
	for _, r := range paginate(c, s.base, list) {
		out = append(out, s.reactionJSON(r))
	}
	return http.StatusOK, out, nil
}

func (s *Sim) addReaction(c *call, list *[]*reaction) (int, any, error) {
	var in struct{ Content string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	r, created, err := s.react(list, c.who.author().user, in.Content)
	if err != nil {
		return 0, nil, err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return status, s.reactionJSON(r), nil
}

func (s *Sim) listReactions(c *call) (int, any, error) {
	i, err := c.issueOf()
	if err != nil {
		return 0, nil, err
	}
	return s.reactionList(c, i.reactions)
}

func (s *Sim) postReaction(c *call) (int, any, error) {
	i, err := c.issueOf()
	if err != nil {
		return 0, nil, err
	}
	return s.addReaction(c, &i.reactions)
}

func (s *Sim) listCommentReactions(c *call) (int, any, error) {
	_, cm, err := s.commentOf(c)
	if err != nil {
		return 0, nil, err
	}
	return s.reactionList(c, cm.reactions)
}

func (s *Sim) postCommentReaction(c *call) (int, any, error) {
	_, cm, err := s.commentOf(c)
	if err != nil {
		return 0, nil, err
	}
	return s.addReaction(c, &cm.reactions)
}

func (s *Sim) listEvents(c *call) (int, any, error) {
	i, err := c.issueOf()
	if err != nil {
		return 0, nil, err
	}
	list := []obj{}
	for _, e := range paginate(c, s.base, i.events) {
		list = append(list, s.eventJSON(c.repo, e))
	}
	return http.StatusOK, list, nil
}

func (s *Sim) listTimeline(c *call) (int, any, error) {
	i, err := c.issueOf()
	if err != nil {
		return 0, nil, err
	}
	type entry struct {
		at   time.Time
		body obj
	}
	var all []entry
	for _, e := range i.events {
		all = append(all, entry{e.at, s.eventJSON(c.repo, e)})
	}
	for _, cm := range i.comments {
		o := s.commentJSON(c.repo, i, cm)
		o["event"], o["actor"] = "commented", o["user"]
		all = append(all, entry{cm.created, o})
	}
	slices.SortStableFunc(all, func(a, b entry) int { return a.at.Compare(b.at) })
	list := []obj{}
	for _, e := range paginate(c, s.base, all) {
		list = append(list, e.body)
	}
	return http.StatusOK, list, nil
}

func (s *Sim) listIssueLabels(c *call) (int, any, error) {
	i, err := c.issueOf()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.labelsJSON(c.repo, paginate(c, s.base, i.labels)), nil
}

func (s *Sim) postIssueLabels(c *call) (int, any, error) {
	i, err := c.issueOf()
	if err != nil {
		return 0, nil, err
	}
	// Both {"labels": […]} and a bare list are taken.
	var in struct{ Labels []string }
	if err := c.decode(&in.Labels); err != nil {
		if err := c.decode(&in); err != nil {
			return 0, nil, err
		}
	}
	if err := s.addLabels(c.repo, i, c.who.author(), in.Labels); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.labelsJSON(c.repo, i.labels), nil
}

func (s *Sim) deleteIssueLabel(c *call) (int, any, error) {
	i, err := c.issueOf()
	if err != nil {
		return 0, nil, err
	}
	if err := s.removeLabel(c.repo, i, c.who.author(), c.str("name")); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.labelsJSON(c.repo, i.labels), nil
}

func (s *Sim) listLabels(c *call) (int, any, error) {
	return http.StatusOK, s.labelsJSON(c.repo, paginate(c, s.base, c.repo.labels)), nil
}

func (s *Sim) getLabel(c *call) (int, any, error) {
	l := c.repo.label(c.str("name"))
	if l == nil {
		return 0, nil, notFound()
	}
	return http.StatusOK, s.labelJSON(c.repo, l), nil
}

func (s *Sim) postLabel(c *call) (int, any, error) {
	var in struct{ Name, Color, Description string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	switch {
	case strings.TrimSpace(in.Name) == "":
		return 0, nil, invalid("Label", "name", "missing_field", "")
	case tooLong(in.Name, 50) || tooLong(in.Description, 100):
		return 0, nil, invalid("Label", "name", "invalid", "")
	case c.repo.label(in.Name) != nil:
		return 0, nil, invalid("Label", "name", "already_exists", "")
	}
	l := s.ensureLabel(c.repo, in.Name)
	l.description = in.Description
	if in.Color != "" {
		l.color = strings.TrimPrefix(in.Color, "#")
	}
	return http.StatusCreated, s.labelJSON(c.repo, l), nil
}

// dropComment deletes a comment.
func (s *Sim) dropComment(r *repo, i *issue, cm *comment, by author) {
	i.comments = slices.DeleteFunc(slices.Clone(i.comments), func(c *comment) bool { return c == cm })
	i.updated = s.now()
	s.emit(r, "issue_comment", "deleted", by.user, obj{"issue": s.issueJSON(r, i), "comment": s.commentJSON(r, i, cm)})
}

// pullOf is the pull request a call names.
func (c *call) pullOf() (*issue, error) {
	if i := c.repo.issue(c.num("pull_number")); i != nil && i.pull != nil {
		return i, nil
	}
	return nil, notFound()
}

func (s *Sim) listPulls(c *call) (int, any, error) {
	q := c.URL.Query()
	state := q.Get("state")
	if state == "" {
		state = "open"
	}
	var found []*issue
	for _, i := range slices.Backward(c.repo.issues) {
		if i.pull == nil || state != "all" && i.state() != state {
			continue
		}
		// GitHub matches head as owner:branch and takes no notice of a bare name.
		if owner, branch, ok := strings.Cut(q.Get("head"), ":"); ok &&
			(branch != i.pull.head || !strings.EqualFold(owner, c.repo.owner.login)) {
			continue
		}
		if base := q.Get("base"); base != "" && base != i.pull.base {
			continue
		}
		found = append(found, i)
	}
	if q.Get("direction") == "asc" {
		slices.Reverse(found)
	}
	list := []obj{}
	for _, i := range paginate(c, s.base, found) {
		list = append(list, s.pullJSON(c.repo, i, false))
	}
	return http.StatusOK, list, nil
}

func (s *Sim) postPull(c *call) (int, any, error) {
	if c.who.tok != nil && c.who.tok.install.app.slug == actionsSlug && !c.repo.actionsPulls {
		return 0, nil, &Error{
			Status: http.StatusForbidden, Message: "GitHub Actions is not permitted to create or approve pull requests.",
		}
	}
	var in struct {
		Title, Body, Head, Base string
		Draft                   bool
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	i, err := s.newPull(c.Context(), c.repo, c.who.author(), in.Title, in.Body, in.Head, in.Base, in.Draft)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, s.pullJSON(c.repo, i, true), nil
}

func (s *Sim) getPull(c *call) (int, any, error) {
	i, err := c.pullOf()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.pullJSON(c.repo, i, true), nil
}

func (s *Sim) patchPull(c *call) (int, any, error) {
	i, err := c.pullOf()
	if err != nil {
		return 0, nil, err
	}
	var in struct{ Title, Body, State, Base *string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	by := c.who.author()
	if u := c.who.user; u != nil && u != i.user && c.repo.role(u).rank() < RoleWrite.rank() {
		return 0, nil, &Error{Status: http.StatusForbidden, Message: "Must have admin rights to Repository."}
	}
	if in.Base != nil && *in.Base != i.pull.base {
		if err := s.retarget(c.repo, i, by, *in.Base); err != nil {
			return 0, nil, err
		}
	}
	if err := s.editIssue(c.repo, i, by, in.Title, in.Body); err != nil {
		return 0, nil, err
	}
	if in.State != nil {
		if err := s.setState(c.repo, i, by, *in.State == "closed", ""); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, s.pullJSON(c.repo, i, true), nil
}

// retarget changes the base branch of a pull request.
func (s *Sim) retarget(r *repo, i *issue, by author, base string) error {
	oid, err := r.git.branch(s.life, base)
	if errors.Is(err, errNoObject) {
		return invalid("PullRequest", "base", "invalid", "Proposed base branch '"+base+"' was not found")
	} else if err != nil {
		return err
	}
	changes := obj{"base": obj{"ref": obj{"from": i.pull.base}, "sha": obj{"from": i.pull.baseOID}}}
	i.pull.base, i.pull.baseOID, i.updated = base, oid, s.now()
	if err := s.pullRef(s.life, r, i); err != nil {
		return err
	}
	s.emitIssue(r, i, "edited", by.user, obj{"changes": changes})
	return nil
}

func (s *Sim) listPullCommits(c *call) (int, any, error) {
	i, err := c.pullOf()
	if err != nil {
		return 0, nil, err
	}
	commits, err := s.pullCommits(c.Context(), c.repo, i.pull)
	if err != nil {
		return 0, nil, err
	}
	list := []obj{}
	for _, commit := range paginate(c, s.base, commits) {
		list = append(list, s.commitJSON(c.repo, commit))
	}
	return http.StatusOK, list, nil
}

func (s *Sim) listPullFiles(c *call) (int, any, error) {
	i, err := c.pullOf()
	if err != nil {
		return 0, nil, err
	}
	diffs, err := s.pullDiff(c.repo, i.pull)
	if err != nil {
		return 0, nil, err
	}
	list := []obj{}
	for _, d := range paginate(c, s.base, diffs) {
		list = append(list, s.diffJSON(c.repo, d, i.pull.headOID))
	}
	return http.StatusOK, list, nil
}

func (s *Sim) listReviews(c *call) (int, any, error) {
	i, err := c.pullOf()
	if err != nil {
		return 0, nil, err
	}
	list := []obj{}
	for _, rv := range paginate(c, s.base, i.pull.reviews) {
		list = append(list, s.reviewJSON(c.repo, i, rv, false))
	}
	return http.StatusOK, list, nil
}

func (s *Sim) listReviewComments(c *call) (int, any, error) {
	i, err := c.pullOf()
	if err != nil {
		return 0, nil, err
	}
	all := []obj{}
	for _, t := range i.pull.threads {
		for _, cm := range t.comments {
			all = append(all, s.reviewCommentJSON(c.repo, i, t, cm, false))
		}
	}
	return http.StatusOK, append([]obj{}, paginate(c, s.base, all)...), nil
}

func (s *Sim) postReply(c *call) (int, any, error) {
	i, err := c.pullOf()
	if err != nil {
		return 0, nil, err
	}
	var in struct{ Body string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if err := checkText("PullRequestReviewComment", "", in.Body); err != nil {
		return 0, nil, err
	}
	for _, t := range i.pull.threads {
		// Replies go to the comment that opened the thread.
		if t.comments[0].id == int64(c.num("comment_id")) {
			cm := s.addReviewComment(c.repo, i, t, t.comments[0].review, c.who.author(), in.Body)
			return http.StatusCreated, s.reviewCommentJSON(c.repo, i, t, cm, false), nil
		}
	}
	return 0, nil, notFound()
}

func (s *Sim) putMerge(c *call) (int, any, error) {
	i, err := c.pullOf()
	if err != nil {
		return 0, nil, err
	}
	var in struct {
		SHA           string
		MergeMethod   string `json:"merge_method"`
		CommitTitle   string `json:"commit_title"`
		CommitMessage string `json:"commit_message"`
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if in.SHA != "" && in.SHA != i.pull.headOID {
		return 0, nil, &Error{
			Status: http.StatusConflict, Message: "Head branch was modified. Review and try the merge again.",
		}
	}
	message := in.CommitTitle
	if in.CommitMessage != "" {
		message += "\n\n" + in.CommitMessage
	}
	if err := s.merge(c.Context(), c.repo, i, c.who.author(), in.MergeMethod, message); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, obj{"sha": i.pull.mergeOID, "merged": true, "message": "Pull Request successfully merged"}, nil
}

// Check runs.

type checkInput struct {
	Name        string
	HeadSHA     string `json:"head_sha"`
	Status      string
	Conclusion  string
	DetailsURL  string `json:"details_url"`
	ExternalID  string `json:"external_id"`
	StartedAt   string `json:"started_at"`
	CompletedAt string `json:"completed_at"`
	Actions     []checkAction
	Output      *checkOutput
}

type checkAction struct{ Label, Identifier, Description string }

type checkOutput struct {
	Title, Summary, Text string
	Annotations          []Annotation
}

// apply puts what was sent into a check run. Annotations add up, all else
// replaces.
func (s *Sim) applyCheck(ch *checkRun, in checkInput) error {
	for _, set := range []struct {
		to    *string
		value string
	}{
		{&ch.name, in.Name}, {&ch.status, in.Status}, {&ch.conclusion, in.Conclusion}, {&ch.detailsURL, in.DetailsURL},
		{&ch.externalID, in.ExternalID},
	} {
		if set.value != "" {
			*set.to = set.value
		}
	}
	for _, set := range []struct {
		to    *time.Time
		value string
	}{{&ch.started, in.StartedAt}, {&ch.completed, in.CompletedAt}} {
		if set.value != "" {
			at, err := parseTime(set.value)
			if err != nil {
				return unprocessable("Invalid request.\n\n" + set.value + " is not a valid date-time.")
			}
			*set.to = at
		}
	}
	if in.Conclusion != "" {
		ch.status = "completed"
	}
	if ch.status == "completed" && ch.conclusion == "" {
		return unprocessable("Invalid request.\n\nMissing conclusion for a completed check run.")
	}
	if ch.status == "completed" && ch.completed.IsZero() {
		ch.completed = s.now()
	}
	if len(in.Actions) > 3 {
		return unprocessable("Invalid request.\n\nNo more than 3 actions are allowed.")
	}
	if in.Actions != nil {
		ch.buttons, ch.labels = nil, nil
	}
	for _, a := range in.Actions {
		if a.Label == "" || tooLong(a.Label, 20) || a.Identifier == "" || tooLong(a.Identifier, 20) || a.Description == "" ||
			tooLong(a.Description, 40) {
			return unprocessable("Invalid request.\n\nAn action is not valid.")
		}
		ch.buttons, ch.labels = append(ch.buttons, a.Identifier), append(ch.labels, a.Label)
	}
	if o := in.Output; o != nil {
		// GitHub refuses a summary over 65,535 bytes and cuts the text there.
		if len(o.Summary) > maxBody-1 {
			return invalid("CheckRun", "summary", "invalid", "Summary exceeds a maximum bytesize of 65535")
		}
		if len(o.Annotations) > 50 {
			return unprocessable("Invalid request.\n\nNo more than 50 items are allowed; " +
				"annotations were supplied in excess.")
		}
		ch.title, ch.summary, ch.text = o.Title, o.Summary, strings.ToValidUTF8(o.Text[:min(len(o.Text), maxBody-1)], "")
		for _, a := range o.Annotations {
			if a.Path == "" || a.StartLine < 1 || a.EndLine < a.StartLine || a.Message == "" || len(a.Message) > 64<<10 ||
				tooLong(a.Title, 255) ||
				a.StartColumn > 0 && a.StartLine != a.EndLine ||
				!slices.Contains([]string{"notice", "warning", "failure"}, a.Level) {
				return unprocessable("Invalid request.\n\nAn annotation is not valid.")
			}
		}
		ch.annotations = append(slices.Clone(ch.annotations), o.Annotations...)
	}
	return nil
}

func (s *Sim) postCheck(c *call) (int, any, error) {
	if c.who.tok == nil {
		return 0, nil, forbidden()
	}
	var in checkInput
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if _, err := c.repo.git.commit(c.Context(), in.HeadSHA); err != nil {
		return 0, nil, unprocessable("No commit found for SHA: " + in.HeadSHA)
	}
	ch, err := s.makeCheck(c, c.repo, in)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, s.checkJSON(c.repo, ch), nil
}

// makeCheck puts a check run of the calling App on a commit that is there.
func (s *Sim) makeCheck(c *call, r *repo, in checkInput) (*checkRun, error) {
	ch := &checkRun{
		id: s.nextID(), app: c.who.tok.install.app, name: in.Name, headOID: in.HeadSHA, status: "queued", started: s.now(),
		suiteID: s.nextID(),
	}
	if err := s.applyCheck(ch, in); err != nil {
		return nil, err
	}
	r.checks = append(r.checks, ch)
	s.emit(r, "check_run", "created", c.who.author().user, obj{"check_run": s.checkJSON(r, ch)})
	return ch, nil
}

// changeCheck changes one, which only the App that made it may.
func (s *Sim) changeCheck(c *call, r *repo, ch *checkRun, in checkInput) error {
	if c.who.tok == nil || c.who.tok.install.app != ch.app {
		return &Error{
			Status:  http.StatusForbidden,
			Message: "Invalid app_id `" + c.who.name() + "` - check run can only be modified by the GitHub App that created it.",
		}
	}
	was := ch.status
	next := *ch
	if err := s.applyCheck(&next, in); err != nil {
		return err
	}
	*ch = next
	if was != "completed" && ch.status == "completed" {
		s.emit(r, "check_run", "completed", c.who.author().user, obj{"check_run": s.checkJSON(r, ch)})
	}
	return nil
}

// checkOf is the check run a call names.
func (s *Sim) checkOf(c *call) (*checkRun, error) {
	ch, ok := find(c.repo.checks, func(ch *checkRun) bool { return ch.id == int64(c.num("check_run_id")) })
	if !ok {
		return nil, notFound()
	}
	return ch, nil
}

func (s *Sim) getCheck(c *call) (int, any, error) {
	ch, err := s.checkOf(c)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.checkJSON(c.repo, ch), nil
}

func (s *Sim) patchCheck(c *call) (int, any, error) {
	ch, err := s.checkOf(c)
	if err != nil {
		return 0, nil, err
	}
	var in checkInput
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if err := s.changeCheck(c, c.repo, ch, in); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.checkJSON(c.repo, ch), nil
}

func (s *Sim) listChecks(c *call) (int, any, error) {
	commit, err := s.commitAt(c, c.str("ref"))
	if err != nil {
		return 0, nil, err
	}
	q := c.URL.Query()
	type named struct {
		app  *app
		name string
	}
	latest := map[named]bool{} // already found, of an App and name
	var found []*checkRun
	for _, ch := range slices.Backward(c.repo.checks) {
		old := latest[named{ch.app, ch.name}] && q.Get("filter") != "all"
		if ch.headOID != commit.OID || old || q.Get("app_id") != "" && q.Get("app_id") != strconv.FormatInt(ch.app.id, 10) ||
			q.Get("check_name") != "" && q.Get("check_name") != ch.name {
			continue
		}
		latest[named{ch.app, ch.name}] = true
		if q.Get("status") == "" || q.Get("status") == ch.status {
			found = append(found, ch)
		}
	}
	list := []obj{}
	for _, ch := range paginate(c, s.base, found) {
		list = append(list, s.checkJSON(c.repo, ch))
	}
	return http.StatusOK, obj{"total_count": len(found), "check_runs": list}, nil
}
