package action

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

// given is the environment in which a step has these inputs.
func given(inputs string) func(string) string {
	return func(name string) string {
		return map[string]string{inputsVariable: inputs, programVariable: "/bin/agent"}[name]
	}
}

func TestReadInputs(t *testing.T) {
	t.Parallel()
	got, err := readInputs(given(`{"mode": "", "label": " robot ", "agent": "codex", "model": "", "image": "i",
		"sandbox": "", "base_url": "https://gateway", "github_token": "t", "anthropic_api_key": "a",
		"claude_code_oauth_token": "c", "openai_api_key": "o", "gemini_api_key": "g"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Inputs{
		Mode: modeWork, Label: "robot", Agent: "codex", Image: "i", Sandbox: "docker", BaseURL: "https://gateway",
		GitHubToken: "t", AnthropicAPIKey: "a", ClaudeCodeOAuthToken: "c", OpenAIAPIKey: "o", GeminiAPIKey: "g",
		AgentProgram: "/bin/agent",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for bad, says := range map[string]string{
		"":                                   inputsVariable,
		`[]`:                                 inputsVariable,
		`{"github_token": ""}`:               "github_token: it is empty",
		`{"github_token": "t", "mode": "x"}`: `mode: "x" is not one of`,
		`{"github_token": "t", "sandbox": "podman"}`: `sandbox: "podman" is not one of`,
	} {
		_, err := readInputs(given(bad))
		if user, ok := errors.AsType[*run.UserError](err); !ok || !strings.Contains(user.Message, says) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A step that finishes another has what that one was told, and none of its secrets is on disk.
func TestInputsAreKeptWithoutSecrets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "inputs.json")
	before := Inputs{
		Mode: modeWork, Label: "robot", Agent: "acp", AgentProgram: "agent --acp", Sandbox: "local", GitHubToken: "secret-1",
		AnthropicAPIKey: "secret-2", ClaudeCodeOAuthToken: "secret-3", OpenAIAPIKey: "secret-4", GeminiAPIKey: "secret-5",
	}
	if err := before.keep(file); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || strings.Contains(string(b), "secret") {
		t.Errorf("%v, kept %s", err, b)
	}
	after := Inputs{Mode: modeFinish, Agent: "claude", GitHubToken: "mine"}
	got, err := after.kept(file)
	if err != nil {
		t.Fatal(err)
	}
	want := Inputs{
		Mode: modeFinish, Label: "robot", Agent: "acp", AgentProgram: "agent --acp", Sandbox: "local", GitHubToken: "mine",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Agents that can read what the job can are meant, and find no credential in a checkout.
func TestCheckSandbox(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sandbox, config string
		private, linked bool
		refused         string
	}{
		"docker":                   {sandbox: "docker", config: "[http] extraheader = x"},
		"local, private":           {sandbox: "local", private: true},
		"local, public":            {sandbox: "local", refused: localOnPublic},
		"local on public":          {sandbox: localOnPublic},
		"a checkout":               {sandbox: "local", private: true, config: "[core]\n\tbare = false\n"},
		"a checkout's header":      {sandbox: "local", private: true, config: "\tExtraHeader = AUTHORIZATION: x", refused: "persist-credentials"},
		"a checkout's credentials": {sandbox: localOnPublic, config: "[includeIf \"gitdir:/w/.git\"]", refused: "persist-credentials"},
		"another file":             {sandbox: "local", private: true, config: "[Include]\n\tpath = x", refused: "persist-credentials"},
		"a helper":                 {sandbox: "local", private: true, config: "[credential]\n\thelper = store", refused: "persist-credentials"},
		"a password in a remote": {sandbox: "local", private: true, refused: "persist-credentials",
			config: "[remote \"origin\"]\n\turl = https://ada:secret@github.com/ada/widgets\n"},
		"a token in another address": {sandbox: "local", private: true, refused: "persist-credentials",
			config: "[url \"https://ghp_x@github.com/\"]\n\tinsteadOf = https://github.com/\n"},
		"addresses": {sandbox: "local", private: true, config: "url = https://github.com/a/b\nurl = ssh://git@github.com/a/b\n" +
			"pushurl = git@github.com:a/b\n"},
		"a linked work tree": {sandbox: "local", private: true, linked: true, refused: "by itself"},
	} {
		dir := t.TempDir()
		if c.config != "" {
			err := os.Mkdir(filepath.Join(dir, ".git"), 0o700)
			if err := errors.Join(err, os.WriteFile(filepath.Join(dir, ".git", "config"), []byte(c.config), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if c.linked {
			if err := os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: /elsewhere\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := step{in: Inputs{Sandbox: c.sandbox}, env: environment{workspace: dir}}
		err := s.checkSandbox(c.private)
		user, ok := errors.AsType[*run.UserError](err)
		if (c.refused != "") != ok || err != nil && !strings.Contains(user.Hint, c.refused) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && s.in.Sandbox == localOnPublic {
			t.Errorf("%s: the sandbox is %s", name, s.in.Sandbox)
		}
	}
}

func TestEventsAreThoseOfAnApp(t *testing.T) {
	t.Parallel()
	e, err := parseEvent("issues", []byte(`{"action":"labeled","issue":{"number":7,"title":"\u003cb\u003e"},"sender":{"login":"ada","id":9007199254740993},"repository":{"node_id":"R_1","private":true}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := event{
		name: "issues", action: "labeled", login: "ada", repoNode: "R_1", private: true,
		payload: []byte(`{"action":"labeled","installation":{"id":1},"issue":{"number":7,"title":"\u003cb\u003e"},"repository":{"node_id":"R_1","private":true},"sender":{"login":"ada","id":9007199254740993}}`),
	}
	if diff := cmp.Diff(want, e, cmp.AllowUnexported(event{})); diff != "" {
		t.Error(diff)
	}
	// Another event of the same repository keeps what it does not say anew, to the digit.
	said, err := e.as("issue_comment", "created", object{"comment": object{"id": 3}})
	if got := string(said.payload); err != nil || said.name != "issue_comment" || said.action != "created" ||
		!strings.Contains(got, `"comment":{"id":3}`) || !strings.Contains(got, "9007199254740993") ||
		!strings.Contains(got, `"action":"created"`) {
		t.Errorf("%+v, %v", said, err)
	}
	for what, c := range map[string]struct {
		name, payload string
		want          event
	}{
		"a review":                 {"pull_request_review", `{"action":"submitted","review":{"id":42},"pull_request":{"number":8}}`, event{pull: 8, review: 42}},
		"a review that was edited": {"pull_request_review", `{"action":"edited","review":{"id":42},"pull_request":{"number":8}}`, event{}},
		"by hand":                  {"workflow_dispatch", `{"inputs":{"issue":"7"}}`, event{issue: 7}},
		"by hand, as a number":     {"workflow_dispatch", `{"inputs":{"issue":7}}`, event{issue: 7}},
	} {
		if e, err := parseEvent(c.name, []byte(c.payload)); err != nil || e.pull != c.want.pull || e.review != c.want.review ||
			e.issue != c.want.issue {
			t.Errorf("%s: %+v, %v", what, e, err)
		}
	}
	for payload, name := range map[string]string{
		"": "issues", "[]": "issues", "null": "issues", " null\n": "issues", `"a"`: "issues", "1": "issues",
		`{"pull_request":7}`: "issues", `{"inputs":{}}`: "workflow_dispatch", `{"inputs":{"issue":"-1"}}`: "workflow_dispatch",
		`{"inputs":{"issue":"1; ls"}}`: "workflow_dispatch",
	} {
		if _, err := parseEvent(name, []byte(payload)); err == nil {
			t.Errorf("%q is an event", payload)
		}
	}
}

// FuzzParseEvent: whatever the file of a job's event holds, it is an event or an error,
// and what goes on is an object with an installation.
func FuzzParseEvent(f *testing.F) {
	for _, seed := range []string{
		`null`, `{}`, `{"installation":null}`, `{"installation":{"id":5},"pull_request":{"number":3}}`,
		`{"action":"submitted","review":{"id":4},"sender":{"login":"a\u202e\n::error::b","id":1}}`,
		`{"inputs":{"issue":"\u0031"}}`,
	} {
		f.Add("workflow_dispatch", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, name string, payload []byte) {
		e, err := parseEvent(name, payload)
		if err != nil {
			return
		}
		var had, has map[string]json.RawMessage
		if err := json.Unmarshal(e.payload, &has); err != nil || has == nil || has["installation"] == nil || e.name != name {
			t.Fatalf("%q became %q, %v", payload, e.payload, err)
		}
		if err := json.Unmarshal(payload, &had); err != nil || len(maps.Clone(had)) > len(has) {
			t.Errorf("%q became %q, %v", payload, e.payload, err)
		}
	})
}
