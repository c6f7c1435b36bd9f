package ghsim

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// gqlHandlers answer the fields of queries and mutations, by name, with plain maps.
func gqlHandlers() map[string]func(*execution, arguments) (obj, error) {
	return map[string]func(*execution, arguments) (obj, error){
		// Only here a bot's login has its suffix.
		"viewer": func(x *execution, _ arguments) (obj, error) { //nolint:unparam // one of many
			u := x.call.who.author().user
			return obj{"login": u.login, "databaseId": u.id}, nil
		},
		"repository":                    repository,
		"addReaction":                   addReviewReaction,
		"createCommitOnBranch":          createCommitOnBranch,
		"markPullRequestReadyForReview": markReady,
		"resolveReviewThread":           resolveThread,
	}
}

func repository(x *execution, a arguments) (obj, error) {
	r, err := x.repo(a.str("owner"), a.str("name"))
	if err != nil {
		return nil, err
	}
	return x.repoFields(r), nil
}

// repo finds a repository that the token is for.
func (x *execution) repo(owner, name string) (*repo, error) {
	r, err := x.repoByName(owner, name)
	if err != nil || !x.call.who.tok.covers(r) {
		return nil, &gqlError{"NOT_FOUND", "Could not resolve to a Repository with the name '" + owner + "/" + name + "'."}
	}
	return r, nil
}

func (x *execution) repoFields(r *repo) obj {
	return obj{"pullRequest": lazy(func(a arguments) (any, error) {
		if err := x.may("pull_requests", "read"); err != nil {
			return nil, err
		}
		i := r.issue(a.num("number"))
		if i == nil || i.pull == nil {
			return nil, &gqlError{
				"NOT_FOUND", fmt.Sprintf("Could not resolve to a PullRequest with the number of %d.", a.num("number")),
			}
		}
		return x.pullFields(r, i), nil
	})}
}

// may refuses a caller whose token does not allow something.
func (x *execution) may(permission, want string) error {
	if !x.call.who.tok.allows(permission, want) {
		return &gqlError{"FORBIDDEN", "Resource not accessible by integration"}
	}
	return nil
}

func (x *execution) pullFields(r *repo, i *issue) obj {
	state := "OPEN"
	switch {
	case i.pull.merged:
		state = "MERGED"
	case i.closed:
		state = "CLOSED"
	}
	return obj{
		"state": state, "isDraft": i.pull.draft, "headRefOid": i.pull.headOID,
		"reviewThreads": lazy(func(a arguments) (any, error) {
			return page("reviewThreads", a, shapes(i.pull.threads, func(t *thread) obj {
				return obj{
					"id": nodeID("PRRT", t.id), "isResolved": t.resolved != nil, "isOutdated": x.outdated(r, i, t), "path": t.path,
					"comments": lazy(func(a arguments) (any, error) {
						return page("comments", a, shapes(t.comments, func(c *reviewComment) obj { return obj{"databaseId": c.id} }))
					}),
				}
			}))
		}),
	}
}

// page cuts the first so many out of a list, after a cursor.
func page(name string, a arguments, all []obj) (any, error) {
	first := a.num("first")
	switch {
	case a["first"] == nil:
		return nil, &gqlError{
			"MISSING_PAGINATION_BOUNDARIES",
			"You must provide a `first` or `last` value to properly paginate the `" + name + "` connection.",
		}
	case first > 100:
		return nil, &gqlError{"EXCESSIVE_PAGINATION", fmt.Sprintf(
			"Requesting %d records on the `%s` connection exceeds the `first` limit of 100 records.", first, name)}
	}
	from := 0
	if cursor := a.str("after"); cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil {
			return nil, &gqlError{"INVALID_CURSOR_ARGUMENTS", "`" + cursor + "` does not appear to be a valid cursor."}
		}
		from = min(n, len(all))
	}
	to := min(from+first, len(all))
	return obj{
		"nodes": all[from:to], "pageInfo": obj{"hasNextPage": to < len(all), "endCursor": strconv.Itoa(to)},
	}, nil
}

// node finds what a global id names, and the repository and issue it is of.
func (x *execution) node(id string) (r *repo, i *issue, thing any) {
	for _, name := range sortedKeys(x.repos) {
		r := x.repos[name]
		if !x.call.who.tok.covers(r) {
			continue
		}
		for _, i := range r.issues {
			if issueNodeID(i) == id {
				return r, i, i
			}
			if i.pull == nil {
				continue
			}
			if rv, ok := find(i.pull.reviews, func(rv *review) bool { return nodeID("PRR", rv.id) == id }); ok {
				return r, i, rv
			}
			for _, t := range i.pull.threads {
				if nodeID("PRRT", t.id) == id {
					return r, i, t
				}
				if c, ok := find(t.comments, func(c *reviewComment) bool { return nodeID("PRRC", c.id) == id }); ok {
					return r, i, c
				}
			}
		}
	}
	return nil, nil, nil
}

// lookUp finds what a mutation is about, which has to be of a kind, and whether the token may write it.
func lookUp[T any](x *execution, kind, id, permission string) (*repo, *issue, T, error) {
	r, i, thing := x.node(id)
	found, ok := thing.(T)
	if !ok {
		return nil, nil, found, &gqlError{
			"NOT_FOUND", "Could not resolve to " + kind + " node with the global id of '" + id + "'.",
		}
	}
	return r, i, found, x.may(permission, "write")
}

