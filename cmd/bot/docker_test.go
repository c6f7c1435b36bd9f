//go:build docker

// The tests in this file run the program as it ships, in processes of its own,
// with agents and checks in containers of a real Docker engine.

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
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

// newEngine watches from now on until the test ends. hear, which may be nil, is
// called with what happens to each container, by id, before it is noted.
func newEngine(t testing.TB, dir string, hear func(e *engine, what events.Action, id string)) *engine {
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
					e.note(m, hear)
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

func (e *engine) note(m events.Message, hear func(*engine, events.Action, string)) {
	if hear != nil {
		hear(e, m.Action, m.Actor.ID)
	}
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

// cpus limits a container to that many cores. The engine cannot do it in the
// moment in which the container starts, so that it is asked until it does.
func (e *engine) cpus(id string, n float64) {
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := &container.Resources{NanoCPUs: int64(n * 1e9)}
	for {
		_, err := e.api.ContainerUpdate(ctx, id, client.ContainerUpdateOptions{Resources: limit})
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			e.t.Errorf("limit the container: %v", err)
			return
		}
	}
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

// serveProgram starts `bot serve` and waits until it serves; env is added to
// its environment.
func (st *stage) serveProgram(exe string, env ...string) *process {
	st.t.Helper()
	c := st.config
	var gates []map[string]any
	for _, g := range c.Gates {
		gates = append(gates, map[string]any{"name": g.Name, "run": g.Run, "when": g.When, "timeout": g.Timeout.String()})
	}
	text, err := yaml.Marshal(map[string]any{
		"listen": c.Listen,
		"github": map[string]any{
			"api_url": c.GitHub.APIURL, "graphql_url": c.GitHub.GraphQLURL, "web_url": c.GitHub.WebURL, "app_id": c.GitHub.AppID,
		},
		"data_dir": c.DataDir,
		"agent": map[string]any{
			"name": c.Agent.Name, "model": c.Agent.Model, "script_file": c.Agent.ScriptFile, "path": c.Agent.Path,
			"command": c.Agent.Command,
		},
		"model": map[string]any{"base_url": c.Model.BaseURL},
		"sandbox": map[string]any{
			"kind": c.Sandbox.Kind, "image": c.Sandbox.Image, "cpus": c.Sandbox.CPUs,
			"memory": c.Sandbox.Memory, "pids": c.Sandbox.PIDs, "disk": c.Sandbox.Disk, "files": c.Sandbox.Files,
		},
		"limits": map[string]any{
			"iteration_timeout": c.Limits.IterationTimeout.String(), "task_attempts": c.Limits.TaskAttempts,
		},
		"gates":  gates,
		"egress": map[string]any{"allow": c.Egress},
		"log":    map[string]any{"level": "info"}, // it tells where the server listens
	})
	if err != nil {
		st.t.Fatal(err)
	}
	file := filepath.Join(st.dir, "ralph.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		st.t.Fatal(err)
	}
	p := st.command(exe, "serve", "--config", file)
	p.cmd.Env = append(p.cmd.Env, env...)
	st.startCommand(p)
	st.t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.kill(st.t)
		}
	})
	st.waitHealthy(p)
	st.hook(p.addr)
	return p
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

