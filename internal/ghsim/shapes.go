package ghsim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// obj is a JSON object. The shapes below are GitHub's; package ghsimtest holds
// them against GitHub's own description.
type obj = map[string]any

// stamp is GitHub's way to write a time; null where there is none.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

// orNull turns "" into null.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (s *Sim) api(r *repo) string  { return s.base + "/api/v3/repos/" + r.fullName() }
func (s *Sim) html(r *repo) string { return s.base + "/" + r.fullName() }

func (s *Sim) userJSON(u *user) any {
	if u == nil {
		return nil
	}
	url := s.base + "/api/v3/users/" + u.login
	page := s.base + "/" + u.login
	if u.app != nil {
		page = s.base + "/apps/" + u.app.slug
	}
	return obj{
		"login": u.login, "id": u.id, "node_id": u.nodeID(), "type": u.kind, "site_admin": false, "user_view_type": "public",
		"avatar_url": s.base + "/_sim/avatar/" + strconv.FormatInt(u.id, 10), "gravatar_id": "",
		"url": url, "html_url": page,
		"followers_url": url + "/followers", "following_url": url + "/following{/other_user}", "gists_url": url +
			"/gists{/gist_id}",
		"starred_url": url + "/starred{/owner}{/repo}", "subscriptions_url": url + "/subscriptions",
		"organizations_url": url + "/orgs",
		"repos_url":         url + "/repos", "events_url": url + "/events{/privacy}", "received_events_url": url +
			"/received_events",
	}
}

// repoJSON is a whole repository; permissions are those of the caller where
// the caller is known.
func (s *Sim) repoJSON(r *repo, permissions obj) obj {
	url := s.api(r)
	open := 0
	for _, i := range r.issues {
		if !i.closed {
			open++
		}
	}
	visibility := "public"
	if r.private {
		visibility = "private"
	}
	o := obj{
		"id": r.id, "node_id": nodeID("R", r.id), "name": r.name, "full_name": r.fullName(), "private": r.private,
		"owner": s.userJSON(r.owner), "html_url": s.html(r), "description": orNull(r.description), "fork": false, "url": url,
		"created_at": stamp(r.created), "updated_at": stamp(r.updated), "pushed_at": stamp(r.pushed),
		"git_url": "git://" + strings.TrimPrefix(s.html(r), "http://") + ".git", "clone_url": s.html(r) + ".git",
		"ssh_url": "git@" + strings.TrimPrefix(s.base, "http://") + ":" + r.fullName() + ".git", "svn_url": s.html(r),
		"homepage": nil, "size": 0, "stargazers_count": 0, "watchers_count": 0, "language": nil,
		"has_issues": true, "has_projects": false, "has_downloads": false, "has_wiki": false, "has_pages": false,
		"has_discussions": false,
		"forks_count":     0, "mirror_url": nil, "archived": false, "disabled": false, "open_issues_count": open,
		"license":       nil,
		"allow_forking": true, "is_template": false, "web_commit_signoff_required": false, "topics": []string{},
		"visibility": visibility,
		"forks":      0, "open_issues": open, "watchers": 0, "default_branch": r.def,
		"network_count": 0, "subscribers_count": 0,
		"allow_merge_commit": true, "allow_squash_merge": true, "allow_rebase_merge": false, "delete_branch_on_merge": false,
	}
	for name, path := range map[string]string{
		"archive": "/{archive_format}{/ref}", "assignees": "/assignees{/user}", "blobs": "/git/blobs{/sha}",
		"branches":      "/branches{/branch}",
		"collaborators": "/collaborators{/collaborator}", "comments": "/comments{/number}", "commits": "/commits{/sha}",
		"compare":  "/compare/{base}...{head}",
		"contents": "/contents/{+path}", "contributors": "/contributors", "deployments": "/deployments",
		"downloads": "/downloads", "events": "/events",
		"forks": "/forks", "git_commits": "/git/commits{/sha}", "git_refs": "/git/refs{/sha}", "git_tags": "/git/tags{/sha}",
		"hooks":         "/hooks",
		"issue_comment": "/issues/comments{/number}", "issue_events": "/issues/events{/number}", "issues": "/issues{/number}",
		"keys":   "/keys{/key_id}",
		"labels": "/labels{/name}", "languages": "/languages", "merges": "/merges", "milestones": "/milestones{/number}",
		"notifications": "/notifications{?since,all,participating}", "pulls": "/pulls{/number}", "releases": "/releases{/id}",
		"stargazers": "/stargazers",
		"statuses":   "/statuses/{sha}", "subscribers": "/subscribers", "subscription": "/subscription", "tags": "/tags",
		"teams": "/teams", "trees": "/git/trees{/sha}",
	} {
		o[name+"_url"] = url + path
	}
	if permissions != nil {
		o["permissions"] = permissions
	}
	return o
}

