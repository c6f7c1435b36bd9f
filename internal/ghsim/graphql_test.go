package ghsim_test

import (
	"encoding/base64"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shurcooL/githubv4"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// appJWT is a token of the App itself.
func appJWT(t *testing.T, w *world) string {
	t.Helper()
	now := time.Now().Unix()
	return sign(t, parseKey(t, ghsimtest.Key()), map[string]any{"alg": "RS256", "typ": "JWT"},
		map[string]any{"iss": w.app.ID, "iat": now - 10, "exp": now + 300})
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// query posts a GraphQL request and returns its data and its first error.
func (w *world) query(t *testing.T, token, query string, vars map[string]any) (data, problem map[string]any) {
	t.Helper()
	resp, body := w.do(t, "POST", "/api/graphql", token, map[string]any{"query": query, "variables": vars})
	if resp.StatusCode != 200 {
		t.Fatalf("status %d: %v", resp.StatusCode, body)
	}
	data, _ = body["data"].(map[string]any)
	if errs, _ := body["errors"].([]any); len(errs) > 0 {
		problem, _ = errs[0].(map[string]any)
	}
	return data, problem
}

const commitQuery = `mutation($input:CreateCommitOnBranchInput!){createCommitOnBranch(input:$input){clientMutationId commit{oid tree{oid} parents(first:2){nodes{oid}} author{name email user{login}} committer{name email} message messageHeadline messageBody committedViaWeb signature{__typename isValid wasSignedByGitHub state email signer{login}}} ref{name prefix target{oid}}}}`

// file is one addition or deletion.
func file(path string, contents ...string) map[string]any {
	if len(contents) == 0 {
		return map[string]any{"path": path}
	}
	return map[string]any{"path": path, "contents": contents[0]}
}

func TestCreateCommitOnBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	token := must[string](t)(w.Token(w.in.ID, nil))
	head := w.branch(t, "ralph/1")
	data, problem := w.query(t, token, commitQuery, map[string]any{"input": map[string]any{
		"clientMutationId": "T1", "branch": map[string]any{
			"repositoryNameWithOwner": "acme/widgets", "branchName": "ralph/1",
		}, "expectedHeadOid": head,
		"message": map[string]any{"headline": "T1: do it", "body": "Because.\n"},
		"fileChanges": map[string]any{
			"additions": []any{
				file("new/deep.txt", b64("deep")), file("run.sh", b64("#!/bin/sh\necho changed\n")),
				file("README.md/now-a-dir", b64("x")), file("empty", ""),
			},
			"deletions": []any{file("README.md"), file("pkg/a.go")},
		},
	}})
	if problem != nil {
		t.Fatal(problem)
	}
	tip := w.head(t, "ralph/1")
	tree := must[[]ghsim.Commit](t)(w.BranchCommits(owner, name, "ralph/1"))[0].Tree
	mail := itoa(w.app.BotID) + "+ralph[bot]@users.noreply.github.com"
	want := map[string]any{"createCommitOnBranch": map[string]any{
		"clientMutationId": "T1",
		"commit": map[string]any{
			"oid": tip, "tree": map[string]any{"oid": tree},
			"parents":   map[string]any{"nodes": []any{map[string]any{"oid": head}}},
			"author":    map[string]any{"name": "ralph[bot]", "email": mail, "user": nil},
			"committer": map[string]any{"name": "GitHub", "email": "noreply@github.com"},
			"message":   "T1: do it\n\nBecause.\n", "messageHeadline": "T1: do it", "messageBody": "Because.",
			"committedViaWeb": true,
			"signature": map[string]any{
				"__typename": "GpgSignature", "isValid": true, "wasSignedByGitHub": true, "state": "VALID",
				"email": "noreply@github.com", "signer": map[string]any{"login": "web-flow"},
			},
		},
		"ref": map[string]any{"name": "ralph/1", "prefix": "refs/heads/", "target": map[string]any{"oid": tip}},
	}}
	if d := cmp.Diff(want, data); d != "" {
		t.Errorf("answer (-want +got):\n%s", d)
	}
	// Modes cannot be said: new files are plain, old ones keep theirs.
	files := must[map[string]string](t)(w.Files(owner, name, "ralph/1"))
	if d := cmp.Diff(map[string]string{
		"new/deep.txt": "100644", "run.sh": "100755", "README.md/now-a-dir": "100644", "empty": "100644",
	}, files); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if got := must[[]byte](t)(w.File(owner, name, "ralph/1", "run.sh")); string(got) != "#!/bin/sh\necho changed\n" {
		t.Errorf("run.sh is %q", got)
	}
}

func TestCommitsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	w.v.AllowRefused()
	must[ghsim.Repo](t)(w.CreateRepo(owner, "other", ghsim.RepoOptions{Files: map[string]string{"a": "b"}}))
	full := must[string](t)(w.Token(w.in.ID, nil))
	reader := must[string](t)(w.Token(w.in.ID, map[string]string{"contents": "read"}))
	head := w.branch(t, "ralph/1")
	const stale = "1111111111111111111111111111111111111111"
	type m = map[string]any
	for _, tt := range []struct {
		name, token string
		change      m
		kind, text  string
	}{
		{
			"stale head", full, m{"expectedHeadOid": stale}, "STALE_DATA",
			`Expected branch to point to "` + stale + `" but it did not.  Pull and try again.`,
		},
		{
			"no such branch", full, m{"branch": m{"repositoryNameWithOwner": "acme/widgets", "branchName": "ralph/2"}},
			"NOT_FOUND", "Branch not found",
		},
		{
			"repository outside the token", full, m{"branch": m{"repositoryNameWithOwner": "acme/other", "branchName": "main"}},
			"NOT_FOUND", "Could not resolve to a Repository with the name 'acme/other'.",
		},
		{"may only read", reader, m{}, "FORBIDDEN", "Resource not accessible by integration"},
		{
			"deleting nothing", full, m{"fileChanges": m{"deletions": []any{file("gone.txt")}}}, "UNPROCESSABLE",
			"A path was requested for deletion which does not exist as of commit oid `" + head + "`",
		},
		{"bad base64", full, m{"fileChanges": m{"additions": []any{file("a", "%%%")}}}, "UNPROCESSABLE", "not valid Base64"},
		{"out of the tree", full, m{"fileChanges": m{"additions": []any{file("../a", "")}}}, "UNPROCESSABLE", "not valid"},
		{"absolute", full, m{"fileChanges": m{"additions": []any{file("/etc/passwd", "")}}}, "UNPROCESSABLE", "not valid"},
		{"into .git", full, m{"fileChanges": m{"additions": []any{file(".git/hooks/x", "")}}}, "UNPROCESSABLE", "not valid"},
		{
			"twice", full, m{"fileChanges": m{"additions": []any{file("a", ""), file("a", "")}}}, "UNPROCESSABLE",
			"more than once",
		},
		{
			"a workflow", full, m{"fileChanges": m{"additions": []any{file(".github/workflows/x.yml", "")}}}, "FORBIDDEN",
			"without `workflows` permission",
		},
		{"no headline", full, m{"message": m{"headline": " "}}, "UNPROCESSABLE", "headline"},
		{
			"a mode, which the input does not have", full,
			m{"fileChanges": m{"additions": []any{m{"path": "a", "contents": "", "mode": "100755"}}}}, "", "unknown field",
		},
		{"no head", full, m{"expectedHeadOid": nil}, "", "cannot be null"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			input := m{
				"branch": m{"repositoryNameWithOwner": "acme/widgets", "branchName": "ralph/1"}, "expectedHeadOid": head,
				"message": m{"headline": "x"}, "fileChanges": m{"additions": []any{file("x", "")}},
			}
			maps.Copy(input, tt.change)
			data, problem := w.query(t, tt.token, commitQuery, m{"input": input})
			text, _ := problem["message"].(string)
			kind, _ := problem["type"].(string)
			if kind != tt.kind || !strings.Contains(text, tt.text) {
				t.Errorf("%s %q, want %s %q", kind, text, tt.kind, tt.text)
			}
			if data["createCommitOnBranch"] != nil || w.head(t, "ralph/1") != head {
				t.Error("refused, and done")
			}
		})
	}
}

func TestQueriesThatTheSchemaRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	w.v.AllowRefused()
	token := must[string](t)(w.Token(w.in.ID, nil))
	for _, tt := range []struct{ name, query, want string }{
		{"unknown field", `{viewer{login shoeSize}}`, "Field 'shoeSize' doesn't exist on type 'User'"},
		{"unknown argument", `{viewer(deep:true){login}}`, "Unknown argument"},
		{"no selection", `{viewer}`, "must have a selection of subfields"},
		{"not a query", `{`, "Expected Name"},
		{
			"missing variable", `query($n:Int!){repository(owner:"acme",name:"widgets"){issue(number:$n){id}}}`,
			"must be defined",
		},
		{
			"no page size", `{repository(owner:"acme",name:"widgets"){pullRequests{totalCount}}}`,
			"You must provide a `first` or `last` value",
		},
		{
			"too large a page", `{repository(owner:"acme",name:"widgets"){pullRequests(first:500){totalCount}}}`,
			"exceeds the `first` limit of 100 records",
		},
		{
			"no such issue", `{repository(owner:"acme",name:"widgets"){issue(number:99){id}}}`,
			"Could not resolve to a Issue with the number of 99.",
		},
		{"no such node", `{node(id:"I_nonsense"){id}}`, "Could not resolve to a node with the global id of 'I_nonsense'."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, problem := w.query(t, token, tt.query, nil)
			if text, _ := problem["message"].(string); !strings.Contains(text, tt.want) {
				t.Errorf("error %q, want %q", text, tt.want)
			}
		})
	}
	if resp, _ := w.do(t, "POST", "/api/graphql", "", map[string]any{"query": "{viewer{login}}"}); resp.StatusCode != 401 {
		t.Errorf("nobody's query: %d", resp.StatusCode)
	}
}

