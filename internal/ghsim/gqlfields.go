package ghsim

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The values that GraphQL fields hang on. Each knows its type's name.
type (
	typed   interface{ typeName() string }
	gqlRoot struct{}
	// gqlUser is a person or bot. As the viewer a bot counts as a user, and
	// only there its login has the suffix.
	gqlUser struct {
		u      *user
		viewer bool
	}
	gqlRepo struct{ r *repo }
	gqlRef  struct {
		r   *repo
		ref gitRef
	}
	gqlCommit struct {
		r *repo
		c *commitObject
	}
	gqlTree struct {
		r   *repo
		oid string
	}
	gqlEntry struct {
		r *repo
		e treeEntry
	}
	gqlBlob struct {
		r    *repo
		oid  string
		data []byte
	}
	gqlActor     struct{ p person }
	gqlSignature struct{ gqlCommit }
	gqlIssue     struct {
		r *repo
		i *issue
	}
	gqlPull  struct{ gqlIssue }
	gqlLabel struct {
		r *repo
		l *label
	}
	gqlComment struct {
		gqlIssue

		c *comment
	}
	gqlThread struct {
		gqlIssue

		t *thread
	}
	gqlReviewComment struct {
		gqlThread

		c *reviewComment
	}
	gqlCheck struct {
		r *repo
		c *checkRun
	}
	gqlPullCommit struct {
		gqlPull

		c *commitObject
	}
	gqlRateLimit struct{ used int }
	gqlPageInfo  struct {
		next, previous bool
		end            int // how many of the list there are up to its end
	}
	// gqlConnection is a page of a list.
	gqlConnection struct {
		name  string
		nodes []any
		total int
		page  gqlPageInfo
	}
	// gqlPayload is what a mutation returns: its fields, ready.
	gqlPayload struct {
		name   string
		fields map[string]any
	}
)

func (gqlRoot) typeName() string          { return "Query" }
func (gqlRepo) typeName() string          { return "Repository" }
func (gqlRef) typeName() string           { return "Ref" }
func (gqlCommit) typeName() string        { return "Commit" }
func (gqlTree) typeName() string          { return "Tree" }
func (gqlEntry) typeName() string         { return "TreeEntry" }
func (gqlBlob) typeName() string          { return "Blob" }
func (gqlActor) typeName() string         { return "GitActor" }
func (gqlSignature) typeName() string     { return "GpgSignature" }
func (gqlIssue) typeName() string         { return "Issue" }
func (gqlPull) typeName() string          { return "PullRequest" }
func (gqlLabel) typeName() string         { return "Label" }
func (gqlComment) typeName() string       { return "IssueComment" }
func (gqlThread) typeName() string        { return "PullRequestReviewThread" }
func (gqlReviewComment) typeName() string { return "PullRequestReviewComment" }
func (gqlPullCommit) typeName() string    { return "PullRequestCommit" }
func (gqlCheck) typeName() string         { return "CheckRun" }
func (gqlRateLimit) typeName() string     { return "RateLimit" }
func (gqlPageInfo) typeName() string      { return "PageInfo" }
func (c gqlConnection) typeName() string  { return c.name }
func (p gqlPayload) typeName() string     { return p.name }

func (u gqlUser) typeName() string {
	if u.viewer {
		return "User"
	}
	return u.u.kind
}

// on makes a resolver from a function of a parent of type T.
func on[T any](f func(x *execution, parent T, a arguments) (any, error)) resolver {
	return func(x *execution, parent any, a arguments) (any, error) {
		p, ok := parent.(T)
		if !ok {
			return nil, fmt.Errorf("ghsim: parent is %T", parent)
		}
		return f(x, p, a)
	}
}

// get is on for what needs neither arguments nor git.
func get[T any](f func(x *execution, parent T) any) resolver {
	return on(func(x *execution, parent T, _ arguments) (any, error) { return f(x, parent), nil })
}

// payload reads a field of a mutation's result.
func payload(name string) resolver {
	return get(func(_ *execution, p gqlPayload) any { return p.fields[name] })
}

// connection lists the fields that every connection has.
func connection() map[string]resolver {
	return map[string]resolver{
		"nodes":      get(func(_ *execution, c gqlConnection) any { return c.nodes }),
		"totalCount": get(func(_ *execution, c gqlConnection) any { return c.total }),
		"pageInfo":   get(func(_ *execution, c gqlConnection) any { return c.page }),
	}
}

// connect cuts a page out of a list by first, last, after and before.
func connect(name string, all []any, a arguments) (any, error) {
	first, last := a.num("first"), a.num("last")
	if first < 0 && last < 0 {
		return nil, &gqlError{
			"MISSING_PAGINATION_BOUNDARIES",
			"You must provide a `first` or `last` value to properly paginate the `" + strings.TrimSuffix(name, "Connection") +
				"` connection.",
		}
	}
	if first > 100 || last > 100 {
		return nil, &gqlError{
			"EXCESSIVE_PAGINATION",
			"Requesting " + strconv.Itoa(max(first, last)) +
				" records on the connection exceeds the `first` limit of 100 records.",
		}
	}
	position := func(cursor string, def int) int {
		raw, err := base64.StdEncoding.DecodeString(cursor)
		n, err2 := strconv.Atoi(strings.TrimPrefix(string(raw), "cursor:"))
		if cursor == "" || errors.Join(err, err2) != nil {
			return def
		}
		return n
	}
	from, to := position(a.str("after"), 0), position(a.str("before"), len(all)+1)-1
	to = min(max(to, 0), len(all))
	from = min(from, to)
	if first >= 0 {
		to = min(to, from+first)
	} else {
		from = max(from, to-last)
	}
	return gqlConnection{
		name: name, nodes: all[from:to], total: len(all), page: gqlPageInfo{next: to < len(all), previous: from > 0, end: to},
	}, nil
}

func (x *execution) actor(u *user) any {
	if u == nil {
		return nil
	}
	return gqlUser{u: u}
}

// repository finds a repository the caller may see.
func (x *execution) repository(owner, name string) (*repo, error) {
	missing := &gqlError{"NOT_FOUND", "Could not resolve to a Repository with the name '" + owner + "/" + name + "'."}
	r, err := x.sim.repoByName(owner, name)
	if err != nil {
		return nil, missing
	}
	if !x.sees(r) {
		return nil, missing
	}
	return r, nil
}

func (x *execution) sees(r *repo) bool {
	if t := x.call.who.tok; t != nil {
		return slices.Contains(t.repos, r)
	}
	return r.role(x.call.who.user) != RoleNone
}

