package ghsim

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// restRoutes lists every operation, in the order in which they are tried:
// templates that match more come later.
func (s *Sim) restRoutes() []*route {
	const repo = "/repos/{owner}/{repo}"
	return []*route{
		newRoute("POST", "/app-manifests/{code}/conversions", "", s.postConversion),
		newRoute("GET", "/app", "app", s.getApp),
		newRoute("GET", "/app/hook/config", "app", s.getHookConfig),
		newRoute("GET", "/app/hook/deliveries", "app", s.listDeliveries),
		newRoute("GET", "/app/hook/deliveries/{delivery_id}", "app", s.getDelivery),
		newRoute("POST", "/app/hook/deliveries/{delivery_id}/attempts", "app", s.postAttempt),
		newRoute("GET", "/app/installations", "app", s.listInstallations),
		newRoute("GET", "/app/installations/{installation_id}", "app", s.getInstallation),
		newRoute("POST", "/app/installations/{installation_id}/access_tokens", "app", s.postToken),
		newRoute("DELETE", "/installation/token", "token", s.deleteToken),
		newRoute("GET", "/installation/repositories", "token", s.listInstallationRepos),
		newRoute("GET", "/rate_limit", "", s.getRateLimit),
		newRoute("GET", repo+"/installation", "app", s.getRepoInstallation),

		newRoute("GET", repo, "metadata:read", s.getRepo),
		newRoute("GET", repo+"/collaborators/{username}/permission", "metadata:read", s.getPermission),
		newRoute("GET", repo+"/rules/branches/{branch+}", "metadata:read", s.listBranchRules),
		newRoute("GET", repo+"/branches/{branch+}", "contents:read", s.getBranch),
		newRoute("GET", repo+"/commits", "contents:read", s.listCommits),
		newRoute("GET", repo+"/commits/{ref+}/check-runs", "checks:read", s.listChecks),
		newRoute("GET", repo+"/commits/{ref+}", "contents:read", s.getCommit),
		newRoute("GET", repo+"/compare/{basehead+}", "contents:read", s.compare),
		newRoute("GET", repo+"/contents/{path+}", "contents:read", s.getContents),

		newRoute("GET", repo+"/git/ref/{ref+}", "contents:read", s.getRef),
		newRoute("GET", repo+"/git/matching-refs/{ref+}", "contents:read", s.listRefs),
		newRoute("POST", repo+"/git/refs", "contents:write", s.postRef),
		newRoute("PATCH", repo+"/git/refs/{ref+}", "contents:write", s.patchRef),
		newRoute("DELETE", repo+"/git/refs/{ref+}", "contents:write", s.deleteRef),
		newRoute("POST", repo+"/git/commits", "contents:write", s.postGitCommit),
		newRoute("GET", repo+"/git/commits/{commit_sha}", "contents:read", s.getGitCommit),
		newRoute("POST", repo+"/git/trees", "contents:write", s.postTree),
		newRoute("GET", repo+"/git/trees/{tree_sha+}", "contents:read", s.getTree),
		newRoute("POST", repo+"/git/blobs", "contents:write", s.postBlob),
		newRoute("GET", repo+"/git/blobs/{file_sha}", "contents:read", s.getBlob),

		newRoute("POST", repo+"/check-runs", "checks:write", s.postCheck),
		newRoute("PATCH", repo+"/check-runs/{check_run_id}", "checks:write", s.patchCheck),
		newRoute("GET", repo+"/check-runs/{check_run_id}", "checks:read", s.getCheck),

		newRoute("GET", repo+"/labels", "issues:read", s.listLabels),
		newRoute("POST", repo+"/labels", "issues:write", s.postLabel),
		newRoute("GET", repo+"/labels/{name}", "issues:read", s.getLabel),

		newRoute("GET", repo+"/issues", "issues:read", s.listIssues),
		newRoute("POST", repo+"/issues", "issues:write", s.postIssue),
		newRoute("GET", repo+"/issues/comments/{comment_id}", "issues:read", s.getComment),
		newRoute("PATCH", repo+"/issues/comments/{comment_id}", "issues:write", s.patchComment),
		newRoute("DELETE", repo+"/issues/comments/{comment_id}", "issues:write", s.deleteComment),
		newRoute("GET", repo+"/issues/comments/{comment_id}/reactions", "issues:read", s.listCommentReactions),
		newRoute("POST", repo+"/issues/comments/{comment_id}/reactions", "issues:write", s.postCommentReaction),
		newRoute("GET", repo+"/issues/{issue_number}", "issue:read", s.getIssue),
		newRoute("PATCH", repo+"/issues/{issue_number}", "issue:write", s.patchIssue),
		newRoute("GET", repo+"/issues/{issue_number}/comments", "issue:read", s.listComments),
		newRoute("POST", repo+"/issues/{issue_number}/comments", "issue:write", s.postComment),
		newRoute("GET", repo+"/issues/{issue_number}/events", "issue:read", s.listEvents),
		newRoute("GET", repo+"/issues/{issue_number}/timeline", "issue:read", s.listTimeline),
		newRoute("GET", repo+"/issues/{issue_number}/labels", "issue:read", s.listIssueLabels),
		newRoute("POST", repo+"/issues/{issue_number}/labels", "issue:write", s.postIssueLabels),
		newRoute("DELETE", repo+"/issues/{issue_number}/labels/{name}", "issue:write", s.deleteIssueLabel),
		newRoute("GET", repo+"/issues/{issue_number}/reactions", "issue:read", s.listReactions),
		newRoute("POST", repo+"/issues/{issue_number}/reactions", "issue:write", s.postReaction),

		newRoute("GET", repo+"/pulls", "pull_requests:read", s.listPulls),
		newRoute("POST", repo+"/pulls", "pull_requests:write", s.postPull),
		newRoute("GET", repo+"/pulls/{pull_number}", "pull_requests:read", s.getPull),
		newRoute("PATCH", repo+"/pulls/{pull_number}", "pull_requests:write", s.patchPull),
		newRoute("GET", repo+"/pulls/{pull_number}/commits", "pull_requests:read", s.listPullCommits),
		newRoute("GET", repo+"/pulls/{pull_number}/files", "pull_requests:read", s.listPullFiles),
		newRoute("GET", repo+"/pulls/{pull_number}/reviews", "pull_requests:read", s.listReviews),
		newRoute("GET", repo+"/pulls/{pull_number}/comments", "pull_requests:read", s.listReviewComments),
		newRoute("POST", repo+"/pulls/{pull_number}/comments/{comment_id}/replies", "pull_requests:write", s.postReply),
		newRoute("PUT", repo+"/pulls/{pull_number}/merge", "contents:write", s.putMerge),
	}
}