func TestQueries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	token := must[string](t)(w.Token(w.in.ID, nil))
	must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "An issue", "Words", "ralph"))
	must[ghsim.Comment](t)(w.Comment(owner, name, 1, "walt", "Indeed"))
	pr := w.pull(t, "ralph/1", true)
	main := w.head(t, "main")
	type m = map[string]any
	data, problem := w.query(t, token, `query($owner:String!,$skip:Boolean!){
		repository(owner:$owner,name:"widgets"){
			id nameWithOwner
			defaultBranchRef{name target{oid ... on Commit{tree{entries{path type mode object{__typename ... on Blob{text byteSize}}}} history(first:1){totalCount}}}}
			missing: ref(qualifiedName:"nope"){name}
			object(expression:"main:pkg/a.go"){oid ...blob}
			issue(number:1){title state author{login ... on Bot{databaseId}} labels(first:5){nodes{name}} comments(last:1){nodes{body author{login}} pageInfo{hasPreviousPage}}}
			pullRequest(number:2){id isDraft headRefOid mergeable state body url author{__typename login} commits(first:10){totalCount nodes{commit{oid signature{isValid}}}}}
			pullRequests(first:5,headRefName:"ralph/1",states:[OPEN]){totalCount nodes{number}}
			none: pullRequests(first:5,states:[MERGED]){totalCount}
			name @skip(if:$skip)
		}
		rateLimit{limit cost}
	}
	fragment blob on Blob{isBinary text}`, m{"owner": owner, "skip": true})
	if problem != nil {
		t.Fatal(problem)
	}
	blob := func(text string) m { return m{"__typename": "Blob", "text": text, "byteSize": float64(len(text))} }
	files := must[map[string]string](t)(w.Files(owner, name, "main"))
	if len(files) != 3 {
		t.Fatal(files)
	}
	want := m{
		"rateLimit": m{"limit": 5000.0, "cost": 1.0},
		"repository": m{
			"id": w.repo.NodeID, "nameWithOwner": "acme/widgets",
			"defaultBranchRef": m{"name": "main", "target": m{"oid": main, "history": m{
				"totalCount": 1.0,
			}, "tree": m{"entries": []any{
				m{"path": "README.md", "type": "blob", "mode": 33188.0, "object": blob("# Widgets\n")},
				m{"path": "pkg", "type": "tree", "mode": 16384.0, "object": m{"__typename": "Tree"}},
				m{"path": "run.sh", "type": "blob", "mode": 33261.0, "object": blob("#!/bin/sh\necho hi\n")},
			}}}},
			"missing": nil,
			"object":  m{"oid": "01f1d8ba1b5b9bdc9d3f7b1c1ed4a1d1b0f0e4b3", "isBinary": false, "text": "package pkg\n"},
			"issue": m{
				"title": "An issue", "state": "OPEN", "author": m{"login": "ann"}, "labels": m{"nodes": []any{m{"name": "ralph"}}},
				"comments": m{
					"nodes": []any{m{"body": "Indeed", "author": m{"login": "walt"}}}, "pageInfo": m{"hasPreviousPage": false},
				},
			},
			"pullRequest": m{
				"id": pr.GetNodeID(), "isDraft": true, "headRefOid": pr.GetHead().GetSHA(), "mergeable": "MERGEABLE",
				"state": "OPEN", "body": "", "url": pr.GetHTMLURL(),
				"author":  m{"__typename": "Bot", "login": "ralph"},
				"commits": m{"totalCount": 1.0, "nodes": []any{m{"commit": m{"oid": pr.GetHead().GetSHA(), "signature": nil}}}},
			},
			"pullRequests": m{"totalCount": 1.0, "nodes": []any{m{"number": 2.0}}},
			"none":         m{"totalCount": 0.0},
		},
	}
	// The blob's name is git's to say.
	out, err := git(t, w.repo.Dir, "rev-parse", "main:pkg/a.go")
	check(t, err)
	repository, _ := want["repository"].(m)
	object, _ := repository["object"].(m)
	object["oid"] = strings.TrimSpace(out)
	if d := cmp.Diff(want, data); d != "" {
		t.Errorf("data (-want +got):\n%s", d)
	}
}