// may refuses a caller whose token or role does not allow something.
func (x *execution) may(r *repo, permission, want string) error {
	if t := x.call.who.tok; t != nil {
		if !t.allows(permission, want) {
			return &gqlError{"FORBIDDEN", "Resource not accessible by integration"}
		}
		return nil
	}
	least := RoleRead
	if want == "write" {
		least = RoleWrite
	}
	if r.role(x.call.who.user).rank() < least.rank() {
		return &gqlError{
			"FORBIDDEN", x.call.who.user.login + " does not have the correct permissions to execute this operation",
		}
	}
	return nil
}

// node finds what a global id names.
func (x *execution) node(id string) (any, error) {
	missing := &gqlError{"NOT_FOUND", "Could not resolve to a node with the global id of '" + id + "'."}
	plain, rest, _ := strings.Cut(id, ":")
	prefix, n, ok := parseNodeID(plain)
	if !ok {
		return nil, missing
	}
	for _, u := range x.sim.users {
		if u.id == n && u.nodeID() == id {
			return gqlUser{u: u}, nil
		}
	}
	for _, name := range sortedKeys(x.sim.repos) {
		r := x.sim.repos[name]
		if !x.sees(r) {
			continue
		}
		switch {
		case r.id == n && prefix == "R":
			return gqlRepo{r}, nil
		case r.id == n && prefix == "REF":
			return x.ref(r, rest)
		case r.id == n && prefix == "C":
			return x.gitObject(r, rest)
		}
		if ch, ok := find(r.checks, func(ch *checkRun) bool { return ch.id == n && prefix == "CR" }); ok {
			if err := x.may(r, "checks", "read"); err != nil {
				return nil, err
			}
			return gqlCheck{r, ch}, nil
		}
		for _, i := range r.issues {
			switch {
			case i.id == n && i.pull != nil && prefix == "PR":
				if err := x.may(r, "pull_requests", "read"); err != nil {
					return nil, err
				}
				return gqlPull{gqlIssue{r, i}}, nil
			case i.id == n && i.pull == nil && prefix == "I":
				if err := x.may(r, "issues", "read"); err != nil {
					return nil, err
				}
				return gqlIssue{r, i}, nil
			}
			if c, ok := find(i.comments, func(c *comment) bool { return c.id == n && prefix == "IC" }); ok {
				return gqlComment{gqlIssue{r, i}, c}, nil
			}
			if i.pull == nil {
				continue
			}
			for _, t := range i.pull.threads {
				if t.id == n && prefix == "PRRT" {
					return gqlThread{gqlIssue{r, i}, t}, nil
				}
			}
		}
	}
	return nil, missing
}

// ref finds a ref by its full name; a missing one is null.
func (x *execution) ref(r *repo, name string) (any, error) {
	refs, err := r.git.refs(x.call.Context(), name)
	if err != nil {
		return nil, err
	}
	ref, ok := find(refs, func(g gitRef) bool { return g.Name == name })
	if !ok {
		return nil, nil
	}
	return gqlRef{r, ref}, nil
}

// gitObject reads "main", "main:path", an object name …; a missing one is null.
func (x *execution) gitObject(r *repo, expression string) (any, error) {
	if err := x.may(r, "contents", "read"); err != nil {
		return nil, err
	}
	rev, path, hasPath := strings.Cut(expression, ":")
	if !safeRev(rev) {
		return nil, nil
	}
	name := rev
	if hasPath {
		name += ":" + path
	}
	oid, typ, data, err := r.git.object(x.call.Context(), name, "")
	if errors.Is(err, errNoObject) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	switch typ {
	case "commit":
		c, err := r.git.commit(x.call.Context(), oid)
		return gqlCommit{r, c}, err
	case "tree":
		return gqlTree{r, oid}, nil
	case "blob":
		return gqlBlob{r, oid, data}, nil
	default:
		return nil, nil
	}
}

func (x *execution) issue(r *repo, number int, wantPull bool) (any, error) {
	kind, permission := "Issue", "issues"
	if wantPull {
		kind, permission = "PullRequest", "pull_requests"
	}
	if err := x.may(r, permission, "read"); err != nil {
		return nil, err
	}
	i := r.issue(number)
	if i == nil || (i.pull != nil) != wantPull {
		return nil, &gqlError{"NOT_FOUND", fmt.Sprintf("Could not resolve to a %s with the number of %d.", kind, number)}
	}
	if wantPull {
		return gqlPull{gqlIssue{r, i}}, nil
	}
	return gqlIssue{r, i}, nil
}

// issueFields are what issues and pull requests share. T picks the issue out
// of the parent.
func issueFields[T any](pick func(T) gqlIssue) map[string]resolver {
	field := func(f func(x *execution, p gqlIssue) any) resolver {
		return get(func(x *execution, p T) any { return f(x, pick(p)) })
	}
	return map[string]resolver{
		"id":         field(func(x *execution, p gqlIssue) any { return x.sim.issueJSON(p.r, p.i)["node_id"] }),
		"databaseId": field(func(_ *execution, p gqlIssue) any { return p.i.id }),
		"number":     field(func(_ *execution, p gqlIssue) any { return p.i.number }),
		"title":      field(func(_ *execution, p gqlIssue) any { return p.i.title }),
		"body":       field(func(_ *execution, p gqlIssue) any { return p.i.body }),
		"url":        field(func(x *execution, p gqlIssue) any { return x.sim.issuePage(p.r, p.i) }),
		"author":     field(func(x *execution, p gqlIssue) any { return x.actor(p.i.user) }),
		"closed":     field(func(_ *execution, p gqlIssue) any { return p.i.closed }),
		"locked":     field(func(_ *execution, i gqlIssue) any { return i.i.locked }),
		"createdAt":  field(func(_ *execution, p gqlIssue) any { return stamp(p.i.created) }),
		"updatedAt":  field(func(_ *execution, p gqlIssue) any { return stamp(p.i.updated) }),
		"closedAt":   field(func(_ *execution, p gqlIssue) any { return stamp(p.i.closedAt) }),
		"repository": field(func(_ *execution, p gqlIssue) any { return gqlRepo{p.r} }),
		"labels": on(func(_ *execution, parent T, a arguments) (any, error) {
			p := pick(parent)
			var all []any
			for _, l := range p.i.labels {
				all = append(all, gqlLabel{p.r, l})
			}
			return connect("LabelConnection", all, a)
		}),
		"comments": on(func(_ *execution, parent T, a arguments) (any, error) {
			p := pick(parent)
			var all []any
			for _, c := range p.i.comments {
				all = append(all, gqlComment{p, c})
			}
			return connect("IssueCommentConnection", all, a)
		}),
	}
}