func (s *Sim) getRepo(c *call) (int, any, error) {
	permissions := obj{"admin": false, "maintain": false, "push": false, "triage": false, "pull": true}
	if c.who.user != nil {
		rank := c.repo.role(c.who.user).rank()
		for name, least := range map[string]Role{
			"admin": RoleAdmin, "maintain": RoleMaintain, "push": RoleWrite, "triage": RoleTriage,
		} {
			permissions[name] = rank >= least.rank()
		}
	}
	if c.who.tok != nil {
		permissions["push"] = c.who.tok.allows("contents", "write")
	}
	return http.StatusOK, s.repoJSON(c.repo, permissions), nil
}

func (s *Sim) getPermission(c *call) (int, any, error) {
	u, err := s.userByLogin(c.str("username"))
	if err != nil {
		return 0, nil, &Error{Status: http.StatusNotFound, Message: c.str("username") + " is not a user"}
	}
	role := c.repo.role(u)
	name := string(role)
	if g := c.repo.grants[u.id]; g.name != "" {
		name = g.name
	}
	person, ok := s.userJSON(u).(obj)
	if !ok {
		return 0, nil, errors.New("user without a shape")
	}
	person["role_name"] = name
	person["permissions"] = obj{
		"pull": role.rank() >= RoleRead.rank(), "triage": role.rank() >= RoleTriage.rank(),
		"push":     role.rank() >= RoleWrite.rank(),
		"maintain": role.rank() >= RoleMaintain.rank(), "admin": role.rank() >= RoleAdmin.rank(),
	}
	return http.StatusOK, obj{"permission": role.legacy(), "role_name": name, "user": person}, nil
}

// listBranchRules tells of rules that Sim.SetRules made. They are told of only:
// nothing is refused by them.
func (s *Sim) listBranchRules(c *call) (int, any, error) {
	list := []obj{}
	for _, kind := range c.repo.rules {
		list = append(list, obj{
			"type": kind, "ruleset_source_type": "Repository", "ruleset_source": c.repo.fullName(), "ruleset_id": 1,
		})
	}
	return http.StatusOK, paginate(c, s.base, list), nil
}

