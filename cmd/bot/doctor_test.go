package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/run"
)

// doctored is what bot doctor --json says, by the name of the check.
func (st *stage) doctored() (code int, byName map[string]checkEntry, out string) {
	st.t.Helper()
	code, out = st.bot("doctor", "--json", "--config", st.writeConfig())
	var report doctorReport
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		st.t.Fatalf("%v in\n%s", err, out)
	}
	byName = map[string]checkEntry{}
	failed := false
	for _, e := range report.Checks {
		byName[e.Name] = e
		failed = failed || e.Status == statusFail
	}
	if failed == report.OK || report.OK != (code == 0) {
		st.t.Errorf("exit code %d:\n%s", code, out)
	}
	return code, byName, out
}

// TestDoctorFindsWhatIsWrong with each part of an App's set-up, and says what to do.
func TestDoctorFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	finds := func(check, status, message string) {
		t.Helper()
		code, byName, out := st.doctored()
		e := byName[check]
		if e.Status != status || !strings.Contains(e.Message, message) || status != statusOK && e.Hint == "" ||
			(status == statusFail) && code != run.ExitUsage {
			t.Errorf("exit code %d, want %s %q of %s:\n%s", code, status, message, check, out)
		}
	}
	finds("webhook", statusFail, "receives no events")
	finds("deliveries", statusWarn, "nothing in three days")
	finds("repository", statusWarn, `ada/widgets has no label "ralph"`)

	// The server is down, then a proxy answers, then the secret is another.
	issue, err := st.sim.CreateIssue(person, repoOf, person, "Something", "text")
	must(err)
	relabel := func() {
		t.Helper()
		must(st.sim.AddLabel(person, repoOf, issue.Number, person, "ralph"))
		must(st.sim.RemoveLabel(person, repoOf, issue.Number, person, "ralph"))
		must(st.sim.WaitIdle(t.Context()))
	}
	must(st.sim.SetHook(st.app.ID, "http://"+deadAddr+"/hook", ""))
	relabel()
	finds("deliveries", statusWarn, "none is running here")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(err)
	st.config.Listen = l.Addr().String()
	finds("deliveries", statusFail, "did not reach the server")
	must(l.Close())
	finds("webhook", statusWarn, "the server accepts them at "+handlers.DefaultPath)
	s := st.serve()
	must(st.sim.SetHook(st.app.ID, st.hookURL+"/elsewhere", ""))
	relabel()
	finds("deliveries", statusFail, "answered with 404")
	must(st.sim.SetHook(st.app.ID, st.hookURL+handlers.DefaultPath, "another secret"))
	relabel()
	finds("deliveries", statusFail, "signature does not match")
	finds("webhook", statusOK, handlers.DefaultPath)
	must(st.sim.SetHook(st.app.ID, st.hookURL+handlers.DefaultPath, st.app.WebhookSecret))
	relabel()
	st.processed(s)
	finds("deliveries", statusOK, "arrived")
	code, out := st.bot("doctor", "--config", st.writeConfig())
	for _, want := range []string{"✓ git ", "✓ webhook secret", "✓ installation", "✓ repository      ada/widgets", "No problems found"} {
		if code != 0 || !strings.Contains(out, want) || strings.Contains(out, "✗") {
			t.Errorf("exit code %d, and no %q in\n%s", code, want, out)
		}
	}
	for _, secret := range []string{st.app.WebhookSecret, "PRIVATE KEY"} {
		if strings.Contains(out, secret) {
			t.Error("a secret was shown")
		}
	}

	must(st.sim.SetRules(person, repoOf, "required_signatures", "creation", "creation", "non_fast_forward"))
	finds("repository", statusWarn, "branches must not be created (creation)")
	must(st.sim.SetRules(person, repoOf, "required_signatures"))
	finds("repository", statusOK, "no ruleset")

	must(st.sim.Inject(ghsim.Fault{
		Match:  "^/rate_limit$",
		Header: map[string]string{"Date": time.Now().Add(-5 * time.Minute).UTC().Format(http.TimeFormat)},
	}))
	finds("clock", statusFail, "off GitHub's")
	finds("clock", statusOK, "as GitHub's")

	// A directory that nothing can be written to: a file is in the way.
	blocked := filepath.Join(st.dir, "file")
	must(os.WriteFile(blocked, nil, 0o600))
	good := st.config.DataDir
	st.config.DataDir = filepath.Join(blocked, "data")
	finds("data directory", statusFail, "")
	st.config.DataDir = good
	finds("data directory", statusOK, good)

	// Its private key: half of it.
	key := st.config.GitHub.PrivateKey
	st.config.GitHub.PrivateKey = key[:len(key)/2]
	finds("GitHub App", statusFail, "private key cannot be used")
	st.config.GitHub.PrivateKey = key
	finds("GitHub App", statusOK, "")

	// The App itself.
	as := func(slug string, permissions map[string]string, events []string) {
		t.Helper()
		app, err := st.sim.CreateApp(ghsim.AppOptions{
			Slug: slug, PrivateKeyPEM: st.app.PrivateKeyPEM, Permissions: permissions, Events: events,
		})
		must(err)
		st.config.GitHub.AppID = app.ID
	}
	as("weak", map[string]string{"contents": "read", "issues": "write"}, []string{"issues"})
	finds("GitHub App", statusFail, "lacks permissions: checks: write, contents: write, pull_requests: write")
	finds("installations", statusWarn, "not installed anywhere")
	as("silent", map[string]string{"contents": "write", "issues": "write", "pull_requests": "write"}, []string{
		"issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment",
		"pull_request_review_thread", "repository",
	})
	finds("GitHub App", statusOK, "silent, but without checks: write")
	as("deaf", ghapp.Permissions(), slices.DeleteFunc(handlers.Subscriptions(),
		func(name string) bool { return name == "issues" || name == "issue_comment" }))
	finds("GitHub App", statusFail, "not subscribed to issue_comment, issues")
	st.config.GitHub.AppID = 999999
	finds("GitHub App", statusFail, "does not accept the App's id and key")
	st.config.GitHub.APIURL = "http://" + deadAddr + "/api/v3/"
	st.config.GitHub.GraphQLURL = strings.Replace(st.config.GitHub.APIURL, "v3/", "graphql", 1)
	finds("clock", statusFail, "cannot reach GitHub")
}