// gitObjectFields are what commits, trees and blobs share.
func gitObjectFields[T any](repository func(T) *repo, oid func(T) string, prefix string) map[string]resolver {
	return map[string]resolver{
		"id":             get(func(_ *execution, p T) any { return nodeID(prefix, repository(p).id) + ":" + oid(p) }),
		"oid":            get(func(_ *execution, p T) any { return oid(p) }),
		"abbreviatedOid": get(func(_ *execution, p T) any { return oid(p)[:7] }),
		"commitUrl":      get(func(x *execution, p T) any { return x.sim.html(repository(p)) + "/commit/" + oid(p) }),
		"repository":     get(func(_ *execution, p T) any { return gqlRepo{repository(p)} }),
	}
}

func merged(parts ...map[string]resolver) map[string]resolver {
	all := map[string]resolver{}
	for _, m := range parts {
		maps.Copy(all, m)
	}
	return all
}

func actorFields() map[string]resolver {
	return map[string]resolver{
		"id": get(func(_ *execution, u gqlUser) any { return u.u.nodeID() }),
		"login": get(func(_ *execution, u gqlUser) any {
			if u.viewer {
				return u.u.login
			}
			return strings.TrimSuffix(u.u.login, "[bot]")
		}),
		"databaseId":   get(func(_ *execution, u gqlUser) any { return u.u.id }),
		"url":          get(func(x *execution, u gqlUser) any { return x.sim.base + "/" + u.u.login }),
		"resourcePath": get(func(_ *execution, u gqlUser) any { return "/" + u.u.login }),
	}
}

func pullState(i *issue) string {
	switch {
	case i.pull.merged:
		return "MERGED"
	case i.closed:
		return "CLOSED"
	default:
		return "OPEN"
	}
}