func (s *Sim) getBranch(c *call) (int, any, error) {
	name := c.str("branch")
	oid, err := c.repo.git.branch(c.Context(), name)
	if errors.Is(err, errNoObject) {
		return 0, nil, &Error{Status: http.StatusNotFound, Message: "Branch not found"}
	} else if err != nil {
		return 0, nil, err
	}
	commit, err := c.repo.git.commit(c.Context(), oid)
	if err != nil {
		return 0, nil, err
	}
	url := s.api(c.repo) + "/branches/" + pathEscape(name)
	return http.StatusOK, obj{
		"name": name, "commit": s.commitJSON(c.repo, commit),
		"_links":    obj{"self": url, "html": s.html(c.repo) + "/tree/" + pathEscape(name)},
		"protected": false, "protection": obj{
			"enabled": false, "required_status_checks": obj{"enforcement_level": "off", "contexts": []any{}, "checks": []any{}},
		},
		"protection_url": url + "/protection",
	}, nil
}

// commitAt resolves a revision of a call to a commit.
func (s *Sim) commitAt(c *call, rev string) (*commitObject, error) {
	oid, err := c.repo.git.resolveCommit(c.Context(), rev)
	if errors.Is(err, errNoObject) {
		return nil, unprocessable("No commit found for SHA: " + rev)
	} else if err != nil {
		return nil, err
	}
	return c.repo.git.commit(c.Context(), oid)
}

func (s *Sim) listCommits(c *call) (int, any, error) {
	rev := c.URL.Query().Get("sha")
	if rev == "" {
		rev = c.repo.def
	}
	tip, err := s.commitAt(c, rev)
	if err != nil {
		return 0, nil, notFound()
	}
	commits, err := c.repo.git.log(c.Context(), tip.OID, 0)
	if err != nil {
		return 0, nil, err
	}
	list := []obj{}
	for _, commit := range paginate(c, s.base, commits) {
		list = append(list, s.commitJSON(c.repo, commit))
	}
	return http.StatusOK, list, nil
}

func (s *Sim) getCommit(c *call) (int, any, error) {
	commit, err := s.commitAt(c, c.str("ref"))
	if err != nil {
		return 0, nil, err
	}
	from := emptyTree
	if len(commit.Parents) > 0 {
		from = commit.Parents[0]
	}
	diffs, err := c.repo.git.diff(c.Context(), from, commit.OID)
	if err != nil {
		return 0, nil, err
	}
	o := s.commitJSON(c.repo, commit)
	files, additions, deletions := []obj{}, 0, 0
	for _, d := range diffs {
		files = append(files, s.diffJSON(c.repo, d, commit.OID))
		additions += d.Additions
		deletions += d.Deletions
	}
	o["files"] = files
	o["stats"] = obj{"additions": additions, "deletions": deletions, "total": additions + deletions}
	return http.StatusOK, o, nil
}

func (s *Sim) compare(c *call) (int, any, error) {
	baseRev, headRev, ok := strings.Cut(c.str("basehead"), "...")
	if !ok {
		return 0, nil, notFound()
	}
	base, err1 := s.commitAt(c, baseRev)
	head, err2 := s.commitAt(c, headRev)
	if errors.Join(err1, err2) != nil {
		return 0, nil, notFound()
	}
	git := c.repo.git
	ahead, err1 := git.log(c.Context(), head.OID, 0, base.OID)
	behind, err2 := git.log(c.Context(), base.OID, 0, head.OID)
	fork, err3 := git.mergeBase(c.Context(), base.OID, head.OID)
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, nil, err
	}
	if fork == "" {
		return 0, nil, &Error{
			Status: http.StatusNotFound, Message: "No common ancestor between " + baseRev + " and " + headRev + ".",
		}
	}
	forkCommit, err := git.commit(c.Context(), fork)
	if err != nil {
		return 0, nil, err
	}
	diffs, err := git.diff(c.Context(), fork, head.OID)
	if err != nil {
		return 0, nil, err
	}
	status := "identical"
	switch {
	case len(ahead) > 0 && len(behind) > 0:
		status = "diverged"
	case len(ahead) > 0:
		status = "ahead"
	case len(behind) > 0:
		status = "behind"
	}
	slices.Reverse(ahead)
	commits, files := []obj{}, []obj{}
	for _, commit := range paginate(c, s.base, ahead) {
		commits = append(commits, s.commitJSON(c.repo, commit))
	}
	for _, d := range diffs {
		files = append(files, s.diffJSON(c.repo, d, head.OID))
	}
	page := s.html(c.repo) + "/compare/" + pathEscape(baseRev) + "..." + pathEscape(headRev)
	return http.StatusOK, obj{
		"url": s.api(c.repo) + "/compare/" + pathEscape(c.str("basehead")), "html_url": page, "permalink_url": page,
		"diff_url": page + ".diff", "patch_url": page + ".patch",
		"base_commit": s.commitJSON(c.repo, base), "merge_base_commit": s.commitJSON(c.repo, forkCommit),
		"status": status, "ahead_by": len(ahead), "behind_by": len(behind), "total_commits": len(ahead), "commits": commits,
		"files": files,
	}, nil
}

