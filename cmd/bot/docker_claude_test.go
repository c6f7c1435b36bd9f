//go:build docker && claude

// The tests in this file run the real Claude Code CLI in containers of a real
// Docker engine, without a key and without a network: it reaches the scripted
// model through the bot alone.

package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/agent/agenttest"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/run"
)

// realKey is the key of the model's endpoint. It never leaves the host.
const realKey = "sk-ant-api03-the-real-key-of-the-host"

// spy is a model that has the agent look for what it should not find, and then
// do its task.
type spy struct {
	host string // where the model listens on the host

	mu   sync.Mutex
	seen []string // what the agent's shell printed, one text per task
}

// looksAround prints the environment of the shell and of every process it may
// look into, where the key is written in files (the pattern does not match
// itself), who it is, and whom it reaches.
const looksAround = `env
cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n'
echo "files with the key: $(grep -rlsE 'sk-ant-api0[3]-the-real' / --exclude-dir=sys --exclude-dir=proc | wc -l)"
echo "uid: $(id -u)"
echo "interfaces: $(ls /sys/class/net)"
if (exec 3<>/dev/tcp/%s) 2>/dev/null; then echo 'host: reached'; else echo 'host: not reached'; fi
if (exec 3<>/dev/tcp/192.0.2.1/80) 2>/dev/null; then echo 'internet: reached'; else echo 'internet: not reached'; fi
env | grep -vi _proxy= >$TMPDIR/env && cp $TMPDIR/env %s.txt
`

func (s *spy) script(turn agenttest.Turn) agenttest.Reply {
	switch {
	case len(turn.Tools) == 0:
		return agenttest.Say("ok")
	case turn.Number == 0:
		return agenttest.Bash(fmt.Sprintf(looksAround, strings.Replace(s.host, ":", "/", 1), turn.Task))
	case turn.Number == 1:
		if len(turn.Results) != 1 || turn.Results[0].IsError {
			return agenttest.Fail(http.StatusBadRequest, fmt.Sprintf("the Bash tool does not work: %v", turn.Results))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, turn.Results[0].Text)
		return agenttest.Write("/workspace/"+turn.Task+".md", "by "+turn.Task+"\n")
	default:
		return agenttest.Done("Both files are there.")
	}
}

func newSpy(t testing.TB) (*spy, *agenttest.Server, string) {
	t.Helper()
	s := &spy{}
	api, url := newModel(t, realKey, s.script)
	s.host = strings.TrimPrefix(url, "http://")
	return s, api, url
}

// verdict judges what the agents saw and what the model was sent.
func (s *spy) verdict(t testing.TB, api *agenttest.Server, calls int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) != calls {
		t.Errorf("%d agents looked around, want %d", len(s.seen), calls)
	}
	token := "" // what the agents had in place of the key
	for _, seen := range s.seen {
		for _, want := range []string{
			"files with the key: 0\n", "uid: 1000\n", "interfaces: lo\n", "host: not reached\n", "internet: not reached",
			"ANTHROPIC_BASE_URL=http://127.0.0.1:",
		} {
			if !strings.Contains(seen, want) {
				t.Errorf("the agent does not see %q:\n%s", want, seen)
			}
		}
		for _, bad := range []string{
			realKey, s.host, "DOCKER_HOST", config.EnvPrivateKey, config.EnvWebhookSecret, "RALPH_TEST_",
		} {
			if strings.Contains(seen, bad) {
				t.Errorf("the agent sees %q:\n%s", bad, seen)
			}
		}
		for line := range strings.Lines(seen) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "ANTHROPIC_API_KEY="); ok {
				token = v
			}
		}
	}
	if token == "" {
		t.Error("the agent had no token")
	}
	asked := 0
	for _, r := range api.Requests() {
		if r.Path != "/v1/messages" {
			continue
		}
		asked++
		if r.Header.Get("X-Api-Key") != realKey || r.Header.Get("Authorization") != "" {
			t.Errorf("a request came with the headers %v", r.Header)
		}
		if strings.Contains(string(r.Body), realKey) {
			t.Errorf("a request holds the key: %s", r.Body)
		}
		for name, values := range r.Header {
			if token != "" && strings.Contains(strings.Join(values, " "), token) {
				t.Errorf("the run's token went on to the model in %s", name)
			}
		}
	}
	if asked != 3*calls {
		t.Errorf("%d requests, want three for each call: nothing but its work", asked)
	}
}

// wantNoKey looks at what the agents' own environments became in the commits.
func wantNoKey(t testing.TB, files map[string]string, tasks int) {
	t.Helper()
	for i := range tasks {
		env, said := files[fmt.Sprintf("T%d.txt", i+1)], files[fmt.Sprintf("T%d.md", i+1)]
		if !strings.Contains(env, "HOME=/home/agent\n") || said != fmt.Sprintf("by T%d\n", i+1) {
			t.Errorf("the files of T%d: %q, %q", i+1, env, said)
		}
		if strings.Contains(env, realKey) {
			t.Errorf("the key is in a commit:\n%s", env)
		}
	}
}

// TestDockerClaudeLabelBecomesPullRequest: with hosts to reach, and so with a proxy in its environment, Claude Code still
// finds the model at the gateway, and asks the proxy for nothing.
func TestDockerClaudeLabelBecomesPullRequest(t *testing.T) {
	t.Parallel()
	s, api, url := newSpy(t)
	st := newDockerStage(t, setting{
		agent:  config.Agent{Name: config.AgentClaude, Model: modelName, Path: claudePath(t)},
		gates:  []config.Gate{{Name: "confined", Run: confinement, When: "task", Timeout: time.Minute}},
		change: func(c *config.Server) { c.Model.BaseURL, c.Egress = url, egress.List{"*.allowed.example"} },
	})
	exe := builtBot(t)
	e := newEngine(t, st.dir)
	p := st.serveProgram(exe, config.EnvAPIKey+"="+realKey)
	state := st.ended(st.openStore(), st.label("Say hello to everybody", threeTasks))
	if state.End != run.EndAllTasksComplete || state.Iteration != 4 || state.SeenModel != modelName ||
		state.Usage.CostUSD <= 0 {
		t.Fatalf("ended %s after %d iterations of %s for $%f: %s\n%+v", state.End, state.Iteration, state.SeenModel,
			state.Usage.CostUSD, state.EndDetail, state.History)
	}
	p.stop(t)
	for _, h := range state.History {
		if len(h.Hosts) != 0 {
			t.Errorf("it asked the proxy for %+v", h.Hosts)
		}
	}
	s.verdict(t, api, 4) // one for each task, and the reviewer
	files := st.contents("ralph/1")
	wantNoKey(t, files, 3)
	delete(files, "README.md")
	st.wantReady(wantSubjects[:3], files)
	if len(files) != 6 {
		t.Errorf("%d files in the pull request, want two for each task", len(files))
	}
	if body := st.onlyPR().Body; !strings.Contains(body, modelName) {
		t.Errorf("the description does not tell the model:\n%s", body)
	}
	e.expect(st, 3*2+2) // an agent and a check for each task, the check of the base, and the reviewer
	e.nothingLeft(exe)
}