// resolvers lists every field that can be queried. The schema is trimmed to it.
func resolvers() map[string]map[string]resolver {
	return map[string]map[string]resolver{
		"Query": {
			"viewer": get(func(x *execution, _ gqlRoot) any { return gqlUser{u: x.call.who.author().user, viewer: true} }),
			"repository": on(func(x *execution, _ gqlRoot, a arguments) (any, error) {
				r, err := x.repository(a.str("owner"), a.str("name"))
				return gqlRepo{r}, err
			}),
			"id":        get(func(*execution, gqlRoot) any { return "Q_root" }),
			"node":      on(func(x *execution, _ gqlRoot, a arguments) (any, error) { return x.node(a.str("id")) }),
			"rateLimit": get(func(x *execution, _ gqlRoot) any { return x.rateLimit() }),
		},
		"Mutation": {
			"createRef":                     on(createRef),
			"createCommitOnBranch":          on(createCommitOnBranch),
			"markPullRequestReadyForReview": on(setDraft("MarkPullRequestReadyForReviewPayload", false)),
			"convertPullRequestToDraft":     on(setDraft("ConvertPullRequestToDraftPayload", true)),
			"resolveReviewThread":           on(resolveThread),
			"createCheckRun":                on(createCheckRun),
			"updateCheckRun":                on(updateCheckRun),
			"updatePullRequest":             on(updatePullRequest),
			"addReaction":                   on(addReviewReaction),
			"minimizeComment":               on(minimizeComment),
		},
		"MinimizeCommentPayload": {
			"clientMutationId": payload("clientMutationId"), "minimizedComment": payload("minimizedComment"),
		},
		"Minimizable": {"isMinimized": nil, "minimizedReason": nil},
		"UpdatePullRequestPayload": {
			"clientMutationId": payload("clientMutationId"), "pullRequest": payload("pullRequest"),
		},
		"CreateCheckRunPayload": {
			"clientMutationId": payload("clientMutationId"), "checkRun": payload("checkRun"),
		},
		"UpdateCheckRunPayload": {
			"clientMutationId": payload("clientMutationId"), "checkRun": payload("checkRun"),
		},
		"CreateRefPayload": {"clientMutationId": payload("clientMutationId"), "ref": payload("ref")},
		"CreateCommitOnBranchPayload": {
			"clientMutationId": payload("clientMutationId"), "commit": payload("commit"), "ref": payload("ref"),
		},
		"MarkPullRequestReadyForReviewPayload": {
			"clientMutationId": payload("clientMutationId"), "pullRequest": payload("pullRequest"),
		},
		"ConvertPullRequestToDraftPayload": {
			"clientMutationId": payload("clientMutationId"), "pullRequest": payload("pullRequest"),
		},
		"AddReactionPayload":         {"clientMutationId": payload("clientMutationId")},
		"ResolveReviewThreadPayload": {"clientMutationId": payload("clientMutationId"), "thread": payload("thread")},
		"RateLimit": {
			"cost":      get(func(*execution, gqlRateLimit) any { return 1 }),
			"limit":     get(func(*execution, gqlRateLimit) any { return hourlyLimit }),
			"used":      get(func(_ *execution, p gqlRateLimit) any { return p.used }),
			"remaining": get(func(_ *execution, p gqlRateLimit) any { return hourlyLimit - p.used }),
		},
		"PageInfo": {
			"hasNextPage":     get(func(_ *execution, p gqlPageInfo) any { return p.next }),
			"hasPreviousPage": get(func(_ *execution, p gqlPageInfo) any { return p.previous }),
			"endCursor": get(func(_ *execution, p gqlPageInfo) any {
				if p.end == 0 {
					return nil
				}
				return base64.StdEncoding.EncodeToString([]byte("cursor:" + strconv.Itoa(p.end)))
			}),
		},
		"LabelConnection":                    connection(),
		"IssueCommentConnection":             connection(),
		"PullRequestConnection":              connection(),
		"PullRequestCommitConnection":        connection(),
		"PullRequestReviewThreadConnection":  connection(),
		"PullRequestReviewCommentConnection": connection(),
		"CommitConnection":                   connection(),
		"CommitHistoryConnection":            connection(),
		"User":                               actorFields(),
		"Bot":                                actorFields(),
		"Organization":                       actorFields(),
		"Actor":                              {"login": nil, "url": nil, "resourcePath": nil},
		"Node":                               {"id": nil},
		"GitObject": {
			"id": nil, "oid": nil, "abbreviatedOid": nil, "commitUrl": nil, "repository": nil,
		},
		"GitSignature": {
			"email": nil, "isValid": nil, "payload": nil, "signature": nil, "signer": nil, "state": nil,
			"wasSignedByGitHub": nil,
		},
		"RepositoryOwner": {"id": nil, "login": nil, "url": nil, "resourcePath": nil},
		"Repository": {
			"id":            get(func(_ *execution, p gqlRepo) any { return nodeID("R", p.r.id) }),
			"databaseId":    get(func(_ *execution, p gqlRepo) any { return p.r.id }),
			"name":          get(func(_ *execution, p gqlRepo) any { return p.r.name }),
			"nameWithOwner": get(func(_ *execution, p gqlRepo) any { return p.r.fullName() }),
			"owner":         get(func(_ *execution, p gqlRepo) any { return gqlUser{u: p.r.owner} }),
			"url":           get(func(x *execution, p gqlRepo) any { return x.sim.html(p.r) }),
			"isPrivate":     get(func(_ *execution, p gqlRepo) any { return p.r.private }),
			"defaultBranchRef": on(func(x *execution, p gqlRepo, _ arguments) (any, error) {
				return x.ref(p.r, "refs/heads/"+p.r.def)
			}),
			"ref": on(func(x *execution, p gqlRepo, a arguments) (any, error) {
				name := a.str("qualifiedName")
				if !strings.HasPrefix(name, "refs/") {
					name = "refs/heads/" + name
				}
				return x.ref(p.r, name)
			}),
			"object": on(func(x *execution, p gqlRepo, a arguments) (any, error) {
				if oid := a.str("oid"); oid != "" {
					return x.gitObject(p.r, oid)
				}
				return x.gitObject(p.r, a.str("expression"))
			}),
			"issue": on(func(x *execution, p gqlRepo, a arguments) (any,
				error) {
				return x.issue(p.r, a.num("number"), false)
			}),
			"pullRequest": on(func(x *execution, p gqlRepo, a arguments) (any,
				error) {
				return x.issue(p.r, a.num("number"), true)
			}),
			"pullRequests": on(func(x *execution, p gqlRepo, a arguments) (any, error) {
				if err := x.may(p.r, "pull_requests", "read"); err != nil {
					return nil, err
				}
				var all []any
				for _, i := range p.r.issues {
					if i.pull == nil || a.str("headRefName") != "" && a.str("headRefName") != i.pull.head ||
						a.str("baseRefName") != "" && a.str("baseRefName") != i.pull.base {
						continue
					}
					if states := a.list("states"); len(states) > 0 && !slices.Contains(states, any(pullState(i))) {
						continue
					}
					all = append(all, gqlPull{gqlIssue{p.r, i}})
				}
				return connect("PullRequestConnection", all, a)
			}),
		},
		"Ref": {
			"id": get(func(_ *execution, p gqlRef) any { return nodeID("REF", p.r.id) + ":" + p.ref.Name }),
			"name": get(func(_ *execution, p gqlRef) any {
				return strings.TrimPrefix(strings.TrimPrefix(p.ref.Name, "refs/heads/"), "refs/tags/")
			}),
			"prefix":     get(func(_ *execution, p gqlRef) any { return p.ref.Name[:strings.IndexByte(p.ref.Name[5:], '/')+6] }),
			"repository": get(func(_ *execution, p gqlRef) any { return gqlRepo{p.r} }),
			"target":     on(func(x *execution, p gqlRef, _ arguments) (any, error) { return x.gitObject(p.r, p.ref.OID) }),
		},
		"Commit": merged(gitObjectFields(func(p gqlCommit) *repo { return p.r }, func(p gqlCommit) string { return p.c.OID },
			"C"), map[string]resolver{
			"url":             get(func(x *execution, p gqlCommit) any { return x.sim.html(p.r) + "/commit/" + p.c.OID }),
			"message":         get(func(_ *execution, p gqlCommit) any { return p.c.Message }),
			"messageHeadline": get(func(_ *execution, p gqlCommit) any { return p.c.subject() }),
			"messageBody":     get(func(_ *execution, p gqlCommit) any { return p.c.body() }),
			"authoredDate":    get(func(_ *execution, p gqlCommit) any { return stamp(p.c.Author.When) }),
			"committedDate":   get(func(_ *execution, p gqlCommit) any { return stamp(p.c.Committer.When) }),
			"committedViaWeb": get(func(_ *execution, p gqlCommit) any { return p.r.signed[p.c.OID] != nil }),
			"author":          get(func(_ *execution, p gqlCommit) any { return gqlActor{p.c.Author} }),
			"committer":       get(func(_ *execution, p gqlCommit) any { return gqlActor{p.c.Committer} }),
			"tree":            get(func(_ *execution, p gqlCommit) any { return gqlTree{p.r, p.c.Tree} }),
			"signature": get(func(_ *execution, p gqlCommit) any {
				if p.r.signed[p.c.OID] == nil {
					return nil
				}
				return gqlSignature{p}
			}),
			"parents": on(func(x *execution, p gqlCommit, a arguments) (any, error) {
				var all []any
				for _, oid := range p.c.Parents {
					c, err := p.r.git.commit(x.call.Context(), oid)
					if err != nil {
						return nil, err
					}
					all = append(all, gqlCommit{p.r, c})
				}
				return connect("CommitConnection", all, a)
			}),
			"history": on(func(x *execution, p gqlCommit, a arguments) (any, error) {
				commits, err := p.r.git.log(x.call.Context(), p.c.OID, 0)
				if err != nil {
					return nil, err
				}
				var all []any
				for _, c := range commits {
					all = append(all, gqlCommit{p.r, c})
				}
				return connect("CommitHistoryConnection", all, a)
			}),
		}),
		"GpgSignature": {
			"email":             get(func(*execution, gqlSignature) any { return "noreply@github.com" }),
			"isValid":           get(func(*execution, gqlSignature) any { return true }),
			"wasSignedByGitHub": get(func(*execution, gqlSignature) any { return true }),
			"state":             get(func(*execution, gqlSignature) any { return "VALID" }),
			"signer":            get(func(x *execution, _ gqlSignature) any { return gqlUser{u: x.sim.webFlow} }),
			"payload":           get(func(_ *execution, p gqlSignature) any { return p.r.verification(p.c)["payload"] }),
			"signature":         get(func(_ *execution, p gqlSignature) any { return p.r.verification(p.c)["signature"] }),
		},
		"GitActor": {
			"name":  get(func(_ *execution, p gqlActor) any { return p.p.Name }),
			"email": get(func(_ *execution, p gqlActor) any { return p.p.Email }),
			"date":  get(func(_ *execution, p gqlActor) any { return stamp(p.p.When) }),
			"user": get(func(x *execution, p gqlActor) any {
				if u := x.sim.account(p.p); u != nil && u.kind == "User" {
					return gqlUser{u: u}
				}
				return nil
			}),
		},
		"Tree": merged(gitObjectFields(func(p gqlTree) *repo { return p.r }, func(p gqlTree) string { return p.oid }, "T"),
			map[string]resolver{
				"entries": on(func(x *execution, p gqlTree, _ arguments) (any, error) {
					entries, err := p.r.git.tree(x.call.Context(), p.oid, false)
					if err != nil {
						return nil, err
					}
					list := []gqlEntry{}
					for _, e := range entries {
						list = append(list, gqlEntry{p.r, e})
					}
					return list, nil
				}),
			}),
		"TreeEntry": {
			"name": get(func(_ *execution, p gqlEntry) any { return p.e.Path }),
			"path": get(func(_ *execution, p gqlEntry) any { return p.e.Path }),
			"oid":  get(func(_ *execution, p gqlEntry) any { return p.e.OID }),
			"type": get(func(_ *execution, p gqlEntry) any { return p.e.Type }),
			"size": get(func(_ *execution, p gqlEntry) any { return p.e.Size }),
			"mode": on(func(_ *execution, p gqlEntry, _ arguments) (any, error) { return strconv.ParseInt(p.e.Mode, 8, 32) }),
			"object": on(func(x *execution, p gqlEntry, _ arguments) (any, error) {
				return x.gitObject(p.r, p.e.OID)
			}),
		},
		"Blob": merged(gitObjectFields(func(p gqlBlob) *repo { return p.r }, func(p gqlBlob) string { return p.oid }, "B"),
			map[string]resolver{
				"byteSize":    get(func(_ *execution, p gqlBlob) any { return len(p.data) }),
				"isBinary":    get(func(_ *execution, p gqlBlob) any { return binary(p.data) }),
				"isTruncated": get(func(*execution, gqlBlob) any { return false }),
				"text": get(func(_ *execution, p gqlBlob) any {
					if binary(p.data) {
						return nil
					}
					return string(p.data)
				}),
			}),
		"Label": {
			"id":    get(func(_ *execution, p gqlLabel) any { return nodeID("LA", p.l.id) }),
			"name":  get(func(_ *execution, p gqlLabel) any { return p.l.name }),
			"color": get(func(_ *execution, p gqlLabel) any { return p.l.color }),
		},
		"Issue": merged(issueFields(func(p gqlIssue) gqlIssue { return p }), map[string]resolver{
			"state": get(func(_ *execution, p gqlIssue) any { return strings.ToUpper(p.i.state()) }),
		}),
		"IssueComment": {
			"id":              get(func(_ *execution, p gqlComment) any { return nodeID("IC", p.c.id) }),
			"databaseId":      get(func(_ *execution, p gqlComment) any { return p.c.id }),
			"body":            get(func(_ *execution, p gqlComment) any { return p.c.body }),
			"author":          get(func(x *execution, p gqlComment) any { return x.actor(p.c.user) }),
			"createdAt":       get(func(_ *execution, p gqlComment) any { return stamp(p.c.created) }),
			"isMinimized":     get(func(_ *execution, p gqlComment) any { return p.c.folded != "" }),
			"minimizedReason": get(func(_ *execution, p gqlComment) any { return orNull(p.c.folded) }),
			"url": get(func(x *execution, p gqlComment) any {
				return x.sim.issuePage(p.r, p.i) + "#issuecomment-" + strconv.FormatInt(p.c.id, 10)
			}),
		},
		"PullRequest": merged(issueFields(func(p gqlPull) gqlIssue { return p.gqlIssue }), map[string]resolver{
			"state":       get(func(_ *execution, p gqlPull) any { return pullState(p.i) }),
			"isDraft":     get(func(_ *execution, p gqlPull) any { return p.i.pull.draft }),
			"merged":      get(func(_ *execution, p gqlPull) any { return p.i.pull.merged }),
			"mergedAt":    get(func(_ *execution, p gqlPull) any { return stamp(p.i.pull.mergedAt) }),
			"headRefName": get(func(_ *execution, p gqlPull) any { return p.i.pull.head }),
			"headRefOid":  get(func(_ *execution, p gqlPull) any { return p.i.pull.headOID }),
			"baseRefName": get(func(_ *execution, p gqlPull) any { return p.i.pull.base }),
			"baseRefOid":  get(func(_ *execution, p gqlPull) any { return p.i.pull.baseOID }),
			"mergeable": get(func(x *execution, p gqlPull) any {
				switch ok, _ := x.sim.mergeable(p.r, p.i); ok {
				case true:
					return "MERGEABLE"
				case false:
					return "CONFLICTING"
				default:
					return "UNKNOWN"
				}
			}),
			"mergeCommit": on(func(x *execution, p gqlPull, _ arguments) (any, error) {
				if p.i.pull.mergeOID == "" {
					return nil, nil
				}
				return x.gitObject(p.r, p.i.pull.mergeOID)
			}),
			"commits": on(func(x *execution, p gqlPull, a arguments) (any, error) {
				commits, err := x.sim.pullCommits(x.call.Context(), p.r, p.i.pull)
				if err != nil {
					return nil, err
				}
				var all []any
				for _, c := range commits {
					all = append(all, gqlPullCommit{p, c})
				}
				return connect("PullRequestCommitConnection", all, a)
			}),
			"reviewThreads": on(func(_ *execution, p gqlPull, a arguments) (any, error) {
				var all []any
				for _, t := range p.i.pull.threads {
					all = append(all, gqlThread{p.gqlIssue, t})
				}
				return connect("PullRequestReviewThreadConnection", all, a)
			}),
		}),
		"CheckRun": {
			"id":         get(func(_ *execution, p gqlCheck) any { return nodeID("CR", p.c.id) }),
			"name":       get(func(_ *execution, p gqlCheck) any { return p.c.name }),
			"externalId": get(func(_ *execution, p gqlCheck) any { return orNull(p.c.externalID) }),
			"status":     get(func(_ *execution, p gqlCheck) any { return strings.ToUpper(p.c.status) }),
			"conclusion": get(func(_ *execution, p gqlCheck) any { return orNull(strings.ToUpper(p.c.conclusion)) }),
			"detailsUrl": get(func(_ *execution, p gqlCheck) any { return orNull(p.c.detailsURL) }),
			"title":      get(func(_ *execution, p gqlCheck) any { return orNull(p.c.title) }),
			"summary":    get(func(_ *execution, p gqlCheck) any { return orNull(p.c.summary) }),
			"text":       get(func(_ *execution, p gqlCheck) any { return orNull(p.c.text) }),
			"repository": get(func(_ *execution, p gqlCheck) any { return gqlRepo{p.r} }),
		},
		"PullRequestCommit": {
			"id":     get(func(_ *execution, p gqlPullCommit) any { return nodeID("PURC", p.i.id) + ":" + p.c.OID }),
			"commit": get(func(_ *execution, p gqlPullCommit) any { return gqlCommit{p.r, p.c} }),
		},
		"PullRequestReviewThread": {
			"id":         get(func(_ *execution, p gqlThread) any { return nodeID("PRRT", p.t.id) }),
			"isResolved": get(func(_ *execution, p gqlThread) any { return p.t.resolved != nil }),
			"isOutdated": get(func(x *execution, p gqlThread) any { return x.sim.outdated(p.r, p.i, p.t) }),
			"path":       get(func(_ *execution, p gqlThread) any { return p.t.path }),
			"startLine": get(func(x *execution, p gqlThread) any {
				if p.t.start == 0 || x.sim.outdated(p.r, p.i, p.t) {
					return nil
				}
				return p.t.start
			}),
			"line": get(func(x *execution, p gqlThread) any {
				if x.sim.outdated(p.r, p.i, p.t) {
					return nil
				}
				return p.t.line
			}),
			"comments": on(func(_ *execution, p gqlThread, a arguments) (any, error) {
				var all []any
				for _, c := range p.t.comments {
					all = append(all, gqlReviewComment{p, c})
				}
				return connect("PullRequestReviewCommentConnection", all, a)
			}),
		},
		"PullRequestReviewComment": {
			"id":              get(func(_ *execution, p gqlReviewComment) any { return nodeID("PRRC", p.c.id) }),
			"databaseId":      get(func(_ *execution, p gqlReviewComment) any { return p.c.id }),
			"body":            get(func(_ *execution, p gqlReviewComment) any { return p.c.body }),
			"path":            get(func(_ *execution, p gqlReviewComment) any { return p.t.path }),
			"author":          get(func(x *execution, p gqlReviewComment) any { return x.actor(p.c.user) }),
			"isMinimized":     get(func(*execution, gqlReviewComment) any { return false }),
			"minimizedReason": get(func(*execution, gqlReviewComment) any { return nil }),
			"createdAt":       get(func(_ *execution, p gqlReviewComment) any { return stamp(p.c.created) }),
		},
	}
}

