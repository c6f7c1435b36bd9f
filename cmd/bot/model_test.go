package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/agent/agenttest"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/gateway/spend/spendtest"
	"github.com/org/ralph-action/internal/run"
)

// newModel serves a scripted model on loopback that knows one key.
func newModel(t testing.TB, key string, script agenttest.Script) (*agenttest.Server, string) {
	t.Helper()
	api := agenttest.NewModel(script)
	api.APIKey = key
	srv := httptest.NewServer(api)
	t.Cleanup(srv.Close)
	return api, srv.URL
}

// gitOut runs git in dir and gives what it printed.
func gitOut(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...) // #nosec G702 -- no shell, and arguments of the test
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, told.String())
	}
	return strings.TrimRight(string(out), "\n")
}

// botRun is botSays with --json, on the branch that is checked out, where tests look at
// the work. It gives the document, the exit code and what was said on stderr.
func botRun(t testing.TB, exe, dir string, env []string, args ...string) (result, int, string) {
	t.Helper()
	out, code, told := botSays(t, exe, dir, env, append([]string{"--json", "--here"}, args...)...)
	var doc result
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatalf("stdout is not one JSON document: %v\n%s\n%s", err, out, told)
	}
	return doc, code, told
}

// botSays runs `bot run` in dir, as exe or, with "", as the program, with no
// credentials in its environment but those given. It gives what was said on
// stdout, the exit code, and what was said on stderr.
func botSays(t testing.TB, exe, dir string, env []string, args ...string) ([]byte, int, string) {
	t.Helper()
	if exe == "" {
		exe = theProgram(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, append([]string{"run"}, args...)...)
	cmd.Dir = dir
	for _, v := range os.Environ() {
		if !credential(v) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, envBe+"=bot", "RALPH_DATA_DIR="+filepath.Join(filepath.Dir(dir), "data"))
	cmd.Env = append(cmd.Env, env...)
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 0) {
		t.Fatalf("bot run: %v\n%s", err, told.String())
	}
	return out, cmd.ProcessState.ExitCode(), told.String()
}

// credential says whether a variable is one that agents have their keys or
// endpoints from.
func credential(variable string) bool {
	return slices.ContainsFunc([]string{
		"ANTHROPIC_", "CLAUDE", "OPENAI_", "GEMINI_", "GOOGLE_", "COPILOT_", "CODEX_", "OPENCODE_",
	}, func(prefix string) bool {
		return strings.HasPrefix(variable, prefix)
	})
}

// brokenLedger is one that no charge can be written to.
type brokenLedger struct{ spend.Ledger }

var errLedger = errors.New("the disk is full")

func (brokenLedger) Charge(context.Context, string, spend.Charge) error { return errLedger }

// A person is told of a charge that cannot be written, and at the end that it is lost.
func TestLostChargesAreSaid(t *testing.T) {
	t.Parallel()
	var said []string
	gw, closeAll, err := openGateway(gateway.Config{
		Upstreams: []gateway.Upstream{{
			Provider: run.ProviderAnthropic, BaseURL: &url.URL{Scheme: "https", Host: "model.example"}, APIKey: "k",
		}},
	}, brokenLedger{spendtest.Open(t, t.TempDir())}, run.ListPrices(), true, func(err error) { said = append(said, err.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	start := spend.Start{Name: "r-1-1", Scopes: []spend.Scope{spend.RunScope("r-1", 1000)}}
	if err := gw.Meter.Begin(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	a, _, err := gw.Meter.Admit(t.Context(), start, spend.Request{Model: "claude-sonnet-4-5", Input: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.SettleCut(t.Context(), spend.Tokens{}); !errors.Is(err, errLedger) {
		t.Fatal(err)
	}
	closeAll()
	if len(said) != 2 || !strings.Contains(said[0], "a charge cannot be written") || !strings.Contains(said[1], "charges lost") {
		t.Errorf("said %q", said)
	}
}
