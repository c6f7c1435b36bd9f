package ghsim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

// What the REST API and webhooks tell is written in the structs of go-github, so that names and types are those
// that its readers know. What nobody reads is left out: see FIDELITY.md.

// obj is a JSON object.
type obj = map[string]any

// stamp is a time as GitHub tells it, in whole seconds; nil where there is none.
func stamp(t time.Time) *github.Timestamp {
	if t.IsZero() {
		return nil
	}
	return &github.Timestamp{Time: t.UTC().Truncate(time.Second)}
}

// given is nil for "".
func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (s *Sim) api(r *repo) string  { return s.base + "/api/v3/repos/" + r.fullName() }
func (s *Sim) html(r *repo) string { return s.base + "/" + r.fullName() }

// pathEscape escapes a path for a URL and leaves its slashes.
func pathEscape(path string) string { return strings.ReplaceAll(url.PathEscape(path), "%2F", "/") }

// shapes makes a list of what each element looks like; it is never nil.
func shapes[T, S any](list []T, shape func(T) S) []S {
	out := make([]S, 0, len(list))
	for _, e := range list {
		out = append(out, shape(e))
	}
	return out
}

func (s *Sim) userJSON(u *user) *github.User {
	if u == nil {
		return nil
	}
	page := s.base + "/" + u.login
	if u.app != nil {
		page = s.base + "/apps/" + u.app.slug
	}
	return &github.User{
		Login: &u.login, ID: &u.id, NodeID: new(u.nodeID()), Type: &u.kind, SiteAdmin: new(false), HTMLURL: &page,
		URL: new(s.base + "/api/v3/users/" + u.login),
	}
}

func (s *Sim) repoJSON(r *repo) *github.Repository {
	visibility := "public"
	if r.private {
		visibility = "private"
	}
	return &github.Repository{
		ID: &r.id, NodeID: new(nodeID("R", r.id)), Name: &r.name, FullName: new(r.fullName()), Owner: s.userJSON(r.owner),
		Private: &r.private, Visibility: &visibility, Fork: new(false), Archived: new(false),
		URL: new(s.api(r)), HTMLURL: new(s.html(r)), CloneURL: new(s.html(r) + ".git"), DefaultBranch: &r.def,
		CreatedAt: stamp(r.created),
	}
}

func (s *Sim) labelJSON(r *repo, l *label) *github.Label {
	return &github.Label{
		ID: &l.id, NodeID: new(nodeID("LA", l.id)), URL: new(s.api(r) + "/labels/" + pathEscape(l.name)), Name: &l.name,
		Color: &l.color, Default: new(false),
	}
}

func (s *Sim) labelsJSON(r *repo, ls []*label) []*github.Label {
	return shapes(ls, func(l *label) *github.Label { return s.labelJSON(r, l) })
}

func (s *Sim) reactionJSON(r *reaction) *github.Reaction {
	return &github.Reaction{ID: &r.id, NodeID: new(nodeID("REA", r.id)), User: s.userJSON(r.user), Content: &r.content}
}

// permissionsJSON are permissions by name in go-github's struct.
func permissionsJSON(permissions map[string]string) *github.InstallationPermissions {
	out := new(github.InstallationPermissions)
	b, err := json.Marshal(permissions)
	if err == nil {
		err = json.Unmarshal(b, out)
	}
	if err != nil { // names and words: cannot happen, and must not pass in silence
		panic(fmt.Sprintf("ghsim: permissions: %v", err))
	}
	return out
}

func (s *Sim) appJSON(a *app) *github.App {
	if a == nil {
		return nil
	}
	page := s.base + "/apps/" + a.slug
	return &github.App{
		ID: &a.id, Slug: &a.slug, NodeID: new(nodeID("A", a.id)), Owner: s.userJSON(a.owner), Name: &a.name,
		ExternalURL: &page, HTMLURL: &page, CreatedAt: stamp(a.created), UpdatedAt: stamp(a.created),
		Permissions: permissionsJSON(a.permissions), Events: a.events, InstallationsCount: new(len(a.installs)),
	}
}

func (s *Sim) installationJSON(in *installation) *github.Installation {
	return &github.Installation{
		ID: &in.id, NodeID: new(nodeID("INST", in.id)), Account: s.userJSON(in.account), AppID: &in.app.id,
		AppSlug: &in.app.slug, TargetID: &in.account.id, TargetType: &in.account.kind, RepositorySelection: new("selected"),
		HTMLURL:     new(s.base + "/settings/installations/" + strconv.FormatInt(in.id, 10)),
		Permissions: permissionsJSON(in.app.permissions), Events: in.app.events, CreatedAt: stamp(in.created),
		UpdatedAt: stamp(in.created),
	}
}

func issueNodeID(i *issue) string {
	if i.pull != nil {
		return nodeID("PR", i.id)
	}
	return nodeID("I", i.id)
}

// issuePage is the address of the page for people.
func (s *Sim) issuePage(r *repo, i *issue) string {
	kind := "issues"
	if i.pull != nil {
		kind = "pull"
	}
	return fmt.Sprintf("%s/%s/%d", s.html(r), kind, i.number)
}