// binary is git's rule of thumb, and what is not UTF-8.
func binary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 || !utf8.Valid(data)
}

func (x *execution) rateLimit() gqlRateLimit {
	if t := x.call.who.tok; t != nil {
		return gqlRateLimit{min(t.used, hourlyLimit)}
	}
	return gqlRateLimit{}
}

// createRef makes a branch or a tag.
func createRef(x *execution, _ gqlRoot, a arguments) (any, error) {
	in := a.obj("input")
	v, err := x.node(in.str("repositoryId"))
	if err != nil {
		return nil, err
	}
	of, ok := v.(gqlRepo)
	if !ok {
		return nil, &gqlError{"NOT_FOUND", "Could not resolve to Repository node with the global id of '" +
			in.str("repositoryId") + "'."}
	}
	if err := x.may(of.r, "contents", "write"); err != nil {
		return nil, err
	}
	name, oid := in.str("name"), in.str("oid")
	exists := fmt.Sprintf("A ref named %q already exists in the repository.", name)
	if err := x.sim.makeRef(x.call, of.r, name, oid, exists); err != nil {
		return nil, inGraphQL(err)
	}
	return gqlPayload{"CreateRefPayload", map[string]any{
		"clientMutationId": in["clientMutationId"], "ref": gqlRef{of.r, gitRef{Name: name, OID: oid, Type: "commit"}},
	}}, nil
}