func (s *Sim) labelJSON(r *repo, l *label) obj {
	return obj{
		"id": l.id, "node_id": nodeID("LA", l.id), "url": s.api(r) + "/labels/" + pathEscape(l.name), "name": l.name,
		"color": l.color, "default": false, "description": orNull(l.description),
	}
}

func (s *Sim) labelsJSON(r *repo, ls []*label) []obj {
	list := []obj{}
	for _, l := range ls {
		list = append(list, s.labelJSON(r, l))
	}
	return list
}

// reactionsJSON is the roll-up that sits in issues and comments.
func reactionsJSON(url string, rs []*reaction) obj {
	o := obj{"url": url + "/reactions", "total_count": len(rs)}
	for _, c := range reactionContents() {
		n := 0
		for _, r := range rs {
			if r.content == c {
				n++
			}
		}
		o[c] = n
	}
	return o
}

func (s *Sim) reactionJSON(r *reaction) obj {
	return obj{
		"id": r.id, "node_id": nodeID("REA", r.id), "user": s.userJSON(r.user), "content": r.content,
		"created_at": stamp(r.created),
	}
}

func (s *Sim) appJSON(a *app) any {
	if a == nil {
		return nil
	}
	return obj{
		"id": a.id, "client_id": a.clientID, "slug": a.slug, "node_id": nodeID("A", a.id), "owner": s.userJSON(a.owner),
		"name":        a.name,
		"description": "", "external_url": s.base + "/apps/" + a.slug, "html_url": s.base + "/apps/" + a.slug,
		"created_at": stamp(a.created), "updated_at": stamp(a.created), "permissions": a.permissions, "events": a.events,
	}
}

func (s *Sim) installationJSON(in *installation) obj {
	id := strconv.FormatInt(in.id, 10)
	return obj{
		"id": in.id, "account": s.userJSON(in.account), "repository_selection": "selected",
		"access_tokens_url": s.base + "/api/v3/app/installations/" + id + "/access_tokens", "repositories_url": s.base +
			"/api/v3/installation/repositories",
		"html_url": s.base + "/settings/installations/" + id, "app_id": in.app.id, "client_id": in.app.clientID,
		"app_slug":  in.app.slug,
		"target_id": in.account.id, "target_type": in.account.kind, "permissions": in.app.permissions,
		"events":     in.app.events,
		"created_at": stamp(in.created), "updated_at": stamp(in.created), "single_file_name": nil,
		"has_multiple_single_files": false, "single_file_paths": []string{}, "suspended_by": nil, "suspended_at": nil,
	}
}

