//go:build docker

// The tests in this file run the program as it ships, in processes of its own,
// with agents and checks in containers of a real Docker engine.

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// needs says how a developer gets what the tests of this file need.
const needs = "scripts/docker-engine.sh and scripts/test-image.sh --with-go bring what is needed"

// The labels of our containers, as package docker sets them.
const (
	labelStart  = "ralph.start"
	labelRunDir = "ralph.run-dir"
)

func baseImage() string { return cmp.Or(os.Getenv("RALPH_TEST_IMAGE"), "ralph-test/base:1") }

func goImage() string { return cmp.Or(os.Getenv("RALPH_TEST_GO_IMAGE"), "ralph-test/go:1") }

// processes are those that run the program in file, inside of containers and
// outside.
func processes(t testing.TB, file string) []string {
	t.Helper()
	want, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no processes at all: %v", err)
	}
	var found []string
	for _, dir := range dirs {
		// One that ends meanwhile is gone.
		if exe, err := os.Stat(filepath.Join(dir, "exe")); err == nil && os.SameFile(exe, want) {
			line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
			found = append(found, fmt.Sprintf("%s %q %v", dir, line, err))
		}
	}
	return found
}

// engine watches the containers that are made for runs below a directory.
type engine struct {
	t   testing.TB
	dir string
	api *client.Client

	mu sync.Mutex
	// started and gone count what happened to each container, by name.
	started, gone map[string]int
}

// newEngine watches from now on until the test ends.
func newEngine(t testing.TB, dir string) *engine {
	t.Helper()
	api, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.Ping(t.Context(), client.PingOptions{}); err != nil {
		t.Fatalf("%v (%s)", err, needs)
	}
	for _, image := range []string{baseImage(), goImage()} {
		if _, err := api.ImageInspect(t.Context(), image); err != nil {
			t.Fatalf("%v (%s)", err, needs)
		}
	}
	e := &engine{t: t, dir: dir, api: api, started: map[string]int{}, gone: map[string]int{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	watch := api.Events(ctx, client.EventsListOptions{
		Filters: make(client.Filters).Add("type", "container").Add("label", labelStart),
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case m := <-watch.Messages:
				if e.ours(m.Actor.Attributes) {
					e.note(m)
				}
			case err := <-watch.Err:
				if ctx.Err() == nil {
					t.Errorf("the engine's events broke off: %v", err)
				}
				return
			}
		}
	}()
	t.Cleanup(func() {
		// Only a test that failed leaves any.
		for _, c := range e.containers() {
			if _, err := api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
				t.Error(err)
			}
		}
		cancel()
		<-done
		if err := api.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *engine) ours(labels map[string]string) bool {
	return strings.HasPrefix(labels[labelRunDir], e.dir+"/")
}

func (e *engine) note(m events.Message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch m.Action { //nolint:exhaustive // the rest is of no interest
	case events.ActionStart:
		e.started[m.Actor.Attributes["name"]]++
	case events.ActionDestroy:
		e.gone[m.Actor.Attributes["name"]]++
	}
}

// containers are those there are.
func (e *engine) containers() []container.Summary {
	list, err := e.api.ContainerList(context.Background(),
		client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", labelStart)})
	if err != nil {
		e.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(c container.Summary) bool { return !e.ours(c.Labels) })
}

// expect waits for the engine's word that everything is gone, and wants that
// many containers to have been started, each of them once.
func (e *engine) expect(st *stage, starts int) {
	e.t.Helper()
	st.watchOthers()
	st.await("the engine to tell of every container", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.started) >= starts && len(e.gone) == len(e.started)
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, n := range e.started {
		if n != 1 || e.gone[name] != 1 {
			e.t.Errorf("container %s was started %d times and removed %d times", name, n, e.gone[name])
		}
	}
	if len(e.started) != starts {
		e.t.Errorf("%d containers were started, want %d: %v", len(e.started), starts, slices.Sorted(maps.Keys(e.started)))
	}
}

// nothingLeft wants neither a container nor a process of the program.
func (e *engine) nothingLeft(exe string) {
	e.t.Helper()
	for _, c := range e.containers() {
		e.t.Errorf("container %v is left: %s", c.Names, c.Status)
	}
	for _, p := range processes(e.t, exe) {
		e.t.Errorf("a process is left: %s", p)
	}
}

// newDockerStage is a stage whose server uses containers.
func newDockerStage(t testing.TB, set setting) *stage {
	t.Helper()
	change := set.change
	set.change = func(c *config.Server) {
		c.Sandbox.Kind, c.Sandbox.Image, c.AllowLocalSandbox = config.SandboxDocker, baseImage(), false
		if change != nil {
			change(c)
		}
	}
	st := newStage(t, set)
	if script := st.config.Agent.ScriptFile; script != "" {
		// The agent in a container is another user.
		if err := os.Chmod(script, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

// serveProgram starts `bot serve`, which says in its log where it listens, and waits until it serves; env is added to its
// environment.
func (st *stage) serveProgram(exe string, env ...string) *process {
	st.t.Helper()
	st.watchOthers()
	p := st.command(exe, "serve", "--config", st.writeConfig())
	close(p.lines)
	p.cmd.Env = append(p.cmd.Env, env...)
	listens := make(chan string, 1)
	p.cmd.Stderr = &logReader{to: p.cmd.Stderr, listens: listens}
	if err := p.cmd.Start(); err != nil {
		st.t.Fatal(err)
	}
	st.t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.kill(st.t)
		}
	})
	select {
	case p.addr = <-listens:
	case <-st.t.Context().Done():
		st.t.Fatal("the server did not say where it listens")
	}
	st.hook(p.addr)
	return p
}

// logReader passes on a log and reads in it where a server listens.
type logReader struct {
	to      io.Writer
	listens chan<- string
	line    []byte
}

var listenSaid = regexp.MustCompile(`"listen":"([^"]+)"`)

func (r *logReader) Write(p []byte) (int, error) {
	r.line = append(r.line, p...)
	for {
		line, rest, ok := bytes.Cut(r.line, []byte("\n"))
		if !ok {
			return r.to.Write(p)
		}
		if said := listenSaid.FindSubmatch(line); said != nil {
			select {
			case r.listens <- string(said[1]):
			default: // said already
			}
		}
		r.line = rest
	}
}

// kill ends the process without warning and waits for it.
func (p *process) kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := p.cmd.Wait(); err == nil {
		t.Error("the process ended well although it was killed")
	}
}

// openStore opens the database of the server, beside it.
func (st *stage) openStore() *store.Store {
	st.t.Helper()
	s, err := store.Open(st.t.Context(), filepath.Join(st.config.DataDir, "ralph.db"))
	if err != nil {
		st.t.Fatal(err)
	}
	st.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			st.t.Error(err)
		}
	})
	return s
}