func TestDockerLabelBecomesPullRequest(t *testing.T) {
	t.Parallel()
	st := newDockerStage(t, setting{script: writesAll, gates: []config.Gate{
		{Name: "confined", Run: confinement, When: "task", Timeout: time.Minute},
		{Name: "not empty", Run: "test -s one.txt", When: "task", Timeout: time.Minute},
	}})
	exe := builtBot(t)
	e := newEngine(t, st.dir, nil)
	p := st.serveProgram(exe)
	state := st.ended(st.openStore(), st.label("Say hello to everybody", threeTasks))
	if state.End != run.EndAllTasksComplete || state.Iteration != 4 {
		t.Fatalf("ended %s after %d iterations: %s\n%+v", state.End, state.Iteration, state.EndDetail, state.History)
	}
	p.stop(t)

	st.wantReady(wantSubjects[:3], map[string]string{"one.txt": "1\n", "two.txt": "2\n", "three.txt": "3\n"})
	if body := st.onlyPR().Body; !strings.Contains(body, "confined") || !strings.Contains(body, "files are small") {
		t.Errorf("the description lacks a check or what was learned:\n%s", body)
	}
	// An agent and two checks for each task, the checks of the base, the reviewer, and the checks without
	// one.txt, which one of them names.
	e.expect(st, 3*3+3+2)
	e.nothingLeft(exe)
	left, err := os.ReadDir(filepath.Join(st.config.DataDir, "runs"))
	if err != nil || len(left) != 0 {
		t.Errorf("the run left %v behind, %v", left, err)
	}
}

// Attack G2: what set-up commands and checks, which run the agent's code, ask of
// the network beside what is allowed is blocked, and stands in the report of the run.
func TestG2BlockedHostsAreReported(t *testing.T) {
	t.Parallel()
	const setup = `setup:
  run:
    - if wget -q -O /dev/null http://packages.example.com/x; then exit 1; fi; test -n "$HTTPS_PROXY"
`
	st := newDockerStage(t, setting{
		files:  map[string]string{"README.md": "x\n", ".github/ralph.yml": setup},
		script: "default: [{files: {one.txt: \"1\\n\"}, say: done}]\n",
		change: func(c *config.Server) { c.Egress = egress.List{"*.allowed.example"} },
		gates: []config.Gate{
			{
				Name: "asks", Run: `if wget -q -O /dev/null http://evil.example.com/x; then exit 1; fi; test -n "$HTTPS_PROXY"`,
				When: "task", Timeout: time.Minute,
			},
		},
	})
	exe := builtBot(t)
	e := newEngine(t, st.dir, nil)
	p := st.serveProgram(exe)
	state := st.ended(st.openStore(), st.label("Say hello", "- [ ] Write one\n"))
	if state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s\n%+v", state.End, state.EndDetail, state.History)
	}
	p.stop(t)
	want := []run.HostUse{
		{Host: "packages.example.com", Blocked: "not in egress.allow", Count: 1},
		{Host: "evil.example.com", Blocked: "not in egress.allow", Count: 2}, // on the base, too
	}
	if diff := gocmp.Diff(want, state.History[0].Hosts); diff != "" {
		t.Error(diff)
	}
	e.expect(st, 5) // the set-up, an agent, a check of the base and one of the work, and the reviewer
	e.nothingLeft(exe)
}

// TestDockerKilledServerAdoptsItsAgent kills the server while an agent is in the
// middle of its work; the next server finds the container and goes on with it.
func TestDockerKilledServerAdoptsItsAgent(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"just started", "watched"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			st := newDockerStage(t, setting{
				change: func(c *config.Server) { c.Sandbox.CPUs = 0.1 },
				script: `model: scripted
tasks:
  one: [{misbehave: huge_line, files: {one.txt: "1\n"}, say: done}]
default: [{files: {two.txt: "2\n"}, say: done}]
`,
			})
			exe := builtBot(t)
			started := make(chan string, 1)
			var slow, tell sync.Once
			e := newEngine(t, st.dir, func(e *engine, what events.Action, id string) {
				switch what { //nolint:exhaustive // the rest is of no interest
				case events.ActionCreate:
					// So slow that it takes many seconds to print its long line.
					slow.Do(func() { e.cpus(id, 0.01) })
				case events.ActionStart:
					tell.Do(func() { started <- id })
				}
			})
			p := st.serveProgram(exe)
			db := st.openStore()
			issue := st.label("Say hello", "- [ ] Write one\n- [ ] Write two\n")
			id := <-started
			if when == "watched" {
				st.await("the server to have recorded the start", func() bool {
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
			}
			p.kill(t)

			found, err := e.api.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
			if err != nil {
				t.Fatalf("the agent is gone with the server: %v", err)
			}
			hardened(t, found.Container)
			if status := found.Container.State.Status; status != container.StateRunning {
				t.Fatalf("the agent is %s, want it at work", status)
			}

			p = st.serveProgram(exe)
			e.cpus(id, 1)
			state := st.ended(db, issue)
			if state.End != run.EndAllTasksComplete || state.Iteration != 3 || len(state.History) != 3 {
				t.Errorf("ended %s after %d iterations and %d calls: %s", state.End, state.Iteration, len(state.History), state.EndDetail)
			}
			p.stop(t)
			st.wantReady(wantSubjects[:2], map[string]string{"one.txt": "1\n", "two.txt": "2\n"})
			e.expect(st, 3) // one agent for each task, no checks, and the reviewer
			e.nothingLeft(exe)
		})
	}
}