func (s *Sim) issueJSON(r *repo, i *issue) obj {
	number := strconv.Itoa(i.number)
	url := s.api(r) + "/issues/" + number
	page := s.html(r) + "/issues/" + number
	prefix := "I"
	if i.pull != nil {
		page, prefix = s.html(r)+"/pull/"+number, "PR"
	}
	o := obj{
		"id": i.id, "node_id": nodeID(prefix, i.id), "url": url, "repository_url": s.api(r), "html_url": page,
		"labels_url": url + "/labels{/name}", "comments_url": url + "/comments", "events_url": url + "/events",
		"timeline_url": url + "/timeline",
		"number":       i.number, "title": i.title, "user": s.userJSON(i.user), "labels": s.labelsJSON(r, i.labels),
		"state": i.state(), "locked": i.locked,
		"assignee": nil, "assignees": []any{}, "milestone": nil, "comments": len(i.comments),
		"created_at": stamp(i.created), "updated_at": stamp(i.updated), "closed_at": stamp(i.closedAt),
		"closed_by":          s.userJSON(i.closedBy),
		"author_association": r.association(i.user), "active_lock_reason": nil, "body": orNull(i.body),
		"reactions": reactionsJSON(url, i.reactions), "performed_via_github_app": s.appJSON(i.via),
		"state_reason": orNull(i.stateReason),
	}
	if i.pull != nil {
		o["draft"] = i.pull.draft
		o["pull_request"] = obj{
			"url": s.api(r) + "/pulls/" + number, "html_url": page, "diff_url": page + ".diff", "patch_url": page + ".patch",
			"merged_at": stamp(i.pull.mergedAt),
		}
	}
	return o
}

func (s *Sim) commentJSON(r *repo, i *issue, c *comment) obj {
	id := strconv.FormatInt(c.id, 10)
	url := s.api(r) + "/issues/comments/" + id
	return obj{
		"url": url, "html_url": s.issuePage(r, i) + "#issuecomment-" + id, "issue_url": s.api(r) + "/issues/" +
			strconv.Itoa(i.number),
		"id": c.id, "node_id": nodeID("IC", c.id), "user": s.userJSON(c.user), "created_at": stamp(c.created),
		"updated_at":         stamp(c.updated),
		"author_association": r.association(c.user), "body": c.body, "reactions": reactionsJSON(url, c.reactions),
		"performed_via_github_app": s.appJSON(c.via),
	}
}

// issuePage is the address of the page for people.
func (s *Sim) issuePage(r *repo, i *issue) string {
	if i.pull != nil {
		return s.html(r) + "/pull/" + strconv.Itoa(i.number)
	}
	return s.html(r) + "/issues/" + strconv.Itoa(i.number)
}

// pullJSON is a pull request; whole adds what GitHub computes for a single one.
func (s *Sim) pullJSON(r *repo, i *issue, whole bool) obj {
	p := i.pull
	number := strconv.Itoa(i.number)
	url, issueURL, page := s.api(r)+"/pulls/"+number, s.api(r)+"/issues/"+number, s.html(r)+"/pull/"+number
	side := func(branch, oid string) obj {
		return obj{
			"label": r.owner.login + ":" + branch, "ref": branch, "sha": oid, "user": s.userJSON(r.owner),
			"repo": s.repoJSON(r, nil),
		}
	}
	links := obj{}
	for name, href := range map[string]string{
		"self": url, "html": page, "issue": issueURL, "comments": issueURL + "/comments", "review_comments": url +
			"/comments",
		"review_comment": s.api(r) + "/pulls/comments{/number}", "commits": url + "/commits", "statuses": s.api(r) +
			"/statuses/" + p.headOID,
	} {
		links[name] = obj{"href": href}
	}
	var mergeOID any
	if p.mergeOID != "" {
		mergeOID = p.mergeOID
	}
	o := obj{
		"url": url, "id": p.id, "node_id": nodeID("PR", i.id), "html_url": page, "diff_url": page + ".diff",
		"patch_url": page + ".patch",
		"issue_url": issueURL, "number": i.number, "state": i.state(), "locked": i.locked, "title": i.title,
		"user": s.userJSON(i.user),
		"body": orNull(i.body), "created_at": stamp(i.created), "updated_at": stamp(i.updated),
		"closed_at": stamp(i.closedAt), "merged_at": stamp(p.mergedAt),
		"merge_commit_sha": mergeOID, "assignee": nil, "assignees": []any{}, "requested_reviewers": []any{},
		"requested_teams": []any{},
		"labels":          s.labelsJSON(r, i.labels), "milestone": nil, "draft": p.draft,
		"commits_url": url + "/commits", "review_comments_url": url + "/comments", "review_comment_url": s.api(r) +
			"/pulls/comments{/number}",
		"comments_url": issueURL + "/comments", "statuses_url": s.api(r) + "/statuses/" + p.headOID,
		"head": side(p.head, p.headOID), "base": side(p.base, p.baseOID), "_links": links,
		"author_association": r.association(i.user), "auto_merge": nil, "active_lock_reason": nil,
	}
	if !whole {
		return o
	}
	additions, deletions, files := s.pullStats(r, p)
	mergeable, state := s.mergeable(r, i)
	comments := 0
	for _, t := range p.threads {
		comments += len(t.comments)
	}
	maps.Copy(o, obj{
		"merged": p.merged, "mergeable": mergeable, "rebaseable": mergeable, "mergeable_state": state,
		"merged_by": s.userJSON(p.mergedBy),
		"comments":  len(i.comments), "review_comments": comments, "maintainer_can_modify": false,
		"commits": len(p.commits), "additions": additions, "deletions": deletions, "changed_files": files,
	})
	return o
}

