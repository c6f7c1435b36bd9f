package ghsim

import (
	"encoding/base64"
	"errors"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/go-github/v60/github"
)

// restRoutes lists every operation, in the order in which they are tried: templates that match more come later.
func (s *Sim) restRoutes() []*route {
	const repo = "/repos/{owner}/{repo}"
	return []*route{
		newRoute("POST", "/app-manifests/{code}/conversions", "", s.postConversion),
		newRoute("GET", "/app", "app", func(c *call) (int, any, error) { return http.StatusOK, s.appJSON(c.who.app), nil }),
		newRoute("GET", "/app/hook/config", "app", s.getHookConfig),
		newRoute("GET", "/app/hook/deliveries", "app", s.listDeliveries),
		newRoute("POST", "/app/hook/deliveries/{delivery_id}/attempts", "app", s.postAttempt),
		newRoute("GET", "/app/installations", "app", s.listInstallations),
		newRoute("POST", "/app/installations/{installation_id}/access_tokens", "app", withBody(s.postToken)),
		newRoute("GET", "/installation/repositories", "token", s.listInstallationRepos),
		newRoute("GET", "/rate_limit", "", s.getRateLimit),

		newRoute("GET", repo, "metadata:read", s.getRepo),
		newRoute("GET", repo+"/collaborators/{username}/permission", "metadata:read", s.getPermission),
		newRoute("GET", repo+"/rules/branches/{branch+}", "metadata:read", s.listBranchRules),
		newRoute("GET", repo+"/branches/{branch+}", "contents:read", s.getBranch),
		newRoute("GET", repo+"/commits/{ref+}/check-runs", "checks:read", s.listChecks),
		newRoute("GET", repo+"/commits/{ref+}", "contents:read", s.getCommit),
		newRoute("GET", repo+"/contents/{path+}", "contents:read", s.getContents),
		newRoute("POST", repo+"/git/refs", "contents:write", withBody(s.postRef)),
		newRoute("PATCH", repo+"/git/refs/{ref+}", "contents:write", withBody(s.patchRef)),
		newRoute("POST", repo+"/git/commits", "contents:write", withBody(s.postGitCommit)),
		newRoute("POST", repo+"/git/trees", "contents:write", withBody(s.postTree)),
		newRoute("POST", repo+"/git/blobs", "contents:write", withBody(s.postBlob)),
		newRoute("POST", repo+"/check-runs", "checks:write", withBody(s.postCheck)),

		newRoute("GET", repo+"/labels/{name}", "issues:read", s.getLabel),
		newRoute("GET", repo+"/issues/comments/{comment_id}", "comment:read", s.getComment),
		newRoute("GET", repo+"/issues/comments/{comment_id}/reactions", "comment:read", s.listReactions),
		newRoute("POST", repo+"/issues/comments/{comment_id}/reactions", "comment:write", withBody(s.postCommentReaction)),
		newRoute("GET", repo+"/issues/{issue_number}", "issue:read", s.getIssue),
		newRoute("GET", repo+"/issues/{issue_number}/comments", "issue:read", s.listComments),
		newRoute("POST", repo+"/issues/{issue_number}/comments", "issue:write", withBody(s.postComment)),
		newRoute("POST", repo+"/issues/{issue_number}/labels", "issue:write", withBody(s.postIssueLabels)),
		newRoute("DELETE", repo+"/issues/{issue_number}/labels/{name}", "issue:write", s.deleteIssueLabel),
		newRoute("GET", repo+"/issues/{issue_number}/reactions", "issue:read", s.listReactions),
		newRoute("POST", repo+"/issues/{issue_number}/reactions", "issue:write", withBody(s.postReaction)),

		newRoute("GET", repo+"/pulls", "pull_requests:read", s.listPulls),
		newRoute("POST", repo+"/pulls", "pull_requests:write", withBody(s.postPull)),
		newRoute("GET", repo+"/pulls/{pull_number}", "pull_requests:read", s.getPull),
		newRoute("PATCH", repo+"/pulls/{pull_number}", "pull_requests:write", withBody(s.patchPull)),
		newRoute("GET", repo+"/pulls/{pull_number}/reviews", "pull_requests:read", s.listReviews),
		newRoute("GET", repo+"/pulls/{pull_number}/comments", "pull_requests:read", s.listReviewComments),
		newRoute("POST", repo+"/pulls/{pull_number}/comments", "pull_requests:write", withBody(s.postReply)),
	}
}