func (s *Sim) issueJSON(r *repo, i *issue) *github.Issue {
	page := s.issuePage(r, i)
	o := &github.Issue{
		ID: &i.id, NodeID: new(issueNodeID(i)), Number: &i.number, Title: &i.title, Body: given(i.body),
		User: s.userJSON(i.user), Labels: s.labelsJSON(r, i.labels),
		State: new(i.state()), Locked: &i.locked, Comments: new(len(i.comments)),
		URL: new(fmt.Sprintf("%s/issues/%d", s.api(r), i.number)), RepositoryURL: new(s.api(r)), HTMLURL: &page,
		CreatedAt: stamp(i.created), UpdatedAt: stamp(i.updated),
	}
	if i.pull != nil {
		o.Draft = &i.pull.draft
		o.PullRequestLinks = &github.PullRequestLinks{
			URL: new(fmt.Sprintf("%s/pulls/%d", s.api(r), i.number)), HTMLURL: &page, MergedAt: stamp(i.pull.mergedAt),
		}
	}
	return o
}

// viaComment is a comment with the App that made it.
type viaComment struct {
	*github.IssueComment

	Via *github.App `json:"performed_via_github_app"`
}

func (s *Sim) commentJSON(r *repo, i *issue, c *comment) viaComment {
	id := strconv.FormatInt(c.id, 10)
	return viaComment{&github.IssueComment{
		ID: &c.id, NodeID: new(nodeID("IC", c.id)), Body: &c.body, User: s.userJSON(c.user),
		CreatedAt: stamp(c.created), UpdatedAt: stamp(c.updated), URL: new(s.api(r) + "/issues/comments/" + id),
		HTMLURL:  new(s.issuePage(r, i) + "#issuecomment-" + id),
		IssueURL: new(fmt.Sprintf("%s/issues/%d", s.api(r), i.number)),
	}, s.appJSON(c.via)}
}

func (s *Sim) pullJSON(r *repo, i *issue) *github.PullRequest {
	p := i.pull
	side := func(branch, oid string) *github.PullRequestBranch {
		return &github.PullRequestBranch{
			Label: new(r.owner.login + ":" + branch), Ref: &branch, SHA: &oid, User: s.userJSON(r.owner), Repo: s.repoJSON(r),
		}
	}
	comments := 0
	for _, t := range p.threads {
		comments += len(t.comments)
	}
	return &github.PullRequest{
		ID: &p.id, NodeID: new(issueNodeID(i)), Number: &i.number, Title: &i.title, Body: given(i.body),
		User: s.userJSON(i.user), Labels: s.labelsJSON(r, i.labels),
		State: new(i.state()), Locked: &i.locked, Draft: &p.draft, Merged: &p.merged, MergedAt: stamp(p.mergedAt),
		Comments:       new(len(i.comments)),
		ReviewComments: &comments, Commits: new(len(p.commits)), Head: side(p.head, p.headOID), Base: side(p.base, p.baseOID),
		URL: new(fmt.Sprintf("%s/pulls/%d", s.api(r), i.number)), HTMLURL: new(s.issuePage(r, i)),
		IssueURL:  new(fmt.Sprintf("%s/issues/%d", s.api(r), i.number)),
		CreatedAt: stamp(i.created), UpdatedAt: stamp(i.updated),
	}
}

// account finds the user behind an author or committer by the mail address.
func (s *Sim) account(p person) *user {
	if p.Email == "noreply@github.com" {
		return s.webFlow
	}
	local, ok := strings.CutSuffix(p.Email, "@users.noreply.github.com")
	if !ok {
		return nil
	}
	if _, login, ok := strings.Cut(local, "+"); ok {
		local = login
	}
	return s.users[strings.ToLower(local)]
}

// gitCommitJSON is a commit as the git-data API shows it.
func (s *Sim) gitCommitJSON(r *repo, c *commitObject) *github.Commit {
	who := func(p person) *github.CommitAuthor {
		return &github.CommitAuthor{Name: &p.Name, Email: &p.Email, Date: stamp(p.When)}
	}
	// GitHub signs what it commits itself, and nothing that was pushed here is signed.
	verified := &github.SignatureVerification{Verified: new(false), Reason: new("unsigned")}
	if r.signed[c.OID] != nil {
		verified = &github.SignatureVerification{Verified: new(true), Reason: new("valid")}
	}
	return &github.Commit{
		SHA: &c.OID, NodeID: new(nodeID("C", r.id) + ":" + c.OID), URL: new(s.api(r) + "/git/commits/" + c.OID),
		HTMLURL: new(s.html(r) + "/commit/" + c.OID), Author: who(c.Author), Committer: who(c.Committer),
		Message: &c.Message, Tree: &github.Tree{SHA: &c.Tree}, Verification: verified,
		Parents: shapes(c.Parents, func(oid string) *github.Commit { return &github.Commit{SHA: &oid} }),
	}
}