// committable finds the branch of a createCommitOnBranch.
func (x *execution) committable(in arguments) (*repo, string, error) {
	if id := in.str("id"); id != "" {
		v, err := x.node(id)
		ref, ok := v.(gqlRef)
		if err != nil || !ok {
			return nil, "", &gqlError{"NOT_FOUND", "Could not resolve to a node with the global id of '" + id + "'."}
		}
		return ref.r, strings.TrimPrefix(ref.ref.Name, "refs/heads/"), nil
	}
	owner, name, _ := strings.Cut(in.str("repositoryNameWithOwner"), "/")
	r, err := x.repository(owner, name)
	return r, strings.TrimPrefix(in.str("branchName"), "refs/heads/"), err
}

// createCommitOnBranch adds one commit, made and signed by GitHub, to a
// branch. It cannot express a mode: a new file is a plain one, an old one keeps
// its mode.
func createCommitOnBranch(x *execution, _ gqlRoot, a arguments) (any, error) {
	ctx, in := x.call.Context(), a.obj("input")
	r, branch, err := x.committable(in.obj("branch"))
	if err != nil {
		return nil, err
	}
	if err := x.may(r, "contents", "write"); err != nil {
		return nil, err
	}
	head, err := r.git.branch(ctx, branch)
	if errors.Is(err, errNoObject) {
		return nil, &gqlError{"NOT_FOUND", "Branch not found: " + branch}
	} else if err != nil {
		return nil, err
	}
	if want := in.str("expectedHeadOid"); want != head {
		return nil, &gqlError{"STALE_DATA", `Expected branch to point to "` + want + `" but it did not.  Pull and try again.`}
	}
	message := in.obj("message")
	text := message.str("headline")
	if strings.TrimSpace(text) == "" {
		return nil, &gqlError{"UNPROCESSABLE", "A commit message headline is required."}
	}
	if body := message.str("body"); body != "" {
		text += "\n\n" + body
	}
	parent, err := r.git.commit(ctx, head)
	if err != nil {
		return nil, err
	}
	changes, err := x.fileChanges(r, head, in.obj("fileChanges"))
	if err != nil {
		return nil, err
	}
	tree, err := r.git.writeTree(ctx, parent.Tree, changes)
	if err != nil {
		return nil, err
	}
	now, by := x.sim.now(), x.call.who.author()
	oid, err := r.git.signCommit(commitObject{
		Tree: tree, Parents: []string{head}, Author: by.user.person(now), Committer: webFlow(now), Message: text,
	})
	if err != nil {
		return nil, err
	}
	r.signed[oid] = by.user
	if err := x.sim.moveRef(ctx, r, by, "refs/heads/"+branch, oid, head); err != nil {
		return nil, err
	}
	commit, err := r.git.commit(ctx, oid)
	if err != nil {
		return nil, err
	}
	return gqlPayload{"CreateCommitOnBranchPayload", map[string]any{
		"clientMutationId": in["clientMutationId"], "commit": gqlCommit{r, commit},
		"ref": gqlRef{r, gitRef{Name: "refs/heads/" + branch, OID: oid, Type: "commit"}},
	}}, nil
}