// wantReady compares the pull request: ready, one verified commit per task,
// every task ticked, and the branch with these files beside the README.
func (st *stage) wantReady(subjectsOfTasks []string, files map[string]string) {
	st.t.Helper()
	pr := st.onlyPR()
	if diff := gocmp.Diff(append(slices.Clone(subjectsOfTasks), wantSubjects[3]), subjects(pr.Commits)); diff != "" {
		st.t.Error(diff)
	}
	for i, c := range pr.Commits {
		if !c.Verified || c.Author != st.app.BotLogin {
			st.t.Errorf("commit %q is by %s, verified %v", c.Subject, c.Author, c.Verified)
		}
		if task := fmt.Sprintf("Ralph-Task: T%d", i+1); i < len(subjectsOfTasks) && !strings.Contains(c.Body, task) {
			st.t.Errorf("commit %q lacks %q:\n%s", c.Subject, task, c.Body)
		}
	}
	ticked, open := boxes(pr.Body)
	if pr.Draft || ticked != len(subjectsOfTasks) || open != 0 || !strings.Contains(pr.Body, "Closes #1") {
		st.t.Errorf("draft %v, %d boxes ticked, %d open:\n%s", pr.Draft, ticked, open, pr.Body)
	}
	want := map[string]string{"README.md": "# widgets\n"}
	maps.Copy(want, files)
	if diff := gocmp.Diff(want, st.contents("ralph/1")); diff != "" {
		st.t.Error(diff)
	}
}

var boxRE = regexp.MustCompile(`(?m)^- \[([x ])\] T\d+ `)

// boxes counts the check boxes of the tasks.
func boxes(markdown string) (ticked, open int) {
	for _, m := range boxRE.FindAllStringSubmatch(markdown, -1) {
		if m[1] == "x" {
			ticked++
		} else {
			open++
		}
	}
	return ticked, open
}

// confinement is a check that passes only where the command is confined: no
// root, no capability, no way to get one, no network, no engine, nothing to
// write to but its own.
const confinement = `set -eu
test "$(id -u)" != 0
grep -Eq '^CapEff:[[:space:]]0+$' /proc/self/status
grep -Eq '^NoNewPrivs:[[:space:]]1$' /proc/self/status
test "$(ls /sys/class/net)" = lo
test ! -e /var/run/docker.sock
if touch /etc/x 2>/dev/null; then exit 1; fi
touch ../mine
test ! -e .ralph
`

