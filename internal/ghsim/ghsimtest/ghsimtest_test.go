package ghsimtest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
)

// witness is a test that remembers its failures.
type witness struct {
	testing.TB

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (w *witness) Helper() {}

func (w *witness) Cleanup(f func()) { w.cleanups = append(w.cleanups, f) }

func (w *witness) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

// ask sends one request through a validator to a handler that answers with
// status and body, and returns what the validator had to say.
func ask(t *testing.T, lenient bool, method, path, request string, status int, answer string) string {
	t.Helper()
	w := &witness{TB: t}
	v := ghsimtest.New(w)
	if lenient {
		v.AllowRefused()
	}
	h := v.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(request))
	if request != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	if rec.Code != status {
		t.Errorf("status %d passed through as %d", status, rec.Code)
	}
	return strings.Join(w.failures, "\n")
}

func TestTheValidatorFindsFault(t *testing.T) {
	t.Parallel()
	const repo = "/api/v3/repos/acme/widgets"
	sha := strings.Repeat("a", 40)
	ref := fmt.Sprintf(`{"ref":"refs/heads/ralph/7","node_id":"x","url":"https://x.y/z","object":{"type":"commit","sha":"%s","url":"https://x.y/z"}}`, sha)
	for _, tt := range []struct {
		name                  string
		lenient               bool
		method, path, request string
		status                int
		answer                string
		want                  string // in the complaint; empty means none
	}{
		{name: "a good answer", method: "GET", path: repo + "/git/ref/heads/main", status: 200, answer: ref},
		{name: "slashes in a parameter", method: "GET", path: repo + "/git/ref/heads/ralph/7", status: 200, answer: ref},
		{name: "escaped slashes", method: "GET", path: repo + "/git/ref/heads%2Fralph%2F7", status: 200, answer: ref},
		{
			name: "unknown path", method: "GET", path: repo + "/git/reff/heads/main", status: 404, answer: `{}`,
			want: "not an operation of GitHub's that is served",
		},
		{
			name: "unknown method", method: "PUT", path: repo + "/git/ref/heads/main", status: 404, answer: `{}`,
			want: "not an operation of GitHub's that is served",
		},
		{
			name: "a field is missing", method: "GET", path: repo + "/git/ref/heads/main", status: 200, answer: `{"ref":"x"}`,
			want: `property "node_id" is missing`,
		},
		{
			name: "a field of the wrong type", method: "GET", path: repo + "/git/ref/heads/main", status: 200,
			answer: strings.Replace(ref, `"x"`, `7`, 1), want: "value must be a string",
		},
		{
			name: "not JSON", method: "GET", path: repo + "/git/ref/heads/main", status: 200, answer: `<html>`,
			want: "answer 200",
		},
		{
			name: "a typing error in a request", method: "POST", path: repo + "/issues/1/comments", request: `{"bodyy":"x"}`,
			status: 422, answer: `{"message":"no","documentation_url":"x"}`, want: `property "body" is missing`,
		},
		{
			name: "allowed where it is refused", lenient: true, method: "POST", path: repo + "/issues/1/comments",
			request: `{"bodyy":"x"}`, status: 422, answer: `{"message":"no","documentation_url":"x"}`,
		},
		{
			name: "not allowed where it is not", lenient: true, method: "POST", path: repo + "/git/refs", request: `{"ref":"x"}`,
			status: 201, answer: ref, want: `property "sha" is missing`,
		},
		{
			name: "the null of ghinstallation", method: "POST", path: "/api/v3/app/installations/1/access_tokens",
			request: "null\n", status: 201, answer: `{"token":"x","expires_at":"2026-01-01T00:00:00Z"}`,
		},
		{
			name: "a bad refusal", method: "POST", path: repo + "/issues/1/comments", request: `{"body":"x"}`, status: 422,
			answer: `{"errors":[{"code":1}]}`, want: "answer 422",
		},
		{
			name: "GraphQL", method: "POST", path: "/api/graphql", request: `{"query":"{viewer{login}}"}`, status: 200,
			answer: `{"data":{}}`,
		},
		{
			name: "an unknown GraphQL field", method: "POST", path: "/api/graphql", request: `{"query":"{viewer{shoeSize}}"}`,
			status: 200, answer: `{"data":{}}`, want: `Cannot query field "shoeSize"`,
		},
		{
			name: "an unknown GraphQL input", method: "POST", path: "/api/graphql",
			request: `{"query":"mutation($i:ResolveReviewThreadInput!){resolveReviewThread(input:$i){clientMutationId}}","variables":{"i":{"threadId":"x","mode":1}}}`,
			status:  200, answer: `{}`, want: "unknown field",
		},
		{
			name: "allowed where GraphQL refuses it", lenient: true, method: "POST", path: "/api/graphql",
			request: `{"query":"{viewer{shoeSize}}"}`, status: 200, answer: `{"errors":[{}]}`,
		},
		{name: "other paths pass", method: "GET", path: "/acme/widgets.git/info/refs", status: 200, answer: "anything"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, tt.lenient, tt.method, tt.path, tt.request, tt.status, tt.answer)
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("complaint %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTheValidatorReadsWebhooks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		d    ghsim.Delivery
		want string
	}{
		{
			"unknown event", ghsim.Delivery{Event: "issues", Action: "painted", Payload: json.RawMessage(`{}`)},
			"GitHub has no such event",
		},
		{
			"a payload without its issue",
			ghsim.Delivery{Event: "issues", Action: "labeled", Payload: json.RawMessage(`{"action":"labeled"}`)},
			`property "issue" is missing`,
		},
		{"not JSON", ghsim.Delivery{Event: "push", Payload: json.RawMessage(`{`)}, "unexpected end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := &witness{TB: t}
			ghsimtest.New(w).Webhook(tt.d)
			if got := strings.Join(w.failures, "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("complaint %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAnEndedTestIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := &witness{TB: t}
	v := ghsimtest.New(w)
	for _, f := range w.cleanups {
		f()
	}
	v.Webhook(ghsim.Delivery{Event: "nonsense"})
	if len(w.failures) != 0 {
		t.Errorf("reported after the end: %v", w.failures)
	}
}

// TestTheCommittedDescriptions makes sure that the committed copies hold what
// is served and nothing else. With the originals at hand they must also be
// exactly what trimming makes of those.
func TestTheCommittedDescriptions(t *testing.T) {
	t.Parallel()
	packed, err := os.ReadFile("testdata/openapi.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	committed, err := ghsimtest.Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	openapi, schema := committed, ghsim.Schema()
	if path := os.Getenv("RALPH_OPENAPI"); path != "" {
		if openapi, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if path := os.Getenv("RALPH_GRAPHQL_SCHEMA"); path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		schema = string(b)
	}
	trimmed, err := ghsimtest.TrimOpenAPI(openapi)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(trimmed, committed) {
		t.Errorf("testdata/openapi.json.gz holds %d bytes, trimming gives %d: run ghsimtest/trim", len(committed),
			len(trimmed))
	}
	trimmedSchema, err := ghsimtest.TrimGraphQL(schema)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(ghsim.Schema(), trimmedSchema); d != "" {
		t.Errorf("schema.graphql is not what trimming gives: run ghsimtest/trim (-committed +trimmed)\n%s", d)
	}
}

// TestTrimmingKeepsWhatValidates trims a description whose schemas use the
// words of prose as names.
func TestTrimmingKeepsWhatValidates(t *testing.T) {
	t.Parallel()
	packed, err := os.ReadFile("testdata/openapi.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ghsimtest.Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	labels, _ := doc["components"].(map[string]any)["schemas"].(map[string]any)
	label := map[string]any{
		"type": "object", "description": "prose", "title": "prose", "example": "prose", "x-github": "prose",
		"required": []any{"description", "title"},
		"properties": map[string]any{
			"description": map[string]any{"type": "string", "description": "prose", "maxLength": 100.0},
			"title":       map[string]any{"type": "string", "enum": []any{"example", "x-y"}, "example": "prose"},
			"examples":    map[string]any{"type": "array", "items": map[string]any{"type": "string", "title": "prose"}},
			"x-name":      map[string]any{"$ref": "#/components/schemas/simple-user"},
			"default":     map[string]any{"type": "object", "default": map[string]any{"title": "data"}},
		},
	}
	labels["label"] = label
	full, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	trimmed, err := ghsimtest.TrimOpenAPI(full)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(trimmed, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"type": "object", "required": []any{"description", "title"},
		"properties": map[string]any{
			"description": map[string]any{"type": "string", "maxLength": 100.0},
			"title":       map[string]any{"type": "string", "enum": []any{"example", "x-y"}},
			"examples":    map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
			"x-name":      map[string]any{"$ref": "#/components/schemas/simple-user"},
			"default":     map[string]any{"type": "object", "default": map[string]any{"title": "data"}},
		},
	}
	if d := cmp.Diff(want, got.Components.Schemas["label"]); d != "" {
		t.Errorf("schema (-want +got):\n%s", d)
	}
}