// commitJSON is a commit as the repository API shows it.
func (s *Sim) commitJSON(r *repo, c *commitObject) *github.RepositoryCommit {
	inner := s.gitCommitJSON(r, c)
	return &github.RepositoryCommit{
		SHA: inner.SHA, NodeID: inner.NodeID, URL: new(s.api(r) + "/commits/" + c.OID), HTMLURL: inner.HTMLURL,
		Commit: inner, Author: s.userJSON(s.account(c.Author)), Committer: s.userJSON(s.account(c.Committer)),
		Parents: inner.Parents,
	}
}

func (s *Sim) refJSON(r *repo, name, oid string) *github.Reference {
	return &github.Reference{
		Ref: &name, NodeID: new(nodeID("REF", r.id) + ":" + name), URL: new(s.api(r) + "/git/" + name),
		Object: &github.GitObject{Type: new("commit"), SHA: &oid},
	}
}

func (s *Sim) checkJSON(r *repo, c *checkRun) *github.CheckRun {
	id := strconv.FormatInt(c.id, 10)
	page, where := s.html(r)+"/runs/"+id, s.api(r)+"/check-runs/"+id
	return &github.CheckRun{
		ID: &c.id, NodeID: new(nodeID("CR", c.id)), Name: &c.name, HeadSHA: &c.headOID, ExternalID: &c.externalID,
		URL: &where, HTMLURL: &page, DetailsURL: new(cmp.Or(c.detailsURL, page)), Status: &c.status,
		Conclusion: given(c.conclusion), StartedAt: stamp(c.started), CompletedAt: stamp(c.completed),
		CheckSuite: &github.CheckSuite{ID: &c.suiteID}, App: s.appJSON(c.app),
		Output: &github.CheckRunOutput{
			Title: given(c.title), Summary: given(c.summary), Text: given(c.text), AnnotationsCount: new(len(c.annotations)),
			AnnotationsURL: new(where + "/annotations"),
		},
	}
}

// suiteJSON is the check suite of one check run on a branch.
func (s *Sim) suiteJSON(c *checkRun, branch string) *github.CheckSuite {
	return &github.CheckSuite{
		ID: &c.suiteID, NodeID: new(nodeID("CS", c.suiteID)), HeadBranch: &branch, HeadSHA: &c.headOID, Status: &c.status,
		Conclusion: given(c.conclusion), App: s.appJSON(c.app), CreatedAt: stamp(c.started), UpdatedAt: stamp(c.completed),
		AfterSHA: &c.headOID,
	}
}

// reviewJSON is a review. Webhooks write its state in lower case.
func (s *Sim) reviewJSON(r *repo, i *issue, rv *review, webhook bool) *github.PullRequestReview {
	state := rv.state
	if webhook {
		state = strings.ToLower(state)
	}
	return &github.PullRequestReview{
		ID: &rv.id, NodeID: new(nodeID("PRR", rv.id)), User: s.userJSON(rv.user), Body: given(rv.body), State: &state,
		SubmittedAt: stamp(rv.submitted), CommitID: &rv.commit,
		HTMLURL:        new(fmt.Sprintf("%s#pullrequestreview-%d", s.issuePage(r, i), rv.id)),
		PullRequestURL: new(fmt.Sprintf("%s/pulls/%d", s.api(r), i.number)),
	}
}

func (s *Sim) reviewCommentJSON(r *repo, i *issue, t *thread, c *reviewComment) *github.PullRequestComment {
	o := &github.PullRequestComment{
		ID: &c.id, NodeID: new(nodeID("PRRC", c.id)), Body: &c.body, User: s.userJSON(c.user), Path: &t.path,
		DiffHunk: &c.diffHunk, PullRequestReviewID: &c.review.id, CommitID: &c.commit, OriginalCommitID: &t.commit,
		OriginalLine: &t.line, Side: new("RIGHT"), SubjectType: new("line"),
		CreatedAt: stamp(c.created), UpdatedAt: stamp(c.updated),
		URL:            new(fmt.Sprintf("%s/pulls/comments/%d", s.api(r), c.id)),
		HTMLURL:        new(fmt.Sprintf("%s#discussion_r%d", s.issuePage(r, i), c.id)),
		PullRequestURL: new(fmt.Sprintf("%s/pulls/%d", s.api(r), i.number)),
	}
	if t.start > 0 {
		o.OriginalStartLine, o.StartSide = &t.start, o.Side
	}
	if !s.outdated(r, i, t) { // else the lines are nowhere any more
		o.Line, o.StartLine = o.OriginalLine, o.OriginalStartLine
	}
	if first := t.comments[0]; first != c {
		o.InReplyTo = &first.id
	}
	return o
}

func deliveryJSON(d *Delivery) *github.HookDelivery {
	o := &github.HookDelivery{
		ID: &d.ID, GUID: &d.GUID, DeliveredAt: stamp(d.DeliveredAt), Redelivery: &d.Redelivery,
		Duration: new(d.Duration.Seconds()), Status: &d.Status, StatusCode: &d.StatusCode, Event: &d.Event,
		Action: given(d.Action), InstallationID: &d.InstallationID,
	}
	if d.RepositoryID != 0 {
		o.RepositoryID = &d.RepositoryID
	}
	return o
}