func TestNodesAndDrafts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
	ctx := t.Context()
	must[ghsim.Issue](t)(w.CreateIssue(owner, name, "ann", "An issue", ""))
	pr := w.pull(t, "ralph/1", false)
	var m struct {
		ConvertPullRequestToDraft struct{ PullRequest struct{ IsDraft bool } } `graphql:"convertPullRequestToDraft(input:$input)"`
	}
	check(t, w.ql.Mutate(ctx, &m, githubv4.ConvertPullRequestToDraftInput{PullRequestID: pr.GetNodeID()}, nil))
	if got := must[ghsim.PR](t)(w.PR(owner, name, pr.GetNumber())); !got.Draft ||
		!m.ConvertPullRequestToDraft.PullRequest.IsDraft {
		t.Errorf("draft %v in the answer, %v in fact", m.ConvertPullRequestToDraft.PullRequest.IsDraft, got.Draft)
	}
	token := must[string](t)(w.Token(w.in.ID, nil))
	noPulls := must[string](t)(w.Token(w.in.ID, map[string]string{"issues": "write"}))
	ids := map[string]string{
		pr.GetNodeID(): "PullRequest", must[ghsim.Issue](t)(w.Issue(owner, name, 1)).NodeID: "Issue",
		w.repo.NodeID: "Repository",
	}
	ref, _, err := w.gh.Git.GetRef(ctx, owner, name, "heads/main")
	check(t, err)
	ids[ref.GetNodeID()] = "Ref"
	for id, want := range ids {
		data, problem := w.query(t, token, `query($id:ID!){node(id:$id){__typename id}}`, map[string]any{"id": id})
		if d := cmp.Diff(map[string]any{"node": map[string]any{"__typename": want, "id": id}}, data); d != "" ||
			problem != nil {
			t.Errorf("node %s: %v\n%s", id, problem, d)
		}
	}
	_, problem := w.query(t, noPulls, `mutation($id:ID!){convertPullRequestToDraft(input:{pullRequestId:$id}){pullRequest{id}}}`, map[string]any{"id": pr.GetNodeID()})
	if problem["type"] != "FORBIDDEN" {
		t.Errorf("without pull_requests: %v", problem)
	}
}