// fileChanges turns additions and deletions into changes of the tree at head.
func (x *execution) fileChanges(r *repo, head string, in arguments) ([]change, error) {
	ctx := x.call.Context()
	modes, err := r.git.modes(ctx, head)
	if err != nil {
		return nil, err
	}
	var changes []change
	var contents [][]byte
	seen := map[string]bool{}
	check := func(path string) error {
		switch {
		case !validPath(path):
			return &gqlError{"UNPROCESSABLE", "A path was provided that is not valid: `" + path + "`"}
		case seen[path]:
			return &gqlError{"UNPROCESSABLE", "A path was provided more than once: `" + path + "`"}
		case strings.HasPrefix(path, ".github/workflows/") && x.call.who.tok != nil &&
			!x.call.who.tok.allows("workflows", "write"):
			return &gqlError{"FORBIDDEN", workflowRefusal(path)}
		}
		seen[path] = true
		return nil
	}
	for _, raw := range in.list("deletions") {
		path := field(raw, "path")
		if err := check(path); err != nil {
			return nil, err
		}
		if modes[path] == "" {
			return nil, &gqlError{
				"UNPROCESSABLE", "A path was requested for deletion which does not exist as of commit oid `" + head + "`",
			}
		}
		changes = append(changes, change{Path: path})
	}
	deleted := len(changes)
	for _, raw := range in.list("additions") {
		path := field(raw, "path")
		if err := check(path); err != nil {
			return nil, err
		}
		data, err := base64.StdEncoding.DecodeString(field(raw, "contents"))
		if err != nil {
			return nil, &gqlError{"UNPROCESSABLE", "A file was provided with contents that are not valid Base64: `" + path + "`"}
		}
		mode := modeFile
		if modes[path] == modeExec {
			mode = modeExec
		}
		changes = append(changes, change{Mode: mode, Path: path})
		contents = append(contents, data)
	}
	oids, err := r.git.writeBlobs(contents...)
	if err != nil {
		return nil, err
	}
	for i, oid := range oids {
		changes[deleted+i].OID = oid
	}
	return changes, nil
}

// field reads a string out of an input object.
func field(raw any, name string) string {
	m, ok := raw.(map[string]any)
	if !ok {
		return ""
	}
	return arguments(m).str(name)
}

// pullArgument finds the pull request of a mutation, and whether the caller
// may change it.
func (x *execution) pullArgument(id string) (gqlPull, error) {
	v, err := x.node(id)
	if err != nil {
		return gqlPull{}, err
	}
	p, ok := v.(gqlPull)
	if !ok {
		return gqlPull{}, &gqlError{"NOT_FOUND", "Could not resolve to PullRequest node with the global id of '" + id + "'."}
	}
	return p, x.may(p.r, "pull_requests", "write")
}

func setDraft(name string, draft bool) func(*execution, gqlRoot, arguments) (any, error) {
	return func(x *execution, _ gqlRoot, a arguments) (any, error) {
		in := a.obj("input")
		p, err := x.pullArgument(in.str("pullRequestId"))
		if err != nil {
			return nil, err
		}
		if p.i.closed {
			return nil, &gqlError{"UNPROCESSABLE", "The pull request is closed."}
		}
		x.sim.setDraft(p.r, p.i, x.call.who.author(), draft)
		return gqlPayload{name, map[string]any{"clientMutationId": in["clientMutationId"], "pullRequest": p}}, nil
	}
}

func resolveThread(x *execution, _ gqlRoot, a arguments) (any, error) {
	in := a.obj("input")
	v, err := x.node(in.str("threadId"))
	if err != nil {
		return nil, err
	}
	t, ok := v.(gqlThread)
	if !ok {
		return nil, &gqlError{
			"NOT_FOUND", "Could not resolve to PullRequestReviewThread node with the global id of '" + in.str("threadId") + "'.",
		}
	}
	if err := x.may(t.r, "pull_requests", "write"); err != nil {
		return nil, err
	}
	x.sim.setResolved(t.r, t.i, t.t, x.call.who.author(), true)
	return gqlPayload{
		"ResolveReviewThreadPayload", map[string]any{"clientMutationId": in["clientMutationId"], "thread": t},
	}, nil
}

// checkArgument is what a mutation says of a check run, in the words of REST,
// and the repository it is for.
func (x *execution) checkArgument(in arguments) (*repo, checkInput, error) {
	v, err := x.node(in.str("repositoryId"))
	if err != nil {
		return nil, checkInput{}, err
	}
	r, ok := v.(gqlRepo)
	if !ok {
		return nil, checkInput{}, &gqlError{
			"NOT_FOUND", "Could not resolve to Repository node with the global id of '" + in.str("repositoryId") + "'.",
		}
	}
	if err := x.may(r.r, "checks", "write"); err != nil {
		return nil, checkInput{}, err
	}
	if x.call.who.tok == nil { // check runs are for Apps
		return nil, checkInput{}, &gqlError{"FORBIDDEN", "Resource not accessible by personal access token"}
	}
	out := checkInput{
		Name: in.str("name"), HeadSHA: in.str("headSha"), Status: strings.ToLower(in.str("status")),
		Conclusion: strings.ToLower(in.str("conclusion")),
		DetailsURL: in.str("detailsUrl"), ExternalID: in.str("externalId"), StartedAt: in.str("startedAt"),
		CompletedAt: in.str("completedAt"),
	}
	if in["actions"] != nil {
		out.Actions = []checkAction{}
	}
	for _, a := range in.list("actions") {
		out.Actions = append(out.Actions, checkAction{
			Label: field(a, "label"), Identifier: field(a, "identifier"), Description: field(a, "description"),
		})
	}
	if in["output"] != nil {
		o := in.obj("output")
		out.Output = &checkOutput{Title: o.str("title"), Summary: o.str("summary"), Text: o.str("text")}
		for _, raw := range o.list("annotations") {
			m, ok := raw.(map[string]any)
			if !ok {
				continue // the schema has checked it
			}
			a := arguments(m)
			at := a.obj("location")
			out.Output.Annotations = append(out.Output.Annotations, Annotation{
				Path: a.str("path"), StartLine: at.num("startLine"), EndLine: at.num("endLine"),
				StartColumn: max(0, at.num("startColumn")), EndColumn: max(0, at.num("endColumn")),
				Level: strings.ToLower(a.str("annotationLevel")), Message: a.str("message"), Title: a.str("title"),
			})
		}
	}
	return r.r, out, nil
}