// createCommitOnBranch adds one commit, made and signed by GitHub, to a branch. It cannot express a mode: a new
// file is a plain one, an old one keeps its mode.
func createCommitOnBranch(x *execution, in arguments) (obj, error) {
	owner, name, _ := strings.Cut(in.obj("branch").str("repositoryNameWithOwner"), "/")
	branch := strings.TrimPrefix(in.obj("branch").str("branchName"), "refs/heads/")
	r, err := x.repo(owner, name)
	if err != nil {
		return nil, err
	}
	if err := x.may("contents", "write"); err != nil {
		return nil, err
	}
	head, err := r.git.branch(branch)
	if err != nil {
		return nil, &gqlError{"NOT_FOUND", "Branch not found: " + branch}
	}
	if want := in.str("expectedHeadOid"); want != head {
		return nil, &gqlError{"STALE_DATA", `Expected branch to point to "` + want + `" but it did not.  Pull and try again.`}
	}
	text := in.obj("message").str("headline")
	if strings.TrimSpace(text) == "" {
		return nil, &gqlError{"UNPROCESSABLE", "A commit message headline is required."}
	}
	if body := in.obj("message").str("body"); body != "" {
		text += "\n\n" + body
	}
	parent, err := r.git.commit(head)
	if err != nil {
		return nil, err
	}
	changes, err := x.fileChanges(r, parent, in.obj("fileChanges"))
	if err != nil {
		return nil, err
	}
	tree, err := r.git.writeTree(parent.Tree, changes)
	if err != nil {
		return nil, err
	}
	now, by := x.now(), x.call.who.author()
	oid, err := r.git.writeCommit(commitObject{
		Tree: tree, Parents: []string{head}, Author: by.user.person(now), Committer: webFlow(now), Message: text,
	})
	if err != nil {
		return nil, err
	}
	r.signed[oid] = by.user
	if err := x.moveRef(r, by, "refs/heads/"+branch, oid, head); err != nil {
		return nil, err
	}
	return obj{"commit": obj{
		"oid": oid, "tree": obj{"oid": tree},
		"signature": obj{"isValid": true, "wasSignedByGitHub": true, "state": "VALID"},
	}}, nil
}

// fileChanges turns additions and deletions into changes of a commit's tree.
func (x *execution) fileChanges(r *repo, parent *commitObject, in arguments) ([]change, error) {
	files, err := r.git.files(parent.Tree)
	if err != nil {
		return nil, err
	}
	var changes []change
	seen := map[string]bool{}
	check := func(path string) error {
		switch {
		case !validPath(path):
			return &gqlError{"UNPROCESSABLE", "A path was provided that is not valid: `" + path + "`"}
		case seen[path]:
			return &gqlError{"UNPROCESSABLE", "A path was provided more than once: `" + path + "`"}
		case strings.HasPrefix(path, workflowDir+"/") && !x.call.who.tok.allows("workflows", "write"):
			return &gqlError{"FORBIDDEN", workflowRefusal(path)}
		}
		seen[path] = true
		return nil
	}
	for _, d := range in.list("deletions") {
		path := d.str("path")
		if err := check(path); err != nil {
			return nil, err
		}
		if files[path].OID == "" {
			return nil, &gqlError{
				"UNPROCESSABLE",
				"A path was requested for deletion which does not exist as of commit oid `" + parent.OID + "`",
			}
		}
		changes = append(changes, change{Path: path})
	}
	for _, a := range in.list("additions") {
		path := a.str("path")
		if err := check(path); err != nil {
			return nil, err
		}
		data, err := base64.StdEncoding.DecodeString(a.str("contents"))
		if err != nil {
			return nil, &gqlError{"UNPROCESSABLE", "A file was provided with contents that are not valid Base64: `" + path + "`"}
		}
		oid, err := r.git.writeObject("blob", data)
		if err != nil {
			return nil, err
		}
		mode := modeFile
		if files[path].Mode == modeExec {
			mode = modeExec
		}
		changes = append(changes, change{Mode: mode, Path: path, OID: oid})
	}
	return changes, nil
}

func markReady(x *execution, in arguments) (obj, error) {
	id := in.str("pullRequestId")
	r, i, _, err := lookUp[*issue](x, "PullRequest", id, "pull_requests")
	switch {
	case err != nil:
		return nil, err
	case i.pull == nil:
		return nil, &gqlError{"NOT_FOUND", "Could not resolve to PullRequest node with the global id of '" + id + "'."}
	case i.closed:
		return nil, &gqlError{"UNPROCESSABLE", "The pull request is closed."}
	}
	x.setDraft(r, i, x.call.who.author(), false)
	return obj{"pullRequest": x.pullFields(r, i)}, nil
}

func resolveThread(x *execution, in arguments) (obj, error) {
	r, i, t, err := lookUp[*thread](x, "PullRequestReviewThread", in.str("threadId"), "pull_requests")
	if err != nil {
		return nil, err
	}
	x.setResolved(r, i, t, x.call.who.author(), true)
	return obj{"thread": obj{"isResolved": true}}, nil
}

// addReviewReaction reacts to a review or to what was said in one. What else can be reacted to has an address in
// REST.
func addReviewReaction(x *execution, in arguments) (obj, error) {
	_, _, thing := x.node(in.str("subjectId"))
	var to *[]*reaction
	switch thing := thing.(type) {
	case *review:
		to = &thing.reactions
	case *reviewComment:
		to = &thing.reactions
	default:
		return nil, &gqlError{
			"NOT_FOUND", "Could not resolve to a node with the global id of '" + in.str("subjectId") + "'.",
		}
	}
	if err := x.may("pull_requests", "write"); err != nil {
		return nil, err
	}
	contents := map[string]string{
		"THUMBS_UP": "+1", "THUMBS_DOWN": "-1", "LAUGH": "laugh", "CONFUSED": "confused", "HEART": "heart",
		"HOORAY": "hooray", "ROCKET": "rocket", "EYES": "eyes",
	}
	_, _, err := x.react(to, x.call.who.author().user, contents[in.str("content")])
	return obj{}, err
}