// pullDiff is what a pull request changes: from the merge base to its head.
func (s *Sim) pullDiff(r *repo, p *pull) ([]fileDiff, error) {
	base, err := r.git.mergeBase(s.life, p.baseOID, p.headOID)
	if err != nil || base == "" {
		return nil, err
	}
	if p.merged && len(p.commits) > 0 { // then the head is part of the base
		first, err := r.git.commit(s.life, p.commits[0])
		if err != nil {
			return nil, err
		}
		if len(first.Parents) > 0 {
			base = first.Parents[0]
		}
	}
	return r.git.diff(s.life, base, p.headOID)
}

func (s *Sim) pullStats(r *repo, p *pull) (additions, deletions, files int) {
	diffs, err := s.pullDiff(r, p)
	if err != nil {
		return 0, 0, 0 // the numbers are for people; whoever needs the files asks for them
	}
	for _, d := range diffs {
		additions += d.Additions
		deletions += d.Deletions
	}
	return additions, deletions, len(diffs)
}

func (s *Sim) mergeable(r *repo, i *issue) (any, string) {
	if i.closed {
		return nil, "unknown"
	}
	_, ok, err := r.git.mergeTrees(s.life, i.pull.baseOID, i.pull.headOID)
	switch {
	case err != nil:
		return nil, "unknown"
	case !ok:
		return false, "dirty"
	case i.pull.draft:
		return true, "draft"
	default:
		return true, "clean"
	}
}

// verification is what GitHub says of a commit's signature: it signs what it
// commits itself, and nothing that was pushed here is signed.
func (r *repo) verification(c *commitObject) obj {
	if r.signed[c.OID] == nil {
		return obj{"verified": false, "reason": "unsigned", "signature": nil, "payload": nil, "verified_at": nil}
	}
	return obj{
		"verified": true, "reason": "valid", "signature": c.signature(),
		"payload": c.payload(), "verified_at": stamp(c.Committer.When),
	}
}

