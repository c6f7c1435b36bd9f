//go:build claude

package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/agent/agenttest"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/run"
)

// repeated is a run of one prompt in one session of the CLI, and what its model saw.
type repeated struct {
	t    *testing.T
	api  *agenttest.Server
	url  string
	dir  string
	mu   sync.Mutex
	turn int
	// told is what the checkout's loop file said when the model was asked.
	told []string
}

// repeat serves a model that plays the replies in their order, whatever conversation it
// is asked in. before, if any, is called before each with its number.
func repeat(t *testing.T, before func(r *repeated, turn int), replies ...agenttest.Reply) *repeated {
	t.Helper()
	r := &repeated{t: t, dir: filepath.Join(shortTempDir(t), "repo")}
	newRepo(t, r.dir, map[string]string{"state.txt": "new\n"})
	r.api, r.url = newModel(t, "sk-ant-of-a-laptop", func(turn agenttest.Turn) agenttest.Reply {
		if len(turn.Tools) == 0 {
			return agenttest.Say("ok")
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		n := r.turn
		r.turn++
		file, _ := os.ReadFile(filepath.Join(r.dir, plan.LoopFile)) // absent is a finding, too
		r.told = append(r.told, string(file))
		if before != nil {
			before(r, n)
		}
		if n >= len(replies) {
			return agenttest.Fail(http.StatusBadRequest, "the script has no reply left")
		}
		return replies[n]
	})
	return r
}

func (r *repeated) run(args ...string) (result, int, string) {
	r.t.Helper()
	return botRun(r.t, "", r.dir, r.env(), r.args(args...)...)
}

func (r *repeated) env() []string {
	return []string{"ANTHROPIC_API_KEY=" + r.api.APIKey, "ANTHROPIC_BASE_URL=" + r.url}
}

func (r *repeated) args(args ...string) []string {
	return append([]string{
		"--agent", "claude", "--agent-path", claudePath(r.t), "--sandbox", "local", "--model", modelName,
		"--session", "same", "--gate", "grep -q ^good$ state.txt || { echo the state is; cat state.txt; false; }",
	}, args...)
}

// asked are the requests of the agent itself.
func (r *repeated) asked() (bodies [][]byte) {
	for _, q := range r.api.Requests() {
		if q.Path == "/v1/messages" && bytes.Contains(q.Body, []byte(`"name":"Bash"`)) {
			bodies = append(bodies, q.Body)
		}
	}
	return bodies
}

// noTraces fails where the loop file is left behind, or was committed.
func (r *repeated) noTraces() {
	r.t.Helper()
	if _, err := os.Lstat(filepath.Join(r.dir, ".claude")); err == nil {
		r.t.Error("the loop file, or its folder, is left behind")
	}
	if files := gitOut(r.t, r.dir, "log", "--all", "--format=", "--name-only"); strings.Contains(files, ".claude") {
		r.t.Errorf("committed:\n%s", files)
	}
}

const promised = "\n\n<promise>ALL GREEN</promise>"

// TestClaudeKeepsItsSession until its promise is true: it does not promise twice, promises
// too early, and then keeps it. All of that is one conversation and one commit.
func TestClaudeKeepsItsSession(t *testing.T) {
	t.Parallel()
	r := repeat(t, nil,
		agenttest.Bash("echo half > state.txt"), agenttest.Say("Half of it is there.\n\nRALPH_RESULT: partial: the other half"),
		agenttest.Bash("echo more > state.txt"), agenttest.Say("I cannot write <promise>ALL GREEN</promise> yet, the rest is missing."),
		agenttest.Bash("echo bad > state.txt; mkdir -p .claude; echo mine > "+plan.LoopFile), agenttest.Say("All of it works."+promised),
		agenttest.Bash(`echo good > state.txt; rm -rf .claude; sed -i 's/^## Learnings$/&\n- bad is not good/' .ralph/*/progress.md`), agenttest.Say("The state is good now."+promised),
	)
	got, code, told := r.run("--completion-promise", "ALL GREEN", "Make the state good, and say so with a promise.")
	if code != run.ExitComplete || got.Run.Iterations != 4 || len(got.Commits) != 1 {
		t.Fatalf("exit code %d, run %+v, commits %+v\n%s", code, got.Run, got.Commits, told)
	}
	if state := gitOut(t, r.dir, "show", got.Branch+":state.txt"); state != "good" {
		t.Errorf("the commit has the state %q", state)
	}
	if notes := gitOut(t, r.dir, "show", got.Branch+":.ralph/make-the-state-good-and-say/progress.md"); !strings.Contains(notes, "- bad is not good") {
		t.Errorf("its notes are lost:\n%s", notes)
	}
	asked := r.asked()
	if len(asked) != 8 {
		t.Fatalf("the model was asked %d times", len(asked))
	}
	for i, body := range asked {
		if !bytes.Contains(body, []byte("Make the state good")) || i > 1 && !bytes.Contains(body, []byte("Half of it is there.")) {
			t.Errorf("request %d is of another conversation:\n%s", i, body)
		}
	}
	if !bytes.Contains(asked[6], []byte("the state is")) || bytes.Contains(asked[5], []byte("the state is\\nbad")) {
		t.Errorf("after the red check the session is asked:\n%s", asked[6])
	}
	var iterations []string
	for _, file := range r.told {
		l, err := plan.ReadLoop([]byte(file))
		if err != nil || l.Promise != "ALL GREEN" || l.Prompt != "Make the state good, and say so with a promise." {
			t.Fatalf("the loop file: %v\n%s", err, file)
		}
		iterations = append(iterations, string(rune('0'+l.Iteration)))
	}
	if diff := cmp.Diff("1 1 2 2 3 3 4 4", strings.Join(iterations, " ")); diff != "" {
		t.Error(diff)
	}
	if got.Run.CostUSD <= 0 || got.Run.CostUSD > 1 {
		t.Errorf("cost $%f", got.Run.CostUSD)
	}
	r.noTraces()
}

// TestClaudeSessionEndsAtItsLimit, which is above the CLI's own on stop hooks, 8, and is
// taken from the loop file of a checkout that has one.
func TestClaudeSessionEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	const most = 11
	var replies []agenttest.Reply
	for i := range 2 * most {
		if i%2 == 0 {
			replies = append(replies, agenttest.Bash("date +%s%N >> state.txt"))
		} else {
			replies = append(replies, agenttest.Say("It is better now.\n\nRALPH_RESULT: partial: more of it"))
		}
	}
	r := repeat(t, nil, replies...)
	loop := plan.Loop{Active: true, Iteration: 1, MaxIterations: most, Promise: "ALL GREEN", Prompt: "Improve notes.md"}
	if err := os.MkdirAll(filepath.Join(r.dir, ".claude"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, plan.LoopFile), loop.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, code, told := r.run()
	if code != run.ExitMaxIterations || got.Run.EndReason != run.EndMaxIterations || got.Run.Iterations != most || len(got.Commits) != 0 {
		t.Fatalf("exit code %d, run %+v\n%s", code, got.Run, told)
	}
	asked := r.asked()
	if len(asked) != 2*most || !bytes.Contains(asked[0], []byte("Improve notes.md")) {
		t.Errorf("the model was asked %d times:\n%s", len(asked), told)
	}
	if last := asked[len(asked)-1]; bytes.Count(last, []byte("It is better now.")) != most-1 {
		t.Errorf("the last request is of another conversation:\n%s", last)
	}
	r.noTraces()
}

// TestClaudeSessionIsCancelled by taking its loop file away: the call at work ends, and no
// other begins.
func TestClaudeSessionIsCancelled(t *testing.T) {
	t.Parallel()
	r := repeat(t, func(r *repeated, turn int) {
		if turn == 2 {
			if err := os.Remove(filepath.Join(r.dir, plan.LoopFile)); err != nil {
				r.t.Error(err)
			}
		}
	},
		agenttest.Bash("echo half > state.txt"), agenttest.Say("Half of it is there.\n\nRALPH_RESULT: partial: the other half"),
		agenttest.Bash("echo more > state.txt"), agenttest.Say("More of it.\n\nRALPH_RESULT: partial: the rest"),
	)
	got, _, told := r.run("--completion-promise", "ALL GREEN", "Make the state good.")
	if got.Run.EndReason != run.EndCancelled || got.Run.Iterations != 2 || len(got.Commits) != 0 ||
		got.Run.Detail != plan.LoopFile+" was removed" {
		t.Fatalf("run %+v\n%s", got.Run, told)
	}
	if n := len(r.asked()); n != 4 {
		t.Errorf("the model was asked %d times", n)
	}
	r.noTraces()
}

// TestClaudeSessionIsKilled with the bot, in the middle of its second call. Told again, the
// run goes on from the tree, in a new session.
func TestClaudeSessionIsKilled(t *testing.T) {
	t.Parallel()
	started := make(chan *os.Process, 1)
	r := repeat(t, func(r *repeated, turn int) {
		if turn == 3 {
			if err := (<-started).Kill(); err != nil {
				r.t.Error(err)
			}
		}
	},
		agenttest.Bash("echo half > state.txt"), agenttest.Say("Half of it is there.\n\nRALPH_RESULT: partial: the other half"),
		agenttest.Bash("echo more > state.txt"), agenttest.Say("This comes too late."),
		agenttest.Bash("grep -q more state.txt && echo good > state.txt"), agenttest.Say("The state is good now."+promised),
	)
	args := []string{"--completion-promise", "ALL GREEN", "Make the state good."}
	bot := exec.CommandContext(t.Context(), theProgram(t), append([]string{"run", "--here"}, r.args(args...)...)...) // #nosec G204 -- the program under test
	bot.Dir = r.dir
	bot.Env = append(os.Environ(), r.env()...)
	bot.Env = append(bot.Env, "RALPH_DATA_DIR="+filepath.Join(filepath.Dir(r.dir), "data"))
	if err := bot.Start(); err != nil {
		t.Fatal(err)
	}
	started <- bot.Process
	if err := bot.Wait(); err == nil {
		t.Fatal("the bot was not killed")
	}
	got, code, told := r.run(args...)
	if code != run.ExitComplete || len(got.Commits) != 1 || !strings.Contains(told, "continuing the interrupted run") {
		t.Fatalf("exit code %d, run %+v, commits %+v\n%s", code, got.Run, got.Commits, told)
	}
	if state := gitOut(t, r.dir, "show", got.Branch+":state.txt"); state != "good" {
		t.Errorf("the commit has the state %q", state)
	}
	asked := r.asked()
	if again := asked[len(asked)-2]; bytes.Contains(again, []byte("Half of it is there.")) {
		t.Errorf("the old session went on:\n%s", again)
	}
	r.noTraces()
}

// TestClaudeSessionIsTooSlow in its second call, which is stopped for it. The next one has
// a new session. However slow the machine is, more calls come to the same.
func TestClaudeSessionIsTooSlow(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	r := &repeated{t: t, dir: filepath.Join(shortTempDir(t), "repo")}
	newRepo(t, r.dir, map[string]string{"state.txt": "new\n"})
	r.api, r.url = newModel(t, "sk-ant-of-a-laptop", func(turn agenttest.Turn) agenttest.Reply {
		switch {
		case len(turn.Tools) == 0:
			return agenttest.Say("ok")
		case turn.Number == 0:
			return agenttest.Bash("grep -q half state.txt && echo good > state.txt || echo half > state.txt; cat state.txt")
		case len(turn.Results) == 1 && strings.Contains(turn.Results[0].Text, "good"):
			return agenttest.Say("The state is good now." + promised)
		case turn.Number > 1:
			<-over
		}
		return agenttest.Say("Half of it is there.\n\nRALPH_RESULT: partial: the other half")
	})
	t.Cleanup(func() { close(over) }) // before the model is closed, which waits for its answers
	got, code, told := r.run("--timeout", "8s", "--completion-promise", "ALL GREEN", "Make the state good.")
	if code != run.ExitComplete || len(got.Commits) != 1 || !strings.Contains(told, "it took too long and was stopped") {
		t.Fatalf("exit code %d, run %+v, commits %+v\n%s", code, got.Run, got.Commits, told)
	}
	asked := r.asked()
	if again := asked[len(asked)-2]; bytes.Contains(again, []byte("Half of it is there.")) {
		t.Errorf("the old session went on:\n%s", again)
	}
	r.noTraces()
}