// TestDockerKilledServerAdoptsItsCheck kills the server while a check is in the
// middle of its work; the next server finds the container and goes on with it.
func TestDockerKilledServerAdoptsItsCheck(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"just started", "watched"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			st := newDockerStage(t, setting{
				script: "default: [{files: {one.txt: \"1\\n\"}, say: done}]\n",
				// It ends when it is told to.
				gates: []config.Gate{
					{
						Name: "waits", Run: `test -s one.txt && mkfifo ../told && read word <../told && test "$word" = go`, When: "task",
						Timeout: patience,
					},
				},
			})
			exe := builtBot(t)
			started := make(chan string, 9)
			e := newEngine(t, st.dir, func(_ *engine, what events.Action, id string) {
				if what == events.ActionStart {
					started <- id
				}
			})
			p := st.serveProgram(exe)
			db := st.openStore()
			issue := st.label("Say hello", "- [ ] Write one\n")
			var id string
			for range 3 { // the agent, the check of the base, and that of its work
				id = <-started
			}
			if when == "watched" {
				st.await("the server to have recorded the start", func() bool {
					row, err := db.LatestRunByIssue(t.Context(), st.repo.NodeID, issue.Number)
					if err != nil {
						t.Fatal(err)
					}
					state, err := loop.Decode(row.State)
					if err != nil {
						t.Fatal(err)
					}
					return state.Process != nil && state.Process.Kind == loop.ProcessGate && state.Process.Handle != ""
				})
			}
			p.kill(t)

			found, err := e.api.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
			if err != nil {
				t.Fatalf("the check is gone with the server: %v", err)
			}
			hardened(t, found.Container)
			if status := found.Container.State.Status; status != container.StateRunning {
				t.Fatalf("the check is %s, want it at work", status)
			}

			p = st.serveProgram(exe)
			st.await("the check to listen", func() bool {
				pipes, err := filepath.Glob(filepath.Join(st.config.DataDir, "runs", "*", "check", "told"))
				if err != nil || len(pipes) != 1 {
					return false
				}
				told, err := os.OpenFile(pipes[0], os.O_WRONLY|syscall.O_NONBLOCK, 0)
				if err != nil {
					return false // nobody reads yet
				}
				_, err = told.WriteString("go\n")
				if err := errors.Join(err, told.Close()); err != nil {
					t.Fatal(err)
				}
				return true
			})
			state := st.ended(db, issue)
			if state.End != run.EndAllTasksComplete || state.Iteration != 2 || len(state.History) != 2 {
				t.Errorf("ended %s after %d iterations and %d calls: %s", state.End, state.Iteration, len(state.History), state.EndDetail)
			}
			p.stop(t)
			st.wantReady(wantSubjects[:1], map[string]string{"one.txt": "1\n"})
			// An agent, the check on the base, on its work and on that without one.txt, which it names, and the reviewer.
			e.expect(st, 5)
			e.nothingLeft(exe)
		})
	}
}