func personJSON(p person) obj {
	return obj{"name": p.Name, "email": p.Email, "date": stamp(p.When)}
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

func (s *Sim) parentsJSON(r *repo, c *commitObject, path string) []obj {
	parents := []obj{}
	for _, p := range c.Parents {
		parents = append(parents, obj{"sha": p, "url": s.api(r) + path + p, "html_url": s.html(r) + "/commit/" + p})
	}
	return parents
}

// commitJSON is a commit as the repository API shows it.
func (s *Sim) commitJSON(r *repo, c *commitObject) obj {
	url := s.api(r) + "/commits/" + c.OID
	var authorJSON, committerJSON any = s.userJSON(s.account(c.Author)), s.userJSON(s.account(c.Committer))
	return obj{
		"sha": c.OID, "node_id": commitNodeID(r, c.OID), "url": url, "html_url": s.html(r) + "/commit/" + c.OID,
		"comments_url": url + "/comments",
		"commit": obj{
			"author": personJSON(c.Author), "committer": personJSON(c.Committer), "message": c.Message,
			"tree": obj{"sha": c.Tree, "url": s.api(r) + "/git/trees/" + c.Tree}, "url": s.api(r) + "/git/commits/" + c.OID,
			"comment_count": 0, "verification": r.verification(c),
		},
		"author": authorJSON, "committer": committerJSON, "parents": s.parentsJSON(r, c, "/commits/"),
	}
}

// gitCommitJSON is a commit as the git-data API shows it.
func (s *Sim) gitCommitJSON(r *repo, c *commitObject) obj {
	return obj{
		"sha": c.OID, "node_id": commitNodeID(r, c.OID), "url": s.api(r) + "/git/commits/" + c.OID, "html_url": s.html(r) +
			"/commit/" + c.OID,
		"author": personJSON(c.Author), "committer": personJSON(c.Committer), "message": c.Message,
		"tree": obj{"sha": c.Tree, "url": s.api(r) + "/git/trees/" + c.Tree}, "parents": s.parentsJSON(r, c, "/git/commits/"),
		"verification": r.verification(c),
	}
}

// pushCommitJSON is a commit as a push event shows it.
func (s *Sim) pushCommitJSON(r *repo, c *commitObject) obj {
	signature := func(p person) obj {
		o := obj{"name": p.Name, "email": p.Email, "date": stamp(p.When)}
		if u := s.account(p); u != nil {
			o["username"] = u.login
		}
		return o
	}
	added, removed, modified := []string{}, []string{}, []string{}
	from := emptyTree
	if len(c.Parents) > 0 {
		from = c.Parents[0]
	}
	// Without the lists the event is still good: people read them, not the App.
	diffs, err := r.git.changed(s.life, from, c.OID)
	if err != nil {
		diffs = nil
	}
	for _, d := range diffs {
		switch d.Status {
		case "added":
			added = append(added, d.Path)
		case "removed":
			removed = append(removed, d.Path)
		default:
			modified = append(modified, d.Path)
		}
	}
	return obj{
		"id": c.OID, "tree_id": c.Tree, "distinct": true, "message": c.Message, "timestamp": stamp(c.Committer.When),
		"url":    s.html(r) + "/commit/" + c.OID,
		"author": signature(c.Author), "committer": signature(c.Committer), "added": added, "removed": removed,
		"modified": modified,
	}
}

// emptyTree is the tree without entries, which git knows without storing it.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

func (s *Sim) refJSON(r *repo, ref gitRef) obj {
	path := "/git/commits/"
	if ref.Type == "tag" {
		path = "/git/tags/"
	}
	return obj{
		"ref": ref.Name, "node_id": nodeID("REF", r.id) + ":" + ref.Name, "url": s.api(r) + "/git/" + ref.Name,
		"object": obj{"type": ref.Type, "sha": ref.OID, "url": s.api(r) + path + ref.OID},
	}
}

func (s *Sim) diffJSON(r *repo, d fileDiff, ref string) obj {
	path := pathEscape(d.Path)
	o := obj{
		"sha": d.OID, "filename": d.Path, "status": d.Status, "additions": d.Additions, "deletions": d.Deletions,
		"changes":  d.Additions + d.Deletions,
		"blob_url": s.html(r) + "/blob/" + ref + "/" + path, "raw_url": s.html(r) + "/raw/" + ref + "/" + path,
		"contents_url": s.api(r) + "/contents/" + path + "?ref=" + ref,
	}
	if d.Patch != "" {
		o["patch"] = d.Patch
	}
	if d.OldPath != "" {
		o["previous_filename"] = d.OldPath
	}
	return o
}

func (s *Sim) checkJSON(r *repo, c *checkRun) obj {
	id := strconv.FormatInt(c.id, 10)
	url := s.api(r) + "/check-runs/" + id
	pulls := []obj{}
	for _, i := range r.issues {
		if i.pull != nil && !i.closed && i.pull.headOID == c.headOID {
			ref := obj{"id": r.id, "url": s.api(r), "name": r.name}
			pulls = append(pulls, obj{
				"id": i.pull.id, "number": i.number, "url": s.api(r) + "/pulls/" + strconv.Itoa(i.number),
				"head": obj{"ref": i.pull.head, "sha": i.pull.headOID, "repo": ref},
				"base": obj{"ref": i.pull.base, "sha": i.pull.baseOID, "repo": ref},
			})
		}
	}
	return obj{
		"id": c.id, "node_id": nodeID("CR", c.id), "name": c.name, "head_sha": c.headOID, "external_id": c.externalID,
		"url":      url,
		"html_url": s.html(r) + "/runs/" + id, "details_url": cmp.Or(c.detailsURL, s.html(r)+"/runs/"+id), "status": c.status,
		"conclusion": orNull(c.conclusion),
		"started_at": stamp(c.started), "completed_at": stamp(c.completed), "check_suite": obj{"id": c.suiteID},
		"app": s.appJSON(c.app), "pull_requests": pulls,
		"output": obj{
			"title": orNull(c.title), "summary": orNull(c.summary), "text": orNull(c.text),
			"annotations_count": len(c.annotations), "annotations_url": url + "/annotations",
		},
	}
}

// reviewJSON is a review. Webhooks write its state in lower case.
func (s *Sim) reviewJSON(r *repo, i *issue, rv *review, webhook bool) obj {
	page := s.html(r) + "/pull/" + strconv.Itoa(i.number) + "#pullrequestreview-" + strconv.FormatInt(rv.id, 10)
	pull := s.api(r) + "/pulls/" + strconv.Itoa(i.number)
	o := obj{
		"id": rv.id, "node_id": nodeID("PRR", rv.id), "user": s.userJSON(rv.user), "body": rv.body, "state": rv.state,
		"html_url": page, "pull_request_url": pull,
		"author_association": r.association(rv.user), "submitted_at": stamp(rv.submitted), "commit_id": rv.commit,
		"_links": obj{"html": obj{"href": page}, "pull_request": obj{"href": pull}},
	}
	if webhook {
		o["state"] = strings.ToLower(rv.state)
		o["body"] = orNull(rv.body)
	}
	return o
}

func (s *Sim) reviewCommentJSON(r *repo, i *issue, t *thread, c *reviewComment, webhook bool) obj {
	id := strconv.FormatInt(c.id, 10)
	url, pull := s.api(r)+"/pulls/comments/"+id, s.api(r)+"/pulls/"+strconv.Itoa(i.number)
	page := s.html(r) + "/pull/" + strconv.Itoa(i.number) + "#discussion_r" + id
	o := obj{
		"id": c.id, "node_id": nodeID("PRRC", c.id), "url": url, "pull_request_review_id": c.review.id,
		"diff_hunk": c.diffHunk, "path": t.path,
		"position": t.line, "original_position": t.line, "commit_id": c.commit, "original_commit_id": t.comments[0].commit,
		"user": s.userJSON(c.user), "body": c.body, "created_at": stamp(c.created), "updated_at": stamp(c.updated),
		"html_url": page, "pull_request_url": pull,
		"author_association": r.association(c.user), "start_line": nil, "original_start_line": nil, "start_side": nil,
		"original_line": t.line, "side": "RIGHT", "subject_type": "line", "reactions": reactionsJSON(url, c.reactions),
		"_links": obj{"self": obj{"href": url}, "html": obj{"href": page}, "pull_request": obj{"href": pull}},
	}
	outdated := s.outdated(r, i, t)
	switch {
	case !outdated:
		o["line"] = t.line
	case webhook: // REST leaves it out
		o["line"] = nil
	}
	if t.start > 0 {
		o["original_start_line"], o["start_side"] = t.start, "RIGHT"
		if !outdated {
			o["start_line"] = t.start
		}
	}
	if first := t.comments[0]; first != c {
		o["in_reply_to_id"] = first.id
	}
	return o
}

// suiteJSON is the check suite of one check run on a branch.
func (s *Sim) suiteJSON(r *repo, c *checkRun, branch string, head *commitObject) obj {
	url := s.api(r) + "/check-suites/" + strconv.FormatInt(c.suiteID, 10)
	return obj{
		"id": c.suiteID, "node_id": nodeID("CS", c.suiteID), "head_branch": branch, "head_sha": c.headOID, "status": c.status,
		"conclusion": orNull(c.conclusion),
		"url":        url, "app": s.appJSON(c.app), "created_at": stamp(c.started), "updated_at": stamp(c.completed),
		"check_runs_url":          url + "/check-runs",
		"latest_check_runs_count": 1, "pull_requests": []obj{}, "before": nil, "after": c.headOID,
		"head_commit": obj{
			"id": head.OID, "tree_id": head.Tree, "message": head.Message, "timestamp": stamp(head.Committer.When),
			"author":    obj{"name": head.Author.Name, "email": head.Author.Email},
			"committer": obj{"name": head.Committer.Name, "email": head.Committer.Email},
		},
	}
}

// eventJSON is an entry of an issue's events.
func (s *Sim) eventJSON(r *repo, e *event) obj {
	o := obj{
		"id": e.id, "node_id": nodeID("EV", e.id), "url": s.api(r) + "/issues/events/" + strconv.FormatInt(e.id, 10),
		"actor": s.userJSON(e.actor),
		"event": e.kind, "commit_id": orNull(e.commit), "commit_url": nil, "created_at": stamp(e.at),
		"performed_via_github_app": s.appJSON(e.via),
	}
	if e.commit != "" {
		o["commit_url"] = s.api(r) + "/commits/" + e.commit
	}
	if e.label != nil {
		o["label"] = obj{"name": e.label.name, "color": e.label.color}
	}
	if e.kind == "renamed" {
		o["rename"] = obj{"from": e.from, "to": e.to}
	}
	if e.kind == "closed" || e.kind == "reopened" {
		o["state_reason"] = orNull(e.stateNote)
	}
	return o
}

// deliveryJSON is a webhook delivery; whole adds request and answer.
func (s *Sim) deliveryJSON(h *hook, d *Delivery, whole bool) obj {
	o := obj{
		"id": d.ID, "guid": d.GUID, "delivered_at": stamp(d.DeliveredAt), "redelivery": d.Redelivery,
		"duration": d.Duration.Seconds(),
		"status":   d.Status, "status_code": d.StatusCode, "event": d.Event, "action": orNull(d.Action),
		"installation_id": d.InstallationID,
		"repository_id":   nil, "throttled_at": nil,
	}
	if d.RepositoryID != 0 {
		o["repository_id"] = d.RepositoryID
	}
	if whole {
		headers := d.AnswerHeaders
		if headers == nil {
			headers = map[string]string{}
		}
		o["url"] = h.url
		o["request"] = obj{"headers": d.RequestHeaders, "payload": d.Payload}
		o["response"] = obj{"headers": headers, "payload": d.Answer}
	}
	return o
}

func commitNodeID(r *repo, oid string) string { return nodeID("C", r.id) + ":" + oid }

// pathEscape escapes a path for a URL and leaves its slashes.
func pathEscape(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = urlSegment(p)
	}
	return strings.Join(parts, "/")
}

// pullCommits are the commits of a pull request, oldest first.
func (s *Sim) pullCommits(ctx context.Context, r *repo, p *pull) ([]*commitObject, error) {
	commits := make([]*commitObject, 0, len(p.commits))
	for _, oid := range p.commits {
		c, err := r.git.commit(ctx, oid)
		if err != nil {
			return nil, err
		}
		commits = append(commits, c)
	}
	return commits, nil
}

// find is the first element that matches.
func find[T any](list []T, match func(T) bool) (T, bool) {
	if at := slices.IndexFunc(list, match); at >= 0 {
		return list[at], true
	}
	var zero T
	return zero, false
}