// TestDoctorTriesTheModelKey where the gateway holds one.
func TestDoctorTriesTheModelKey(t *testing.T) {
	t.Parallel()
	cfg := config.DefaultServer()
	cfg.Model.APIKey = "key"
	cfg.Model.BaseURL = "http://" + deadAddr
	var r doctorReport
	(&doctorCmd{}).models(t.Context(), cfg, &r)
	if len(r.Checks) != 1 || r.Checks[0].Status != statusFail ||
		!strings.Contains(r.Checks[0].Message, "cannot reach the model endpoint") {
		t.Errorf("%+v", r)
	}
	cfg.Sandbox.Kind, cfg.Sandbox.LocalIsolation = config.SandboxLocal, "bwrap"
	if (&doctorCmd{}).models(t.Context(), cfg, &r); len(r.Checks) != 2 {
		t.Errorf("%+v", r)
	}
	cfg.Sandbox.LocalIsolation = "none"
	if (&doctorCmd{}).models(t.Context(), cfg, &r); len(r.Checks) != 2 {
		t.Errorf("%+v", r)
	}
}

// TestDoctorOfAnotherAgent: what a file says of one agent is not asked of another.
func TestDoctorOfAnotherAgent(t *testing.T) {
	t.Parallel()
	own := config.Agent{Name: config.AgentCodex, Path: "/opt/codex", Command: "codex", Model: "gpt-5"}
	for name, want := range map[string]config.Agent{
		"": own, config.AgentCodex: own, config.AgentClaude: {Name: config.AgentClaude},
	} {
		if got := (&doctorCmd{Agent: name}).flags(config.Server{Agent: own}).Agent; got != want {
			t.Errorf("--agent %s: %+v", name, got)
		}
	}
}