func (s *Sim) getContents(c *call) (int, any, error) {
	rev := c.URL.Query().Get("ref")
	if rev == "" {
		rev = c.repo.def
	}
	commit, err := s.commitAt(c, rev)
	if err != nil {
		return 0, nil, &Error{Status: http.StatusNotFound, Message: "No commit found for the ref " + rev}
	}
	name := strings.Trim(c.str("path"), "/")
	if name != path.Clean(name) || name == "." || strings.HasPrefix(name, "..") {
		return 0, nil, notFound()
	}
	entry, err := c.repo.git.entry(c.Context(), commit.Tree, name)
	if errors.Is(err, errNoObject) {
		return 0, nil, notFound()
	} else if err != nil {
		return 0, nil, err
	}
	if entry.Type == "tree" {
		entries, err := c.repo.git.tree(c.Context(), entry.OID, false)
		if err != nil {
			return 0, nil, err
		}
		list := []obj{}
		for _, e := range entries {
			e.Path = name + "/" + e.Path
			list = append(list, s.contentJSON(c.repo, e, rev))
		}
		return http.StatusOK, list, nil
	}
	o := s.contentJSON(c.repo, entry, rev)
	if entry.Type == "blob" {
		_, _, data, err := c.repo.git.object(c.Context(), entry.OID, "blob")
		if err != nil {
			return 0, nil, err
		}
		if entry.Mode == modeLink {
			o["target"] = string(data)
			return http.StatusOK, o, nil
		}
		o["content"], o["encoding"] = base64Lines(data), "base64"
	}
	return http.StatusOK, o, nil
}

// contentJSON is a file, directory, symlink or submodule as the contents API
// shows it.
func (s *Sim) contentJSON(r *repo, e treeEntry, rev string) obj {
	url, page := s.api(r)+"/contents/"+pathEscape(e.Path)+"?ref="+rev, s.html(r)+"/blob/"+rev+"/"+pathEscape(e.Path)
	kind, gitURL := "file", s.api(r)+"/git/blobs/"+e.OID
	var download any = s.html(r) + "/raw/" + rev + "/" + pathEscape(e.Path)
	switch {
	case e.Type == "tree":
		kind, gitURL, download = "dir", s.api(r)+"/git/trees/"+e.OID, nil
	case e.Type == "commit":
		kind, gitURL, download = "submodule", s.api(r)+"/git/trees/"+e.OID, nil
	case e.Mode == modeLink:
		kind = "symlink"
	}
	o := obj{
		"type": kind, "size": e.Size, "name": path.Base(e.Path), "path": e.Path, "sha": e.OID, "url": url, "git_url": gitURL,
		"html_url": page, "download_url": download,
		"_links": obj{"self": url, "git": gitURL, "html": page},
	}
	if kind == "submodule" {
		o["submodule_git_url"] = nil
	}
	return o
}

// base64Lines is base64 as GitHub sends it: lines of 60 characters.
func base64Lines(data []byte) string {
	s := base64.StdEncoding.EncodeToString(data)
	var b strings.Builder
	for len(s) > 60 {
		b.WriteString(s[:60] + "\n")
		s = s[60:]
	}
	b.WriteString(s + "\n")
	return b.String()
}

func (s *Sim) getRef(c *call) (int, any, error) {
	name := "refs/" + c.str("ref")
	refs, err := c.repo.git.refs(c.Context(), name)
	if err != nil {
		return 0, nil, err
	}
	ref, ok := find(refs, func(r gitRef) bool { return r.Name == name })
	if !ok {
		return 0, nil, notFound()
	}
	return http.StatusOK, s.refJSON(c.repo, ref), nil
}