func (s *Sim) getRepo(c *call) (int, any, error) { return http.StatusOK, s.repoJSON(c.repo), nil }

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
	return http.StatusOK, obj{"permission": role.legacy(), "role_name": name, "user": s.userJSON(u)}, nil
}

// listBranchRules tells of rules that Sim.SetRules made. They are told of only: nothing is refused by them.
func (s *Sim) listBranchRules(c *call) (int, any, error) {
	return list(c, c.repo.rules, func(kind string) *github.RepositoryRule { return &github.RepositoryRule{Type: kind} })
}

func (s *Sim) getBranch(c *call) (int, any, error) {
	name := c.str("branch")
	oid, err := c.repo.git.branch(name)
	if err != nil {
		return 0, nil, &Error{Status: http.StatusNotFound, Message: "Branch not found"}
	}
	commit, err := c.repo.git.commit(oid)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, &github.Branch{Name: &name, Commit: s.commitJSON(c.repo, commit), Protected: new(false)}, nil
}

// commitAt resolves a revision of a call to a commit.
func (c *call) commitAt(rev string) (*commitObject, error) {
	commit, err := c.repo.git.resolve(rev)
	if errors.Is(err, errNoObject) {
		return nil, unprocessable("No commit found for SHA: " + rev)
	}
	return commit, err
}

