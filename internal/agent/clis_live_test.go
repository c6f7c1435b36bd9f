//go:build clis

// The tests in this file run real agent CLIs, from the npm packages in the
// directory that the environment variable RALPH_TEST_NPM names, against a
// scripted model on loopback, and compare what they print with the recordings in
// testdata. With -record they make the recordings anew:
//
//	go test -tags clis -run TestCLIs ./internal/agent -record
//	go test -run TestRecordingsOfAll ./internal/agent -update

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/agent/agenttest"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
)

var record = flag.Bool("record", false, "write what the CLIs print to testdata")

const order = "Do the task.\n\nTask: T1\nProgress file: .ralph/7/progress.md\nMode: build\n"

func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// self is the program with the client for the Agent Client Protocol, which the suite
// names, or is built here.
var builtSelf = sync.OnceValues(func() (string, error) {
	if file := os.Getenv("RALPH_TEST_PROGRAM"); file != "" {
		return file, nil
	}
	return "", errors.New("RALPH_TEST_PROGRAM does not name the program")
})

func self(t *testing.T) string {
	t.Helper()
	file, err := builtSelf()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// trial is one start of a CLI in a fresh home and work tree.
type trial struct {
	backend   agent.Backend
	dir, home string
	onSeen    func(agent.Activity)
	printed   bytes.Buffer
}

func newTrial(t *testing.T, name string) *trial {
	t.Helper()
	backend, err := agent.Lookup(name, agent.Options{Path: agenttest.Program(t, name), Self: self(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := backend.Check(proc.Look); err != nil {
		t.Fatal(err)
	}
	return &trial{backend: backend, dir: t.TempDir(), home: t.TempDir()}
}

// run starts the CLI as a sandbox would and gives its result with its exit.
func (c *trial) run(t *testing.T, inv agent.Invocation) agent.Result {
	t.Helper()
	inv.Sandbox, inv.Mode = agent.SandboxLocal, run.ModeBuild
	cmd, err := c.backend.Command(inv)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range cmd.HomeFiles {
		file := filepath.Join(c.home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"HOME=" + c.home, "TMPDIR=" + t.TempDir(), "CI=true"}
	for k, v := range cmd.Env {
		env = append(env, k+"="+v)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	parser := c.backend.NewParser(func(a agent.Activity) {
		if c.onSeen != nil {
			c.onSeen(a)
		}
	})
	reason := ""
	if seen := c.onSeen; seen != nil {
		c.onSeen = func(a agent.Activity) {
			if seen(a); a.Kind == agent.ActivityRetry {
				reason = "it waited"
				stop(errors.New(reason))
			}
		}
	}
	_, err = proc.Run(ctx, proc.Cmd{
		Path: cmd.Argv[0], Args: cmd.Argv[1:], Dir: c.dir, Env: proc.ScrubbedEnv(env...),
		Stdin: strings.NewReader(order), Stdout: io.MultiWriter(parser, &c.printed),
	})
	result := parser.Close()
	exit, ended := errors.AsType[*proc.ExitError](err)
	switch {
	case ended && exit.Signal != 0:
		return result.WithExit(0, exit.Signal.String(), reason, "", time.Now())
	case ended:
		return result.WithExit(max(exit.Code, 0), "", reason, "", time.Now())
	case err != nil && ctx.Err() == nil:
		t.Fatal(err)
	}
	return result.WithExit(0, "", reason, "", time.Now())
}

// ports are those of test servers, which differ each time.
var ports = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// keep writes a recording, without what is of this machine.
func (c *trial) keep(t *testing.T, scenario string) {
	t.Helper()
	if !*record {
		return
	}
	about := c.backend.About()
	text := strings.NewReplacer(c.dir, "/workspace", c.home, "/home/agent", os.TempDir(),
		"/tmp").Replace(c.printed.String())
	text = ports.ReplaceAllString(text, "127.0.0.1:8080")
	file := filepath.Join("testdata", about.Name, about.Tried, scenario+".jsonl")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// clis are the CLIs that speak another API than Anthropic's, and a model of each.
var clis = map[string]string{"codex": "gpt-5", "gemini": "gemini-2.5-pro", "opencode": "gpt-5", "copilot": "gpt-5"}

// A task with a tool call: the file is written, and what the CLI counted is what
// the wire told.
func TestCLIsDoATask(t *testing.T) {
	t.Parallel()
	for name, model := range clis {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrial(t, name)
			api := agenttest.NewModel(func(turn agenttest.Turn) agenttest.Reply {
				switch {
				case len(turn.Tools) == 0:
					return agenttest.Say("A title")
				case turn.Number == 0:
					r := turn.Shell(`mkdir -p sub && printf 'hello\n' > sub/hello.txt && pwd`)
					r.Text = "I write the file."
					return r
				default:
					return agenttest.Say("The file is there.\nAnd that is all.")
				}
			})
			got := c.run(t, agent.Invocation{BaseURL: listen(t, api), Token: "token", Model: model})
			c.keep(t, "task")
			if got.Outcome != agent.OutcomeCompleted || got.FinalText != "The file is there.\nAnd that is all." ||
				got.ToolCalls != 1 || got.BadLines != 0 || got.Error != "" {
				t.Errorf("result %+v\n%s", got, c.printed.String())
			}
			if name == "codex" && (got.Usage.InputTokens != 200 || got.Usage.OutputTokens != 40) {
				t.Errorf("usage %+v", got.Usage)
			}
			if b, err := os.ReadFile(filepath.Join(c.dir, "sub/hello.txt")); err != nil || string(b) != "hello\n" {
				t.Errorf("%q, %v", b, err)
			}
			for _, r := range api.Requests() {
				if r.Header.Get("Authorization") != "Bearer token" && r.Header.Get("X-Goog-Api-Key") != "token" {
					t.Errorf("%s %s with the headers %v", r.Method, r.Path, r.Header)
				}
			}
		})
	}
}

// What the API refuses is told as what it is.
func TestCLIsRefusals(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reply agenttest.Reply
		want  agent.Outcome
		says  string
		only  string // the CLIs that can be seen to fail that way
	}{
		"refused": {
			agenttest.Fail(http.StatusBadRequest, "budget of run 7 is used up"), agent.OutcomeRefused,
			"budget of run 7 is used up", "codex gemini opencode",
		},
		"auth":       {agenttest.Fail(http.StatusUnauthorized, "wrong key"), agent.OutcomeAuth, "", "codex gemini"},
		"rate_limit": {agenttest.Fail(http.StatusTooManyRequests, "slow down"), agent.OutcomeRateLimited, "", "codex"},
	}
	for scenario, tt := range tests {
		for name := range strings.FieldsSeq(tt.only) {
			t.Run(scenario+"/"+name, func(t *testing.T) {
				t.Parallel()
				c := newTrial(t, name)
				c.onSeen = func(agent.Activity) {}
				if tt.want != agent.OutcomeRateLimited {
					c.onSeen = nil // it gives up by itself
				}
				api := agenttest.NewModel(func(agenttest.Turn) agenttest.Reply { return tt.reply })
				got := c.run(t, agent.Invocation{BaseURL: listen(t, api), Token: "token", Model: clis[name]})
				c.keep(t, scenario)
				if got.Outcome != tt.want || !strings.Contains(got.Error, tt.says) || got.Error == "" {
					t.Errorf("%s: %q, want %s: %q\n%s", got.Outcome, got.Error, tt.want, tt.says, c.printed.String())
				}
			})
		}
	}
}

// Each CLI tells its version, which is the one that was tried.
func TestCLIsVersions(t *testing.T) {
	t.Parallel()
	for name, model := range clis {
		c := newTrial(t, name)
		cmd, err := c.backend.Command(agent.Invocation{Sandbox: agent.SandboxLocal, BaseURL: "http://x", Token: "t", Model: model})
		if err != nil {
			t.Fatal(err)
		}
		out, err := proc.Run(t.Context(), proc.Cmd{
			Path: cmd.Version[0], Args: cmd.Version[1:], Env: proc.ScrubbedEnv("HOME=" + t.TempDir()),
		})
		if got, tried := agent.ReadVersion(string(out.Stdout)), c.backend.About().Tried; err != nil || got != tried {
			t.Errorf("%s: %q, %v, want %s", name, got, err, tried)
		}
	}
}