func (s *Sim) listRefs(c *call) (int, any, error) {
	refs, err := c.repo.git.refs(c.Context(), "refs/"+c.str("ref"))
	if err != nil {
		return 0, nil, err
	}
	list := []obj{}
	for _, ref := range refs {
		list = append(list, s.refJSON(c.repo, ref))
	}
	return http.StatusOK, list, nil
}

// refAnswer is the answer of the calls that create or move a ref.
func (s *Sim) refAnswer(c *call, status int, name, oid string) (int, any, error) {
	return status, s.refJSON(c.repo, gitRef{Name: name, OID: oid, Type: "commit"}), nil
}

// newTip checks that a ref may be set to oid by the caller.
func (s *Sim) newTip(c *call, r *repo, oid, old string) error {
	if _, err := r.git.commit(c.Context(), oid); errors.Is(err, errNoObject) {
		return unprocessable("Object does not exist")
	} else if err != nil {
		return err
	}
	if t := c.who.tok; t != nil && !t.allows("workflows", "write") {
		p, err := s.workflowsTouched(c.Context(), r, oid, old)
		if err != nil {
			return err
		}
		if p != "" {
			return &Error{Status: http.StatusForbidden, Message: workflowRefusal(p)}
		}
	}
	return nil
}

func (s *Sim) postRef(c *call) (int, any, error) {
	var in struct{ Ref, SHA string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if err := s.makeRef(c, c.repo, in.Ref, in.SHA, "Reference already exists"); err != nil {
		return 0, nil, err
	}
	return s.refAnswer(c, http.StatusCreated, in.Ref, in.SHA)
}

// makeRef makes a ref; exists is what is said where there is one of the name.
func (s *Sim) makeRef(c *call, r *repo, name, oid, exists string) error {
	if _, err := r.git.run(c.Context(), nil, nil, "check-ref-format", name); err != nil ||
		strings.Count(name, "/") < 2 || strings.HasPrefix(name, "refs/pull/") {
		return unprocessable("Reference name must start with 'refs/' and contain at least two slashes.")
	}
	if err := s.newTip(c, r, oid, zeroOID); err != nil {
		return err
	}
	refs, err := r.git.refs(c.Context(), "refs/")
	if err != nil {
		return err
	}
	for _, ref := range refs {
		switch {
		case ref.Name == name:
			return unprocessable(exists)
		case strings.HasPrefix(ref.Name, name+"/"), strings.HasPrefix(name, ref.Name+"/"):
			return unprocessable("Reference update failed")
		}
	}
	return s.moveRef(c.Context(), r, c.who.author(), name, oid, zeroOID)
}

func (s *Sim) patchRef(c *call) (int, any, error) {
	var in struct {
		SHA   string
		Force bool
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	name := "refs/" + c.str("ref")
	old, err := c.repo.git.ref(c.Context(), name)
	if errors.Is(err, errNoObject) || strings.HasPrefix(name, "refs/pull/") {
		return 0, nil, unprocessable("Reference does not exist")
	} else if err != nil {
		return 0, nil, err
	}
	if err := s.newTip(c, c.repo, in.SHA, old); err != nil {
		return 0, nil, err
	}
	straight, err := c.repo.git.isAncestor(c.Context(), old, in.SHA)
	if err != nil {
		return 0, nil, err
	}
	if !straight && !in.Force {
		return 0, nil, unprocessable("Update is not a fast forward")
	}
	if old != in.SHA {
		if err := s.moveRef(c.Context(), c.repo, c.who.author(), name, in.SHA, old); err != nil {
			return 0, nil, err
		}
	}
	return s.refAnswer(c, http.StatusOK, name, in.SHA)
}

func (s *Sim) deleteRef(c *call) (int, any, error) {
	name := "refs/" + c.str("ref")
	old, err := c.repo.git.ref(c.Context(), name)
	if errors.Is(err, errNoObject) || strings.HasPrefix(name, "refs/pull/") {
		return 0, nil, unprocessable("Reference does not exist")
	} else if err != nil {
		return 0, nil, err
	}
	if name == "refs/heads/"+c.repo.def {
		return 0, nil, unprocessable("Cannot delete the default branch")
	}
	return http.StatusNoContent, nil, s.moveRef(c.Context(), c.repo, c.who.author(), name, zeroOID, old)
}

func (s *Sim) getGitCommit(c *call) (int, any, error) {
	commit, err := c.repo.git.commit(c.Context(), c.str("commit_sha"))
	if errors.Is(err, errNoObject) {
		return 0, nil, notFound()
	} else if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.gitCommitJSON(c.repo, commit), nil
}

// postGitCommit makes a commit object. GitHub signs it where an App makes it
// in its own name: with neither author, committer nor signature of its own.
func (s *Sim) postGitCommit(c *call) (int, any, error) {
	type signature struct{ Name, Email, Date string }
	var in struct {
		Message, Tree     string
		Parents           []string
		Author, Committer *signature
		Signature         string
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	git := c.repo.git
	if _, _, _, err := git.object(c.Context(), in.Tree, "tree"); err != nil || !isOID(in.Tree) {
		return 0, nil, unprocessable("Tree SHA does not exist")
	}
	for _, p := range in.Parents {
		if _, err := git.commit(c.Context(), p); err != nil {
			return 0, nil, unprocessable("Parent SHA does not exist or is not a commit object")
		}
	}
	now, by := s.now(), c.who.author().user
	given := func(sig *signature, other person) (person, error) {
		if sig == nil {
			return other, nil
		}
		p := person{Name: sig.Name, Email: sig.Email, When: now}
		if sig.Date != "" {
			when, err := parseTime(sig.Date)
			if err != nil {
				return p, unprocessable("Invalid request.\n\n" + sig.Date + " is not a valid date-time.")
			}
			p.When = when
		}
		return p, nil
	}
	writer, err1 := given(in.Author, by.person(now))
	committer, err2 := given(in.Committer, writer)
	if err := errors.Join(err1, err2); err != nil {
		return 0, nil, errors.Join(err1, err2)
	}
	sign := c.who.tok != nil && in.Author == nil && in.Committer == nil && in.Signature == ""
	write := git.writeCommit
	if sign {
		committer, write = webFlow(now), git.signCommit
	}
	oid, err := write(commitObject{
		Tree: in.Tree, Parents: in.Parents, Author: writer, Committer: committer, Message: in.Message,
	})
	if err != nil {
		return 0, nil, err
	}
	if sign {
		c.repo.signed[oid] = by
	}
	commit, err := git.commit(c.Context(), oid)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, s.gitCommitJSON(c.repo, commit), nil
}

func (s *Sim) getTree(c *call) (int, any, error) {
	rev := c.str("tree_sha")
	oid := rev
	if !isOID(rev) {
		commit, err := s.commitAt(c, rev)
		if err != nil {
			return 0, nil, notFound()
		}
		oid = commit.Tree
	}
	return s.treeAnswer(c, http.StatusOK, oid, c.URL.Query().Has("recursive"))
}

func (s *Sim) treeAnswer(c *call, status int, oid string, recursive bool) (int, any, error) {
	if _, _, _, err := c.repo.git.object(c.Context(), oid+"^{tree}", "tree"); errors.Is(err, errNoObject) {
		return 0, nil, notFound()
	} else if err != nil {
		return 0, nil, err
	}
	entries, err := c.repo.git.tree(c.Context(), oid, recursive)
	if err != nil {
		return 0, nil, err
	}
	list := []obj{}
	for _, e := range entries {
		o := obj{
			"path": e.Path, "mode": e.Mode, "type": e.Type, "sha": e.OID, "url": s.api(c.repo) + "/git/" + e.Type + "s/" + e.OID,
		}
		if e.Type == "blob" {
			o["size"] = e.Size
		}
		list = append(list, o)
	}
	return status, obj{"sha": oid, "url": s.api(c.repo) + "/git/trees/" + oid, "tree": list, "truncated": false}, nil
}

func (s *Sim) postTree(c *call) (int, any, error) {
	var in struct {
		BaseTree string `json:"base_tree"`
		Tree     []struct {
			Path, Mode, Type string
			SHA              *string
			Content          *string
		}
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	git := c.repo.git
	if in.BaseTree != "" {
		if _, _, _, err := git.object(c.Context(), in.BaseTree+"^{tree}", "tree"); err != nil || !isOID(in.BaseTree) {
			return 0, nil, unprocessable("base_tree is not a valid tree oid")
		}
	}
	var changes []change
	for _, e := range in.Tree {
		if !validPath(e.Path) {
			return 0, nil, unprocessable("tree.path contains a malformed path component")
		}
		ch := change{Mode: e.Mode, Path: e.Path}
		switch {
		case e.Content != nil && e.SHA == nil:
			oids, err := git.writeBlobs([]byte(*e.Content))
			if err != nil {
				return 0, nil, err
			}
			ch.OID = oids[0]
		case e.SHA != nil && e.Content == nil:
			_, typ, _, err := git.object(c.Context(), *e.SHA, "")
			if err != nil || !isOID(*e.SHA) || (typ == "tree") != (e.Mode == modeTree) {
				return 0, nil, unprocessable("tree.sha " + *e.SHA + " is not a valid " + e.Type)
			}
			ch.OID = *e.SHA
		case e.SHA == nil && e.Content == nil:
			// "sha": null deletes the path.
		default:
			return 0, nil, unprocessable("Must supply either tree.sha or tree.content")
		}
		if !slices.Contains([]string{modeFile, modeExec, modeLink, modeTree}, e.Mode) {
			return 0, nil, unprocessable("Must supply a valid tree.mode")
		}
		changes = append(changes, ch)
	}
	oid, err := git.writeTree(c.Context(), in.BaseTree, changes)
	if err != nil {
		return 0, nil, unprocessable("GitRPC::BadObjectState")
	}
	return s.treeAnswer(c, http.StatusCreated, oid, false)
}

// validPath says whether git takes p as the path of a file.
func validPath(p string) bool {
	if p == "" || p != path.Clean(p) || path.IsAbs(p) || strings.ContainsRune(p, 0) || !utf8.ValidString(p) {
		return false
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." || part == "." || strings.EqualFold(part, ".git") {
			return false
		}
	}
	return true
}

func (s *Sim) postBlob(c *call) (int, any, error) {
	var in struct{ Content, Encoding string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	data := []byte(in.Content)
	if in.Encoding == "base64" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(in.Content), "")); err != nil {
			return 0, nil, unprocessable("content is not valid Base64")
		}
	}
	oids, err := c.repo.git.writeBlobs(data)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, obj{"sha": oids[0], "url": s.api(c.repo) + "/git/blobs/" + oids[0]}, nil
}

func (s *Sim) getBlob(c *call) (int, any, error) {
	oid, _, data, err := c.repo.git.object(c.Context(), c.str("file_sha"), "blob")
	if errors.Is(err, errNoObject) {
		return 0, nil, notFound()
	} else if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, obj{
		"sha": oid, "node_id": nodeID("B", c.repo.id) + ":" + oid, "size": len(data), "url": s.api(c.repo) + "/git/blobs/" +
			oid,
		"content": base64Lines(bytes.Clone(data)), "encoding": "base64",
	}, nil
}

func (s *Sim) getRateLimit(c *call) (int, any, error) {
	used := 0
	if c.who.tok != nil {
		used = min(c.who.tok.used, hourlyLimit)
	}
	reset := s.now().Unix()/3600*3600 + 3600
	core := obj{"limit": hourlyLimit, "used": used, "remaining": hourlyLimit - used, "reset": reset}
	search := obj{"limit": 30, "used": 0, "remaining": 30, "reset": reset}
	return http.StatusOK, obj{"resources": obj{"core": core, "search": search, "graphql": core}, "rate": core}, nil
}

func (s *Sim) listDeliveries(c *call) (int, any, error) {
	list := []obj{}
	h := c.who.app.hook
	done := []*Delivery{}
	for _, d := range slices.Backward(h.log) {
		if d.Done {
			done = append(done, d)
		}
	}
	if cursor := c.URL.Query().Get("cursor"); cursor != "" {
		before, err := strconv.ParseInt(strings.TrimPrefix(cursor, "v1_"), 10, 64)
		if err != nil {
			return 0, nil, unprocessable("Invalid cursor")
		}
		done = slices.DeleteFunc(done, func(d *Delivery) bool { return d.ID >= before })
	}
	per, err := strconv.Atoi(c.URL.Query().Get("per_page"))
	if err != nil || per < 1 || per > 100 {
		per = 30
	}
	if len(done) > per {
		done = done[:per]
		c.header.Set("Link", "<"+s.base+c.URL.EscapedPath()+"?per_page="+strconv.Itoa(per)+"&cursor=v1_"+
			strconv.FormatInt(done[per-1].ID, 10)+`>; rel="next"`)
	}
	for _, d := range done {
		list = append(list, s.deliveryJSON(h, d, false))
	}
	return http.StatusOK, list, nil
}

func (s *Sim) getDelivery(c *call) (int, any, error) {
	h := c.who.app.hook
	d, ok := find(h.log, func(d *Delivery) bool { return d.Done && d.ID == int64(c.num("delivery_id")) })
	if !ok {
		return 0, nil, notFound()
	}
	return http.StatusOK, s.deliveryJSON(h, d, true), nil
}

func (s *Sim) postAttempt(c *call) (int, any, error) {
	return http.StatusAccepted, obj{}, s.redeliver(c.who.app.hook, int64(c.num("delivery_id")))
}

func (s *Sim) getApp(c *call) (int, any, error) {
	o, ok := s.appJSON(c.who.app).(obj)
	if !ok {
		return 0, nil, errors.New("app without a shape")
	}
	o["installations_count"] = len(c.who.app.installs)
	return http.StatusOK, o, nil
}

func (s *Sim) getHookConfig(c *call) (int, any, error) {
	h := c.who.app.hook
	o := obj{"content_type": "json", "insecure_ssl": "0", "secret": "********", "url": h.url}
	if h.url == "" {
		delete(o, "url")
	}
	return http.StatusOK, o, nil
}

func (s *Sim) listInstallations(c *call) (int, any, error) {
	list := []obj{}
	for _, in := range paginate(c, s.base, c.who.app.installs) {
		o := s.installationJSON(in)
		// Here, and only here, the account is described as a user and an
		// enterprise at once.
		if account, ok := o["account"].(obj); ok {
			account["name"], account["slug"] = in.account.login, in.account.login
			account["created_at"], account["updated_at"] = stamp(in.created), stamp(in.created)
		}
		list = append(list, o)
	}
	return http.StatusOK, list, nil
}

// ownInstallation finds an installation of the calling App.
func (s *Sim) ownInstallation(c *call) (*installation, error) {
	in, ok := find(c.who.app.installs, func(in *installation) bool { return in.id == int64(c.num("installation_id")) })
	if !ok {
		return nil, notFound()
	}
	return in, nil
}

func (s *Sim) getInstallation(c *call) (int, any, error) {
	in, err := s.ownInstallation(c)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.installationJSON(in), nil
}

func (s *Sim) getRepoInstallation(c *call) (int, any, error) {
	in, ok := find(c.who.app.installs, func(in *installation) bool { return slices.Contains(in.repos, c.repo) })
	if !ok {
		return 0, nil, notFound()
	}
	return http.StatusOK, s.installationJSON(in), nil
}

func (s *Sim) postToken(c *call) (int, any, error) {
	in, err := s.ownInstallation(c)
	if err != nil {
		return 0, nil, err
	}
	var want struct {
		Repositories  []string
		RepositoryIDs []int64 `json:"repository_ids"`
		Permissions   map[string]string
	}
	// ghinstallation sends the literal null for "no wishes".
	if err := c.decode(&want); err != nil {
		return 0, nil, err
	}
	var repos []*repo
	for _, name := range want.Repositories {
		r, ok := find(in.repos, func(r *repo) bool { return strings.EqualFold(r.name, name) })
		if !ok {
			return 0, nil, unprocessable("There is at least one repository that does not exist or is not accessible " +
				"to the parent installation.")
		}
		repos = append(repos, r)
	}
	for _, id := range want.RepositoryIDs {
		r, ok := find(in.repos, func(r *repo) bool { return r.id == id })
		if !ok {
			return 0, nil, unprocessable("There is at least one repository that does not exist or is not accessible to the parent installation.")
		}
		repos = append(repos, r)
	}
	for name, wish := range want.Permissions {
		if name != "metadata" && level(wish) > level(in.app.permissions[name]) || level(wish) == 0 {
			return 0, nil, unprocessable("The permissions requested are not granted to this installation.")
		}
	}
	t := s.mint(in, repos, want.Permissions)
	o := obj{
		"token": t.value, "expires_at": stamp(t.expires), "permissions": t.permissions, "repository_selection": "selected",
	}
	if t.selected {
		list := []obj{}
		for _, r := range t.repos {
			list = append(list, s.repoJSON(r, nil))
		}
		o["repositories"] = list
	}
	return http.StatusCreated, o, nil
}

func (s *Sim) deleteToken(c *call) (int, any, error) {
	delete(s.tokens, c.who.tok.value)
	return http.StatusNoContent, nil, nil
}

func (s *Sim) listInstallationRepos(c *call) (int, any, error) {
	list := []obj{}
	for _, r := range paginate(c, s.base, c.who.tok.repos) {
		list = append(list, s.repoJSON(r, nil))
	}
	return http.StatusOK, obj{
		"total_count": len(c.who.tok.repos), "repository_selection": "selected", "repositories": list,
	}, nil
}