func (s *Sim) getCommit(c *call) (int, any, error) {
	commit, err := c.commitAt(c.str("ref"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.commitJSON(c.repo, commit), nil
}

// getContents reads a file.
func (s *Sim) getContents(c *call) (int, any, error) {
	commit, err := c.commitAt(c.query("ref", c.repo.def))
	if err != nil {
		return 0, nil, &Error{Status: http.StatusNotFound, Message: "No commit found for the ref"}
	}
	name := c.str("path")
	entry, err := c.repo.git.entry(commit.Tree, name)
	if err != nil || entry.Mode == modeTree {
		return 0, nil, notFound()
	}
	data, err := c.repo.git.object(entry.OID, "blob")
	if err != nil {
		return 0, nil, err
	}
	out := &github.RepositoryContent{
		Type: new("file"), Name: new(path.Base(name)), Path: &name, SHA: &entry.OID, Size: new(len(data)),
		HTMLURL: new(s.html(c.repo) + "/blob/" + commit.OID + "/" + pathEscape(name)),
	}
	if entry.Mode == modeLink {
		out.Type, out.Target = new("symlink"), new(string(data))
	} else {
		out.Content, out.Encoding = new(base64.StdEncoding.EncodeToString(data)), new("base64")
	}
	return http.StatusOK, out, nil
}

// newTip checks that a ref may be set to oid.
func (r *repo) newTip(oid string) error {
	_, err := r.git.commit(oid)
	if errors.Is(err, errNoObject) {
		return unprocessable("Object does not exist")
	}
	return err
}

const workflowDir = ".github/workflows"

func workflowRefusal(path string) string {
	return "refusing to allow a GitHub App to create or update workflow `" + path + "` without `workflows` permission"
}

type refInput struct {
	Ref, SHA string
	Force    bool
}

func (s *Sim) postRef(c *call, in refInput) (int, any, error) {
	name, r := in.Ref, c.repo
	if !validRef(name) {
		return 0, nil, unprocessable("Reference name must start with 'refs/' and contain at least two slashes.")
	}
	if err := r.newTip(in.SHA); err != nil {
		return 0, nil, err
	}
	if r.git.refs[name] != "" {
		return 0, nil, unprocessable("Reference already exists")
	}
	for other := range r.git.refs {
		if strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/") {
			return 0, nil, unprocessable("Reference update failed")
		}
	}
	if err := s.moveRef(r, c.who.author(), name, in.SHA, zeroOID); err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, s.refJSON(r, name, in.SHA), nil
}

// validRef says whether a ref may be called so, by git's rules and GitHub's own.
func validRef(name string) bool {
	rest, ok := strings.CutPrefix(name, "refs/")
	if !ok || !strings.Contains(rest, "/") || strings.HasPrefix(rest, "pull/") || strings.Contains(name, "..") ||
		strings.Contains(name, "@{") || strings.ContainsAny(name, " ~^:?*[\\\x7f") || strings.HasSuffix(name, ".") ||
		strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		return false
	}
	for part := range strings.SplitSeq(rest, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

func (s *Sim) patchRef(c *call, in refInput) (int, any, error) {
	name := "refs/" + c.str("ref")
	old := c.repo.git.refs[name]
	if old == "" || strings.HasPrefix(name, "refs/pull/") {
		return 0, nil, unprocessable("Reference does not exist")
	}
	if err := c.repo.newTip(in.SHA); err != nil {
		return 0, nil, err
	}
	straight, err := c.repo.git.isAncestor(old, in.SHA)
	if err != nil {
		return 0, nil, err
	}
	if !straight && !in.Force {
		return 0, nil, unprocessable("Update is not a fast forward")
	}
	if old != in.SHA {
		if err := s.moveRef(c.repo, c.who.author(), name, in.SHA, old); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, s.refJSON(c.repo, name, in.SHA), nil
}

type commitInput struct {
	Message, Tree     string
	Parents           []string
	Author, Committer *struct{ Name, Email string }
}

// postGitCommit makes a commit object. GitHub signs it where an App makes it in its own name: with neither an
// author nor a committer.
func (s *Sim) postGitCommit(c *call, in commitInput) (int, any, error) {
	git := c.repo.git
	if _, err := git.object(in.Tree, "tree"); err != nil {
		return 0, nil, unprocessable("Tree SHA does not exist")
	}
	for _, p := range in.Parents {
		if _, err := git.commit(p); err != nil {
			return 0, nil, unprocessable("Parent SHA does not exist or is not a commit object")
		}
	}
	now, by := s.now(), c.who.author().user
	commit := commitObject{
		Tree: in.Tree, Parents: in.Parents, Author: by.person(now), Committer: webFlow(now), Message: in.Message,
	}
	if a := in.Author; a != nil {
		commit.Author = person{Name: a.Name, Email: a.Email, When: now}
	}
	oid, err := git.writeCommit(commit)
	if err != nil {
		return 0, nil, err
	}
	if in.Author == nil && in.Committer == nil {
		c.repo.signed[oid] = by
	}
	made, err := git.commit(oid)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, s.gitCommitJSON(c.repo, made), nil
}

type treeInput struct {
	BaseTree string `json:"base_tree"`
	Tree     []struct {
		Path, Mode string
		SHA        string // none deletes the path
	}
}

func (s *Sim) postTree(c *call, in treeInput) (int, any, error) {
	git := c.repo.git
	var changes []change
	for _, e := range in.Tree {
		if !validPath(e.Path) {
			return 0, nil, unprocessable("tree.path contains a malformed path component")
		}
		if !slices.Contains([]string{modeFile, modeExec, modeLink}, e.Mode) {
			return 0, nil, unprocessable("Must supply a valid tree.mode")
		}
		if _, err := git.object(e.SHA, "blob"); e.SHA != "" && err != nil {
			return 0, nil, unprocessable("tree.sha " + e.SHA + " is not a valid blob")
		}
		changes = append(changes, change{Mode: e.Mode, Path: e.Path, OID: e.SHA})
	}
	oid, err := git.writeTree(in.BaseTree, changes)
	if err != nil {
		return 0, nil, unprocessable("GitRPC::BadObjectState")
	}
	return http.StatusCreated, &github.Tree{SHA: &oid, Truncated: new(false)}, nil
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

func (s *Sim) postBlob(c *call, in struct{ Content, Encoding string }) (int, any, error) {
	data := []byte(in.Content)
	if in.Encoding == "base64" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(in.Content), "")); err != nil {
			return 0, nil, unprocessable("content is not valid Base64")
		}
	}
	oid, err := c.repo.git.writeObject("blob", data)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, &github.Blob{SHA: &oid, URL: new(s.api(c.repo) + "/git/blobs/" + oid)}, nil
}

// getRateLimit tells the time, by its headers: nobody asks for more.
func (s *Sim) getRateLimit(*call) (int, any, error) { return http.StatusOK, obj{}, nil }

func (s *Sim) listDeliveries(c *call) (int, any, error) {
	var done []*Delivery
	for _, d := range slices.Backward(c.who.app.hook.log) {
		if d.Done {
			done = append(done, d)
		}
	}
	if cursor := c.query("cursor", ""); cursor != "" {
		before, err := strconv.ParseInt(strings.TrimPrefix(cursor, "v1_"), 10, 64)
		if err != nil {
			return 0, nil, unprocessable("Invalid cursor")
		}
		done = slices.DeleteFunc(done, func(d *Delivery) bool { return d.ID >= before })
	}
	per := c.number("per_page", 30, 100)
	if len(done) > per {
		done = done[:per]
		c.header.Set("Link", "<"+s.base+c.URL.EscapedPath()+"?per_page="+strconv.Itoa(per)+"&cursor=v1_"+
			strconv.FormatInt(done[per-1].ID, 10)+`>; rel="next"`)
	}
	return http.StatusOK, shapes(done, deliveryJSON), nil
}

func (s *Sim) postAttempt(c *call) (int, any, error) {
	return http.StatusAccepted, obj{}, s.redeliver(c.who.app.hook, int64(c.num("delivery_id")))
}

func (s *Sim) getHookConfig(c *call) (int, any, error) {
	return http.StatusOK, &github.HookConfig{
		ContentType: new("json"), InsecureSSL: new("0"), Secret: new("********"), URL: given(c.who.app.hook.url),
	}, nil
}

func (s *Sim) listInstallations(c *call) (int, any, error) {
	return list(c, c.who.app.installs, s.installationJSON)
}

type tokenInput struct {
	Repositories []string
	Permissions  map[string]string
}

// postToken makes a token, for some repositories or permissions only where they are named.
func (s *Sim) postToken(c *call, want tokenInput) (int, any, error) {
	in, ok := find(c.who.app.installs, func(in *installation) bool { return in.id == int64(c.num("installation_id")) })
	if !ok {
		return 0, nil, notFound()
	}
	var repos []*repo
	for _, r := range in.repos {
		if slices.ContainsFunc(want.Repositories, func(name string) bool { return strings.EqualFold(name, r.name) }) {
			repos = append(repos, r)
		}
	}
	if len(repos) < len(want.Repositories) {
		return 0, nil, unprocessable("There is at least one repository that does not exist or is not accessible " +
			"to the parent installation.")
	}
	for name, wish := range want.Permissions {
		if name != "metadata" && level(wish) > level(in.app.permissions[name]) || level(wish) == 0 {
			return 0, nil, unprocessable("The permissions requested are not granted to this installation.")
		}
	}
	t := s.mint(in, repos, want.Permissions)
	return http.StatusCreated, &github.InstallationToken{
		Token: &t.value, ExpiresAt: stamp(t.expires), Permissions: permissionsJSON(t.permissions),
		Repositories: shapes(repos, s.repoJSON),
	}, nil
}

func (s *Sim) listInstallationRepos(c *call) (int, any, error) {
	return http.StatusOK, &github.ListRepositories{
		TotalCount: new(len(c.who.tok.repos)), Repositories: shapes(paginate(c, c.who.tok.repos), s.repoJSON),
	}, nil
}