// inGraphQL puts a refusal of REST in GraphQL's words.
func inGraphQL(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	kind := "UNPROCESSABLE"
	if e.Status == http.StatusForbidden {
		kind = "FORBIDDEN"
	}
	return &gqlError{kind, e.Message}
}

func createCheckRun(x *execution, _ gqlRoot, a arguments) (any, error) {
	in := a.obj("input")
	r, check, err := x.checkArgument(in)
	if err != nil {
		return nil, err
	}
	if _, err := r.git.commit(x.call.Context(), check.HeadSHA); err != nil {
		return nil, &gqlError{"UNPROCESSABLE", "No commit found for SHA: " + check.HeadSHA}
	}
	made, err := x.sim.makeCheck(x.call, r, check)
	if err != nil {
		return nil, inGraphQL(err)
	}
	return gqlPayload{
		"CreateCheckRunPayload", map[string]any{"clientMutationId": in["clientMutationId"], "checkRun": gqlCheck{r, made}},
	}, nil
}

func updateCheckRun(x *execution, _ gqlRoot, a arguments) (any, error) {
	in := a.obj("input")
	r, check, err := x.checkArgument(in)
	if err != nil {
		return nil, err
	}
	v, err := x.node(in.str("checkRunId"))
	if err != nil {
		return nil, err
	}
	known, ok := v.(gqlCheck)
	if !ok || known.r != r {
		return nil, &gqlError{
			"NOT_FOUND", "Could not resolve to CheckRun node with the global id of '" + in.str("checkRunId") + "'.",
		}
	}
	if err := x.sim.changeCheck(x.call, r, known.c, check); err != nil {
		return nil, inGraphQL(err)
	}
	return gqlPayload{
		"UpdateCheckRunPayload", map[string]any{"clientMutationId": in["clientMutationId"], "checkRun": known},
	}, nil
}

func updatePullRequest(x *execution, _ gqlRoot, a arguments) (any, error) {
	in := a.obj("input")
	p, err := x.pullArgument(in.str("pullRequestId"))
	if err != nil {
		return nil, err
	}
	by := x.call.who.author()
	if base := in.str("baseRefName"); base != "" && base != p.i.pull.base {
		if err := x.sim.retarget(p.r, p.i, by, base); err != nil {
			return nil, inGraphQL(err)
		}
	}
	given := func(name string) *string {
		if in[name] == nil {
			return nil
		}
		value := in.str(name)
		return &value
	}
	if err := x.sim.editIssue(p.r, p.i, by, given("title"), given("body")); err != nil {
		return nil, inGraphQL(err)
	}
	if state := in.str("state"); state != "" {
		if err := x.sim.setState(p.r, p.i, by, state == "CLOSED", ""); err != nil {
			return nil, inGraphQL(err)
		}
	}
	return gqlPayload{
		"UpdatePullRequestPayload", map[string]any{"clientMutationId": in["clientMutationId"], "pullRequest": p},
	}, nil
}

// addReviewReaction reacts to a review or to what was said in one. What else can
// be reacted to has an address in REST.
func addReviewReaction(x *execution, _ gqlRoot, a arguments) (any, error) {
	in := a.obj("input")
	r, list := x.reactionsOf(in.str("subjectId"))
	if list == nil {
		return nil, &gqlError{"NOT_FOUND", "Could not resolve to a node with the global id of '" + in.str("subjectId") + "'."}
	}
	if err := x.may(r, "pull_requests", "write"); err != nil {
		return nil, err
	}
	contents := map[string]string{
		"THUMBS_UP": "+1", "THUMBS_DOWN": "-1", "LAUGH": "laugh", "CONFUSED": "confused", "HEART": "heart",
		"HOORAY": "hooray", "ROCKET": "rocket", "EYES": "eyes",
	}
	if _, _, err := x.sim.react(list, x.call.who.author().user, contents[in.str("content")]); err != nil {
		return nil, inGraphQL(err)
	}
	return gqlPayload{"AddReactionPayload", map[string]any{"clientMutationId": in["clientMutationId"]}}, nil
}

// reactionsOf finds the reactions to a review or a comment in one by its node id;
// nil is none.
func (x *execution) reactionsOf(id string) (*repo, *[]*reaction) {
	for _, name := range sortedKeys(x.sim.repos) {
		r := x.sim.repos[name]
		if !x.sees(r) {
			continue
		}
		for _, i := range r.issues {
			if i.pull == nil {
				continue
			}
			for _, rv := range i.pull.reviews {
				if nodeID("PRR", rv.id) == id {
					return r, &rv.reactions
				}
			}
			for _, t := range i.pull.threads {
				for _, c := range t.comments {
					if nodeID("PRRC", c.id) == id {
						return r, &c.reactions
					}
				}
			}
		}
	}
	return nil, nil
}

func minimizeComment(x *execution, _ gqlRoot, a arguments) (any, error) {
	in := a.obj("input")
	v, err := x.node(in.str("subjectId"))
	if err != nil {
		return nil, err
	}
	c, ok := v.(gqlComment)
	if !ok {
		return nil, &gqlError{
			"NOT_FOUND", "Could not resolve to Minimizable node with the global id of '" + in.str("subjectId") + "'.",
		}
	}
	permission := "issues"
	if c.i.pull != nil {
		permission = "pull_requests"
	}
	if err := x.may(c.r, permission, "write"); err != nil {
		return nil, err
	}
	c.c.folded = strings.ReplaceAll(strings.ToLower(in.str("classifier")), "_", "-")
	return gqlPayload{
		"MinimizeCommentPayload", map[string]any{"clientMutationId": in["clientMutationId"], "minimizedComment": c},
	}, nil
}