// TestDockerLabelBecomesPullRequest with agents and checks that are confined. What set-up commands and checks ask of the
// network beside what is allowed is blocked, and stands in the report.
func TestDockerLabelBecomesPullRequest(t *testing.T) {
	t.Parallel()
	const asks = `if wget -q -O /dev/null http://HOST.example.com/x; then exit 1; fi; test -n "$HTTPS_PROXY"`
	files := map[string]string{"README.md": "# widgets\n", config.RepoPath: "setup:\n  run:\n    - " + strings.Replace(asks, "HOST", "packages", 1) + "\n"}
	st := newDockerStage(t, setting{
		script: writesAll, files: files, change: func(c *config.Server) { c.Egress = egress.List{"*.allowed.example"} },
		gates: []config.Gate{{
			Name: "confined", Run: confinement + strings.Replace(asks, "HOST", "evil", 1), When: "task", Timeout: time.Minute,
		}},
	})
	exe := builtBot(t)
	e := newEngine(t, st.dir)
	p := st.serveProgram(exe)
	state := st.ended(st.openStore(), st.label("Say hello to everybody", threeTasks))
	if state.End != run.EndAllTasksComplete || state.Iteration != 4 {
		t.Fatalf("ended %s after %d iterations: %s\n%+v", state.End, state.Iteration, state.EndDetail, state.History)
	}
	p.stop(t)
	if diff := gocmp.Diff([]run.HostUse{
		{Host: "packages.example.com", Blocked: "not in egress.allow", Count: 1},
		{Host: "evil.example.com", Blocked: "not in egress.allow", Count: 2}, // on the base, too
	}, state.History[0].Hosts); diff != "" {
		t.Error(diff)
	}
	st.wantReady(wantSubjects[:3], map[string]string{
		config.RepoPath: files[config.RepoPath], "one.txt": "1\n", "two.txt": "2\n", "three.txt": "3\n",
	})
	if body := st.onlyPR().Body; !strings.Contains(body, "confined") || !strings.Contains(body, "files are small") {
		t.Errorf("the description lacks a check or what was learned:\n%s", body)
	}
	// The set-up, an agent and a check for each task, the check of the base, and the reviewer.
	e.expect(st, 1+3*2+1+1)
	e.nothingLeft(exe)
	if left := st.leftovers(); len(left) != 0 {
		t.Errorf("the run left %v behind", left)
	}
}

