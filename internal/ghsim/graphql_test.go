package ghsim_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
)

// appJWT is a token of the App itself.
func appJWT(t *testing.T, w *world) string {
	t.Helper()
	now := time.Now().Unix()
	return sign(t, parseKey(t, ghsimtest.Key()), map[string]any{"alg": "RS256", "typ": "JWT"},
		map[string]any{"iss": w.app.ID, "iat": now - 10, "exp": now + 300})
}

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

const commitQuery = `mutation($input:CreateCommitOnBranchInput!){createCommitOnBranch(input:$input){clientMutationId
	commit{oid tree{oid} signature{isValid wasSignedByGitHub state}}}}`

// commitRequest is a request that adds a.txt to ralph/1.
func commitRequest(head string) map[string]any {
	return map[string]any{"query": commitQuery, "variables": map[string]any{"input": map[string]any{
		"branch":          map[string]any{"repositoryNameWithOwner": "acme/widgets", "branchName": "ralph/1"},
		"expectedHeadOid": head, "message": map[string]any{"headline": "T1"},
		"fileChanges": map[string]any{"additions": []any{file("a.txt", "YQ==")}},
	}}}
}

// file is one addition or deletion.
func file(path string, contents ...string) map[string]any {
	if len(contents) == 0 {
		return map[string]any{"path": path}
	}
	return map[string]any{"path": path, "contents": contents[0]}
}

func TestCommitsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ghsim.Options{})
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
	token := must[string](t)(w.Token(w.in.ID, nil))
	w.pull(t, "ralph/1", true)
	for _, tt := range []struct{ name, query, want string }{
		{"unknown field", `{viewer{login shoeSize}}`, "Field 'shoeSize' doesn't exist on type 'User'"},
		{"unknown argument", `{viewer(deep:true){login}}`, "Unknown argument"},
		{"no selection", `{viewer}`, "must have a selection of subfields"},
		{"not a query", `{`, "Expected Name"},
		{
			"missing variable", `query($n:Int!){repository(owner:"acme",name:"widgets"){pullRequest(number:$n){state}}}`,
			"must be defined",
		},
		{
			"no page size", `{repository(owner:"acme",name:"widgets"){pullRequest(number:1){reviewThreads{nodes{id}}}}}`,
			"You must provide a `first` or `last` value",
		},
		{
			"too large a page",
			`{repository(owner:"acme",name:"widgets"){pullRequest(number:1){reviewThreads(first:500){nodes{id}}}}}`,
			"exceeds the `first` limit of 100 records",
		},
		{
			"no such pull request", `{repository(owner:"acme",name:"widgets"){pullRequest(number:99){state}}}`,
			"Could not resolve to a PullRequest with the number of 99.",
		},
		{
			"no such node", `mutation{resolveReviewThread(input:{threadId:"PRRT_x"}){clientMutationId}}`,
			"Could not resolve to PullRequestReviewThread node with the global id of 'PRRT_x'.",
		},
		{
			"no such repository", `{repository(owner:"acme",name:"gadgets"){pullRequest(number:1){state}}}`,
			"Could not resolve to a Repository with the name 'acme/gadgets'.",
		},
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
