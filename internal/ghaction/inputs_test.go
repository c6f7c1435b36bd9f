package ghaction

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
)

// env gives the environment in which these inputs are given.
func env(inputs map[string]string) func(string) string {
	return func(name string) string {
		for input, value := range inputs {
			if Variable(input) == name {
				return value
			}
		}
		return ""
	}
}

func TestReadInputs(t *testing.T) {
	t.Parallel()
	got, err := ReadInputs(env(map[string]string{
		"github_token": "t", "issue": "7", "agent": "claude", "worker_model": "sonnet", "trigger_label": "robot",
		"label": "ralph-me", "max_iterations": "9",
		"deadline": "2h", "budget": "$2.50", "issue_budget": "9", "gates": "go vet ./...\n\n  go test ./... \n",
		"egress": "preset:go\n host.example", "notify": "https://a\nscript:b c\n", "notify_secret": "s",
		"notify_on": "finish, needs_human", "sandbox": "local", "allow_local_on_public": "TRUE",
		"config": "./tools/ralph.yml", "plan_approval": "required", "draft": "false",
		"dry_run": " ",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := Inputs{
		Mode: ModeRun, GitHubToken: "t", Issue: 7, Agent: "claude", Model: "sonnet", Label: "ralph-me",
		ConfigPath: "tools/ralph.yml", PlanApproval: true, OpenReady: true, Sandbox: "local",
		LocalOnPublic: true,
		Limits:        run.Limits{MaxIterations: 9, RunTimeout: 2 * time.Hour, BudgetUSD: 2.5}, IssueUSD: 9,
		Gates: []string{"go vet ./...", "go test ./..."}, Egress: []string{"preset:go", "host.example"},
		Notify: []string{"https://a", "script:b c"}, NotifySecret: "s",
		NotifyOn: []run.Notice{run.NoticeFinish, run.NoticeNeedsHuman},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadInputsNamesAllProblems(t *testing.T) {
	t.Parallel()
	bad := map[string]string{
		"issue": "0", "max_iterations": "many", "deadline": "3 hours", "budget": "NaN", "task_budget": "-1",
		"issue_budget": "lots", "sandbox": "podman", "dry_run": "yes", "notify_on": "end", "mode": "x",
		"config": "../secrets.yml", "plan_approval": "none", "draft": "no",
	}
	_, err := ReadInputs(env(bad))
	user, ok := errors.AsType[*run.UserError](err)
	if !ok {
		t.Fatal(err)
	}
	for name := range bad {
		if !strings.Contains(user.Message, name+": ") {
			t.Errorf("%q does not name %s", user.Message, name)
		}
	}
	if _, err := ReadInputs(env(nil)); err == nil || !strings.Contains(err.Error(), "github_token") {
		t.Errorf("without a token: %v", err)
	}
}

func TestLocalSandboxOnPublicRepositoriesIsSaidTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sandbox        string
		private, twice bool
		refused        bool
	}{
		{"docker", false, false, false}, {"local", false, false, true}, {"local", false, true, false},
		{"local", true, false, false},
	} {
		err := Inputs{Sandbox: c.sandbox, LocalOnPublic: c.twice}.CheckSandbox(c.private)
		if (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// An event that does not say is taken for one of a public repository.
	if e, err := parseEvent("schedule", []byte(`{"schedule": "0 0 * * *"}`)); err != nil || e.Private {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestEventsAreThoseOfAnApp(t *testing.T) {
	t.Parallel()
	e, err := parseEvent("issues", []byte(`{"action":"labeled","issue":{"number":7,"title":"\u003cb\u003e"},"sender":{"login":"ada","id":9007199254740993},"repository":{"node_id":"R_1","private":true,"default_branch":"main"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Event{
		Name: "issues", Action: "labeled", Sender: "ada", SenderID: 9007199254740993, RepoNode: "R_1", DefaultBranch: "main",
		Private: true, Issue: 7,
		Payload: []byte(`{"action":"labeled","installation":{"id":1},"issue":{"number":7,"title":"\u003cb\u003e"},"repository":{"node_id":"R_1","private":true,"default_branch":"main"},"sender":{"login":"ada","id":9007199254740993}}`),
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
	if e, err := parseEvent("issue_comment", []byte(`{"installation":{"id":5},"pull_request":{"number":3}}`)); err != nil || e.Issue != 3 || string(e.Payload) != `{"installation":{"id":5},"pull_request":{"number":3}}` {
		t.Errorf("%+v, %v", e, err)
	}
	for _, bad := range []string{"", "[]", "null", " null\n", `"a"`, "1", "true", `{"issue":7}`} {
		if _, err := parseEvent("issues", []byte(bad)); err == nil {
			t.Errorf("%q is an event", bad)
		}
	}
}

// Of a workflow that hands a review on only numbers are taken, and only where it
// ran on a branch of the repository itself.
func TestReviewsAreHandedOnByNumber(t *testing.T) {
	t.Parallel()
	event := func(title, head, on, conclusion string) string {
		b, err := json.Marshal(map[string]any{
			"action": "completed", "repository": map[string]any{"node_id": "R_1"},
			"sender": map[string]any{"login": "ada", "id": 7},
			"workflow_run": map[string]any{
				"display_title": title, "event": on, "conclusion": conclusion, "head_branch": "ralph/7",
				"head_repository": map[string]any{"node_id": head},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const title = "ralph review 42 of #8"
	for name, c := range map[string]struct {
		name, payload string
		issue         int
		review        int64
	}{
		"relayed":   {"workflow_run", event(title, "R_1", "pull_request_review", "success"), 8, 42},
		"of a fork": {"workflow_run", event(title, "R_2", "pull_request_review", "success"), 0, 0},
		"of a push": {"workflow_run", event(title, "R_1", "push", "success"), 0, 0},
		"skipped":   {"workflow_run", event(title, "R_1", "pull_request_review", "skipped"), 0, 0},
		"another name": {
			"workflow_run", event("ralph review 42 of #8\nralph review 43 of #9", "R_1", "pull_request_review", "success"), 0, 0,
		},
		"words":        {"workflow_run", event("ralph review $(id) of #8", "R_1", "pull_request_review", "success"), 0, 0},
		"not a number": {"workflow_run", event("ralph review 0042 of #-8", "R_1", "pull_request_review", "success"), 0, 0},
		"the review's": {
			"pull_request_review", `{"action":"submitted","review":{"id":42},"pull_request":{"number":8}}`, 8, 42,
		},
		"a review edited": {
			"pull_request_review", `{"action":"edited","review":{"id":42},"pull_request":{"number":8}}`, 8, 0,
		},
	} {
		if e, err := parseEvent(c.name, []byte(c.payload)); err != nil || e.Issue != c.issue || e.Review != c.review {
			t.Errorf("%s: review %d of #%d, %v", name, e.Review, e.Issue, err)
		}
	}
}

// FuzzParseEvent: whatever the file of a job's event holds, it is an event or an error,
// and what goes on is an object with an installation.
func FuzzParseEvent(f *testing.F) {
	for _, seed := range []string{
		`null`, `{}`, `{"installation":null}`, `{"installation":{"id":5},"pull_request":{"number":3}}`,
		`{"action":"submitted","review":{"id":4},"sender":{"login":"a\u202e\n::error::b","id":1}}`,
		`{"workflow_run":{"event":"pull_request_review","conclusion":"success","display_title":"ralph review 1 of #2","head_repository":{"node_id":"R"}},"repository":{"node_id":"R"}}`,
	} {
		f.Add("workflow_run", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, name string, payload []byte) {
		e, err := parseEvent(name, payload)
		if err != nil {
			return
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(e.Payload, &object); err != nil || object == nil || e.Name != name {
			t.Errorf("%q became %q, %v", payload, e.Payload, err)
		}
	})
}