// TestDockerKilledServerAdoptsItsAgent, or its check: the server is killed while one is in the middle of its work; the next
// server finds the container and goes on with it.
func TestDockerKilledServerAdoptsItsAgent(t *testing.T) {
	t.Parallel()
	// It ends when it is told to.
	const waits = `mkfifo told && read word <told && rm told && test "$word" = go`
	for what, set := range map[string]setting{
		"an agent": {agent: config.Agent{
			Name: config.AgentCommand, Command: "cat >/dev/null; test -e one.txt || { " + waits + " && echo 1 >one.txt; } && echo RALPH_RESULT: done",
		}},
		"a check": {
			script: "default: [{files: {one.txt: \"1\\n\"}, say: done}]\n",
			gates:  []config.Gate{{Name: "waits", Run: "test -s one.txt && " + waits, When: "task", Timeout: patience}},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			st := newDockerStage(t, set)
			exe := builtBot(t)
			e := newEngine(t, st.dir)
			p := st.serveProgram(exe)
			db := st.openStore()
			issue := st.label("Say hello", "- [ ] Write one\n")
			var pipe string
			st.await("the start to be recorded, and what waits", func() bool {
				pipes, err := filepath.Glob(filepath.Join(st.config.DataDir, "runs", "*", "*", "tree", "told"))
				if err != nil || len(pipes) != 1 {
					return false
				}
				pipe = pipes[0]
				row, err := db.LatestRunByIssue(t.Context(), st.repo.NodeID, issue.Number)
				if err != nil {
					t.Fatal(err)
				}
				state, err := loop.Decode(row.State)
				if err != nil {
					t.Fatal(err)
				}
				return state.Process != nil && state.Process.Handle != ""
			})
			p.kill(t)
			left := e.containers()
			if len(left) != 1 {
				t.Fatalf("%d containers outlive the server, want the one at work", len(left))
			}
			found, err := e.api.ContainerInspect(t.Context(), left[0].ID, client.ContainerInspectOptions{})
			if err != nil || found.Container.State.Status != container.StateRunning {
				t.Fatalf("%s is %+v, %v", what, found.Container.State, err)
			}

			p = st.serveProgram(exe)
			told, err := os.OpenFile(pipe, os.O_WRONLY, 0)
			if err == nil {
				_, err = told.WriteString("go\n")
				err = errors.Join(err, told.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			starts := 2 // the agent and the reviewer
			if len(set.gates) > 0 {
				starts += 3 // the check of the base, of the work, and of the work without one.txt, which it names
			}
			state := st.ended(db, issue)
			if state.End != run.EndAllTasksComplete || state.Iteration != 2 || len(state.History) != 2 {
				t.Errorf("ended %s after %d iterations and %d calls: %s", state.End, state.Iteration, len(state.History), state.EndDetail)
			}
			p.stop(t)
			st.wantReady(wantSubjects[:1], map[string]string{"one.txt": "1\n"})
			e.expect(st, starts)
			e.nothingLeft(exe)
		})
	}
}

// inContainers works a plan with agents that do what a shell script of the repository says, by their task.
func inContainers(t *testing.T, plan string, files map[string]string, args ...string) (dir string, got result, told string) {
	t.Helper()
	files["plan.md"] = plan
	files["agent.sh"] = "task=$(sed -n 's/^[^A-Za-z]*Task: *\\(T[0-9]*\\).*/\\1/p' | head -n 1)\n" + files["agent.sh"] + "echo RALPH_RESULT: done\n"
	dir = filepath.Join(shortTempDir(t), "repo")
	newRepo(t, dir, files)
	exe := builtBot(t)
	e := newEngine(t, filepath.Dir(dir))
	got, code, told := botRun(t, exe, dir, nil, append([]string{
		"plan.md", "--no-review", "--sandbox", "docker", "--image", baseImage(), "--agent", "command", "--agent-command", "sh agent.sh",
	}, args...)...)
	if code != run.ExitComplete {
		t.Fatalf("exit code %d: %+v\n%s", code, got.Run, told)
	}
	e.nothingLeft(exe)
	return dir, got, told
}

const twoPlan = "# Work\n\n- [ ] Write one\n- [ ] Write two\n"

// TestG4NothingOutlivesItsIteration: what an agent leaves running is dead before the next agent starts, and that one finds
// nothing in its home, its temporary directories or its settings.
func TestG4NothingOutlivesItsIteration(t *testing.T) {
	t.Parallel()
	dir, got, _ := inContainers(t, twoPlan, map[string]string{"agent.sh": `case $task in
T1)
	beat='trap "" TERM HUP INT; while :; do echo x >>/workspace/beat; done'
	setsid bash -c "$beat" >/dev/null 2>&1 </dev/null &
	(setsid bash -c "(setsid bash -c '$beat' &) &" >/dev/null 2>&1 </dev/null &)
	until [ -s beat ]; do :; done
	mkdir -p ~/.claude ~/.codex
	for f in .bashrc .profile .gitconfig .claude.json .claude/settings.json .codex/config.toml; do echo evil >~/$f; done
	echo evil >/tmp/evil; echo evil >/dev/shm/evil
	echo 1 >one.txt ;;
T2)
	before=$(wc -c <beat)
	i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done
	[ "$(wc -c <beat)" = "$before" ] && echo quiet >two.txt
	find ~ /tmp /dev/shm -type f >>two.txt
	rm beat ;;
esac
`}, "--no-gates")
	if b, err := os.ReadFile(filepath.Join(dir, "two.txt")); err != nil || string(b) != "quiet\n" || len(got.Commits) != 2 {
		t.Errorf("the next agent found %q, %v; commits %+v", b, err, got.Commits)
	}
}

// TestG5ResourcesAreBounded: whatever an agent uses up, its iteration ends, the reason is told, and the next one works.
func TestG5ResourcesAreBounded(t *testing.T) {
	t.Parallel()
	attacks := []struct{ script, note string }{
		{`exec tail /dev/zero`, "ran out of memory"},
		// Where the work tree is kept in memory, it counts as the container's: that is not to end it before.
		{`head -c 52000000 /dev/zero >big; while :; do read -t 100 <>/proc/self/fd/1; done`, "more than the 48 MiB allowed"},
		{`mkdir d; cd d; i=0; while :; do : >$i; i=$((i + 1)); done`, "more than the 3000 files allowed"},
		{`trap '' TERM; while :; do read -t 100 <>/proc/self/fd/1; done`, "took too long"},
	}
	var plan, script strings.Builder
	script.WriteString("cat >/tmp/prompt\ntask=$(sed -n 's/^[^A-Za-z]*Task: *\\(T[0-9]*\\).*/\\1/p' /tmp/prompt | head -n 1)\n" +
		"if ! grep -q 'The last call ' /tmp/prompt; then case $task in\n")
	for i, a := range attacks {
		fmt.Fprintf(&plan, "- [ ] Use up %d\n", i)
		fmt.Fprintf(&script, "T%d) %s ;;\n", i+1, a.script)
	}
	script.WriteString("esac; fi\necho 1 >$task.txt; echo RALPH_RESULT: done\n")
	st := newDockerStage(t, setting{
		files: map[string]string{"README.md": "# widgets\n", config.RepoPath: "review: false\n", "agent.sh": script.String()},
		agent: config.Agent{Name: config.AgentCommand, Command: "bash agent.sh"},
		change: func(c *config.Server) {
			c.Sandbox.Memory, c.Sandbox.PIDs, c.Sandbox.Disk, c.Sandbox.Files = 96<<20, 64, 48<<20, 3000
			c.Limits.IterationTimeout = time.Minute // the others end long before, also where much else goes on
		},
	})
	exe := builtBot(t)
	e := newEngine(t, st.dir)
	p := st.serveProgram(exe)
	state := st.ended(st.openStore(), st.label("Use it up", plan.String()))
	p.stop(t)
	if state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	for i, a := range attacks {
		var notes []string
		for _, h := range state.History {
			if h.TaskID == fmt.Sprintf("T%d", i+1) {
				notes = append(notes, h.Note)
			}
		}
		if len(notes) != 2 || !strings.Contains(notes[0], a.note) {
			t.Errorf("%s: %q, want a first call that failed (%q) and one that did not", a.script, notes, a.note)
		}
	}
	e.nothingLeft(exe)
}

// TestG8CachesOfOtherRuns: a run finds what set-up commands on the default branch made, and nothing of what another run put
// into its caches.
func TestG8CachesOfOtherRuns(t *testing.T) {
	t.Parallel()
	const poison = `set -e
grep -qx trusted "$RALPH_CACHE/marker"
test "$(ls "$GOCACHE")" = result
[ -e one.txt ] || [ -e two.txt ] || exit 0 # the default branch
for f in "$RALPH_CACHE/marker" "$GOCACHE/result" "$GOCACHE/evil"; do echo evil >"$f"; done
`
	dir := filepath.Join(shortTempDir(t), "repo")
	newRepo(t, dir, map[string]string{"one.md": "- [ ] Write one\n", "two.md": "- [ ] Write two\n", config.RepoPath: `setup:
  run:
    - echo trusted >"$RALPH_CACHE/marker"
    - mkdir -p "$GOCACHE" && echo built >"$GOCACHE/result"
`})
	exe := builtBot(t)
	e := newEngine(t, filepath.Dir(dir))
	for i, name := range []string{"one", "two"} {
		got, code, told := botRun(t, exe, dir, nil, name+".md", "--sandbox", "docker", "--image", baseImage(), "--gate", poison,
			"--agent", "command", "--agent-command", "cat >/dev/null; echo 1 >"+name+".txt; echo RALPH_RESULT: done")
		if code != run.ExitComplete || len(got.Commits) != 1 || strings.Count(told, "set-up done") != 1-i {
			t.Fatalf("run %d: exit code %d: %+v\n%s", i+1, code, got.Run, told)
		}
	}
	marker, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "data", "caches", "*", "set-*", "marker"))
	if err != nil || len(marker) != 1 {
		t.Fatalf("what the set-up commands made: %v, %v", marker, err)
	}
	if kept, err := os.ReadFile(marker[0]); err != nil || string(kept) != "trusted\n" {
		t.Errorf("the kept cache holds %q, %v", kept, err)
	}
	e.nothingLeft(exe)
}

// TestDockerKeepsHostileAgentsApart is TestAppKeepsHostileAgentsApart in containers.
func TestDockerKeepsHostileAgentsApart(t *testing.T) {
	t.Parallel()
	keepsHostileAgentsApart(t, func(c *config.Server) {
		c.Sandbox.Kind, c.Sandbox.Image, c.AllowLocalSandbox = config.SandboxDocker, baseImage(), false
	})
}