// hardened looks at an agent's container from outside.
func hardened(t testing.TB, c container.InspectResponse) {
	t.Helper()
	h := c.HostConfig
	if uid, _, _ := strings.Cut(c.Config.User, ":"); uid == "" || uid == "0" || uid == "root" {
		t.Errorf("user %q", c.Config.User)
	}
	if h.NetworkMode != "none" || !h.ReadonlyRootfs || h.Privileged || !slices.Equal(h.CapDrop, []string{"ALL"}) ||
		len(h.CapAdd) != 0 ||
		!slices.Contains(h.SecurityOpt, "no-new-privileges") {
		t.Errorf("network %q, read-only root %v, privileged %v, capabilities dropped %v, added %v, security %v",
			h.NetworkMode, h.ReadonlyRootfs, h.Privileged, h.CapDrop, h.CapAdd, h.SecurityOpt)
	}
	if h.Memory <= 0 || h.PidsLimit == nil || *h.PidsLimit <= 0 || h.NanoCPUs <= 0 {
		t.Errorf("memory %d, processes %v, cpus %d", h.Memory, h.PidsLimit, h.NanoCPUs)
	}
	var writable []string
	for _, m := range c.Mounts {
		if m.RW {
			writable = append(writable, m.Destination)
		}
		if strings.Contains(m.Source, "docker.sock") {
			t.Errorf("the engine's socket is mounted at %s", m.Destination)
		}
	}
	slices.Sort(writable)
	if diff := gocmp.Diff([]string{"/run/cache", "/run/ralph", "/workspace"}, writable); diff != "" {
		t.Errorf("writable mounts: %s", diff)
	}
}

// TestDockerDemo: `bot demo` in containers, held against the document that is
// its contract.
func TestDockerDemo(t *testing.T) {
	t.Parallel()
	dir := shortTempDir(t)
	exe := builtBot(t)
	e := newEngine(t, dir, nil)
	// Its checks compile a part of Go's own library.
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "demo", "--sandbox", "docker", "--image", goImage(), "--json")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, told.String())
	}

	var doc map[string]json.RawMessage
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatalf("stdout is not one JSON document: %v\n%s", err, out)
	}
	for _, key := range []string{"issue", "run", "tasks", "branch", "commits", "pull_request", "api_calls"} {
		if _, ok := doc[key]; !ok {
			t.Errorf("the document lacks %q", key)
		}
	}
	var got result
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.Issue == nil || got.PullRequest == nil || got.APICalls == nil {
		t.Fatalf("document: %s", out)
	}
	if got.Run.EndReason != run.EndAllTasksComplete || got.Run.Iterations < 3 || got.Run.CostUSD <= 0 || got.Run.ID == "" {
		t.Errorf("run %+v", got.Run)
	}
	if got.Tasks.Total < 3 || got.Tasks.Done != got.Tasks.Total || len(got.Commits) != got.Tasks.Total {
		t.Errorf("%d of %d tasks done, with %d commits", got.Tasks.Done, got.Tasks.Total, len(got.Commits))
	}
	for i, c := range got.Commits {
		if c.Task != fmt.Sprintf("T%d", i+1) || c.Verified == nil || !*c.Verified || len(c.SHA) != 40 || c.Subject == "" {
			t.Errorf("commit %d: %+v", i+1, c)
		}
	}
	ticked, open := boxes(got.PullRequest.Body)
	if got.PullRequest.Draft || ticked != got.Tasks.Total || open != 0 {
		t.Errorf("draft %v, %d boxes ticked, %d open:\n%s", got.PullRequest.Draft, ticked, open, got.PullRequest.Body)
	}
	if got.Issue.Number != 1 || got.PullRequest.Number != 2 || got.Branch != "ralph/1" || got.APICalls.REST == 0 ||
		got.APICalls.GraphQL == 0 || len(got.APICalls.ByPurpose) == 0 {
		t.Errorf("issue %+v, branch %s, pull request %d, calls %+v", got.Issue, got.Branch, got.PullRequest.Number,
			got.APICalls)
	}

	e.nothingLeft(exe)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("the demonstration left %v behind, %v", left, err)
	}
}
