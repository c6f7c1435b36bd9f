package loop_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// files is a tree: path to content.
type files map[string]string

// world stands for everything around the loop: a repository in memory, agents
// that are functions, and a branch. It remembers effects, so that tests assert
// on what came of a run and not on calls.
type world struct {
	t     testing.TB
	now   time.Time
	trees map[string]files
	work  files
	// tools are directories of the work tree that tools make.
	tools []string
	// links are paths of the work tree that are not plain files.
	links map[string]bool

	// agent is called once for each agent that is really started.
	agent func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus
	// gate says whether a command passes on a tree.
	gate func(tree files, command string) bool
	// judge, where set, gives the whole result of a check instead.
	judge func(tree files, g loop.GateStart) gate.Result
	// met is what checks meet of the network.
	met []run.HostUse
	// checks are those that were really started.
	checks []loop.GateStart

	agents  map[string]loop.AgentStatus
	gates   map[string]loop.GateStatus
	prompts []string
	commits []loop.Landing
	landed  []loop.Landed
	shown   []loop.State
	begun   int
	// took is how long the next agent takes, 0 for a minute.
	took    time.Duration
	removed map[string]bool
	stopped []string
	// defaultTree is that of the default branch, where it is not what the work begins
	// from.
	defaultTree string
	// refused is what failed attempts changed.
	refused []loop.FailedAttempt
	landErr []error
	// moved counts proposals that were made on another tip than that of the branch.
	moved int
	// settings are those of the repository.
	settings loop.Settings
	// earlier is what the branch tells of earlier runs.
	earlier loop.Earlier
	// setup is what has to run first, as long as it has not.
	setup *loop.Setup
	// observeErr is what every look at an agent comes to.
	observeErr error
	// gone is how many checks are still to be gone before they end.
	gone   int
	events []run.Event
	// lost says that trees of unfinished work are gone.
	lost bool
	// edit is what people have made of the task list, until the list was
	// written anew.
	edit    func(loop.State) map[string]bool
	written bool
	// meanwhile is what happens to the run before each of its steps.
	meanwhile func(loop.State) loop.State
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{
		t: t, now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC),
		trees: map[string]files{}, links: map[string]bool{},
		agents: map[string]loop.AgentStatus{}, gates: map[string]loop.GateStatus{}, removed: map[string]bool{},
		gate: func(files, string) bool { return true },
	}
	w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
		w.work["src/"+s.TaskID+".txt"] = "done"
		return claimed()
	}
	w.landed = []loop.Landed{{OID: "base", Tree: w.store(files{"README": "hello"})}}
	return w
}

// claimed is the end of a call that says its task is done.
func claimed() loop.AgentStatus { return completed("The change is made.\n\nRALPH_RESULT: done") }

func completed(final string) loop.AgentStatus {
	return loop.AgentStatus{Outcome: loop.AgentCompleted, Final: final, Usage: run.Usage{CostUSD: 0.25, Turns: 1}}
}

func (w *world) store(f files) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(h, "%s\x00%s\x00", name, f[name])
	}
	id := hex.EncodeToString(h.Sum(nil))[:12]
	w.trees[id] = maps.Clone(f)
	return id
}

func (w *world) head() loop.Landed { return w.landed[len(w.landed)-1] }

// The workspace.

func (w *world) Open(context.Context, loop.State) (loop.Opened, error) {
	w.work = maps.Clone(w.trees[w.head().Tree])
	clear(w.links)
	return loop.Opened{
		Branch: "ralph/x", Base: "base", BaseTree: w.landed[0].Tree,
		DefaultTree: cmp.Or(w.defaultTree, w.landed[0].Tree),
		Head:        w.head().OID, HeadTree: w.head().Tree, Settings: w.settings, Setup: w.setup, Earlier: w.earlier,
	}, nil
}

func (w *world) Reset(_ context.Context, tree string) error {
	w.work = maps.Clone(w.trees[tree])
	clear(w.links)
	return nil
}

func (w *world) Progress(_ context.Context, tree, path string) (*progress.Doc, string, error) {
	src, ok := w.trees[tree][path]
	if !ok {
		return nil, "", nil
	}
	doc, err := progress.Parse([]byte(src))
	if err != nil {
		return nil, err.Error(), nil
	}
	return doc, "", nil
}

func (w *world) Names(_ context.Context, tree string) ([]string, error) {
	var names []string
	for path := range w.trees[tree] {
		name, _, nested := strings.Cut(path, "/")
		if nested {
			name += "/"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (w *world) Snapshot(context.Context) (string, []loop.Refusal, error) {
	var refused []loop.Refusal
	for path := range w.links {
		refused = append(refused, loop.Refusal{Path: path, Reason: "it is a link"})
	}
	for _, path := range w.tools {
		refused = append(refused, loop.Refusal{Path: path, Reason: "of a tool", LeftOut: true})
	}
	return w.store(w.work), refused, nil
}

func (w *world) Changes(_ context.Context, from, to string) ([]loop.Change, error) {
	a, b := w.trees[from], w.trees[to]
	var changes []loop.Change
	for path, src := range b {
		if old, ok := a[path]; !ok {
			changes = append(changes, loop.Change{Path: path, Status: "A"})
		} else if old != src {
			changes = append(changes, loop.Change{Path: path, Status: "M"})
		}
	}
	for path := range a {
		if _, ok := b[path]; !ok {
			changes = append(changes, loop.Change{Path: path, Status: "D"})
		}
	}
	slices.SortFunc(changes, func(a, b loop.Change) int { return strings.Compare(a.Path, b.Path) })
	return changes, nil
}

func (w *world) File(_ context.Context, tree, path string, limit int64) ([]byte, bool, error) {
	src, ok := w.trees[tree][path]
	return []byte(src), ok && int64(len(src)) <= limit, nil
}

func (w *world) Secrets(_ context.Context, from, to string) ([]gate.Leak, error) {
	var leaks []gate.Leak
	for path, src := range w.trees[to] {
		if strings.Contains(src, "KEY") && src != w.trees[from][path] {
			leaks = append(leaks, gate.Leak{Path: path, Line: 1, Rule: "key", Critical: strings.Contains(src, "MASTER")})
		}
	}
	return leaks, nil
}

func (w *world) Patch(_ context.Context, from, to string, limit int) (string, error) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w.trees[to])) {
		if was, is := w.trees[from][name], w.trees[to][name]; was != is {
			fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n-%s\n+%s\n", name, name, was, is)
		}
	}
	return b.String()[:min(b.Len(), limit)], nil
}

func (w *world) With(_ context.Context, tree, path string, content []byte) (string, error) {
	f := maps.Clone(w.trees[tree])
	f[path] = string(content)
	return w.store(f), nil
}

func (w *world) Without(_ context.Context, tree, dir string) (string, error) {
	f := maps.Clone(w.trees[tree])
	maps.DeleteFunc(f, func(path, _ string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
	return w.store(f), nil
}

func (w *world) Has(_ context.Context, tree string) (bool, error) {
	_, ok := w.trees[tree]
	return ok && !w.lost, nil
}

func (w *world) Restore(_ context.Context, tree, from string, paths []string) (string, error) {
	f := maps.Clone(w.trees[tree])
	for _, path := range paths {
		delete(f, path)
		if src, ok := w.trees[from][path]; ok {
			f[path] = src
		}
	}
	return w.store(f), nil
}

// The runner.

func (w *world) StartAgent(_ context.Context, s loop.State, a loop.AgentStart) (loop.Handle, error) {
	if _, ok := w.agents[a.Name]; !ok {
		w.prompts = append(w.prompts, a.Prompt)
		w.work[a.ProgressPath] = string(a.Progress.Bytes())
		status := w.agent(w, s, a)
		status.Started = w.now
		w.now = w.now.Add(cmp.Or(w.took, time.Minute))
		status.Finished = w.now
		w.agents[a.Name] = status
	}
	return loop.Handle(a.Name), nil
}

func (w *world) ObserveAgent(_ context.Context, h loop.Handle) (loop.AgentStatus, error) {
	if w.removed[string(h)] {
		return loop.AgentStatus{}, loop.ErrGone
	}
	if w.observeErr != nil {
		w.now = w.now.Add(time.Minute)
		return loop.AgentStatus{}, w.observeErr
	}
	return w.agents[string(h)], nil
}

func (w *world) StartGate(_ context.Context, _ loop.State, g loop.GateStart) (loop.Handle, error) {
	if _, ok := w.gates[g.Name]; !ok {
		passed := w.gate(w.trees[g.Tree], g.Gate.Command)
		r := gate.Result{Passed: passed, Output: "output of " + g.Gate.Command, Reason: "exited"}
		if !passed {
			r.ExitCode = 1
		}
		w.checks = append(w.checks, g)
		if w.judge != nil {
			r = w.judge(w.trees[g.Tree], g)
		}
		w.gates[g.Name] = loop.GateStatus{Result: r, Hosts: w.met}
	}
	return loop.Handle(g.Name), nil
}

func (w *world) ObserveGate(_ context.Context, h loop.Handle) (loop.GateStatus, error) {
	if w.removed[string(h)] {
		return loop.GateStatus{}, loop.ErrGone
	}
	if w.gone > 0 {
		w.gone--
		return loop.GateStatus{}, loop.ErrGone
	}
	return w.gates[string(h)], nil
}

func (w *world) Stop(_ context.Context, h loop.Handle, _ string) error {
	w.stopped = append(w.stopped, string(h))
	return nil
}

func (w *world) Abandon(_ context.Context, name string) error {
	if _, ok := w.agents[name]; ok {
		w.stopped = append(w.stopped, name)
	}
	return nil
}

func (w *world) Remove(_ context.Context, h loop.Handle) error {
	w.removed[string(h)] = true
	return nil
}

// The publisher: landing the same iteration and tree twice is landing it once.

func (w *world) Begin(context.Context, loop.State) error {
	w.begun++
	return nil
}

func (w *world) Land(_ context.Context, l loop.Landing) (loop.Landed, error) {
	if len(w.landErr) > 0 {
		err := w.landErr[0]
		w.landErr = w.landErr[1:]
		if err != nil {
			return loop.Landed{}, err
		}
	}
	if l.State.Head != w.head().OID {
		last := w.commits[len(w.commits)-1]
		if last.Iteration == l.Iteration && last.Tree == l.Tree && last.State.Head == l.State.Head {
			return w.head(), nil
		}
		w.moved++
		return loop.Landed{}, loop.ErrBranchMoved
	}
	w.commits = append(w.commits, l)
	w.landed = append(w.landed, loop.Landed{
		OID: fmt.Sprintf("c%d", len(w.commits)), Tree: l.Tree,
		Subject: l.Task.Title, TaskID: l.Task.ID,
	})
	return w.head(), nil
}

// Show hands an edit over until it is shown a state that has seen it.
func (w *world) Show(_ context.Context, s loop.State) (*loop.PullRequest, error) {
	w.shown = append(w.shown, s)
	pr := &loop.PullRequest{Number: 2, Draft: !s.End.Complete(), Body: "rendered"}
	if w.edit != nil && s.PullRequest != nil && !w.written {
		switch edit := w.edit(s); {
		case s.PullRequest.Body == "edited":
			w.written = true
		case edit != nil:
			pr.Body, pr.Ticks = "edited", edit
		}
	}
	return pr, nil
}

func (w *world) Screen(_ loop.State, changes []loop.Change) []loop.Refusal {
	var got []loop.Refusal
	for _, c := range changes {
		if strings.HasPrefix(c.Path, "protected/") {
			got = append(got, loop.Refusal{Path: c.Path, Reason: "is a person's"})
		}
	}
	return got
}

func (w *world) engine() *loop.Engine {
	return &loop.Engine{
		Work: w, Runner: w, Publisher: w,
		KeepAttempt: w.keep,
		Now:         func() time.Time { return w.now },
		Emit:        func(ev run.Event) { w.events = append(w.events, ev) },
	}
}

// request is a run of three tasks.
func request(t testing.TB, body string) loop.Request {
	t.Helper()
	p, err := plan.FromIssue("Add greetings", body)
	if err != nil {
		t.Fatal(err)
	}
	return loop.Request{
		Run:     "r1",
		Subject: loop.Subject{Key: "issue:I_1", Slug: "1", Name: "Add greetings", PlanFile: "issue #1"},
		Plan:    p,
	}
}

const threeTasks = "- [ ] one\n- [ ] two\n- [ ] three\n"

// step takes the step of that number, on the state as it is stored.
func (w *world) step(e *loop.Engine, s loop.State, number int) (loop.State, loop.Next) {
	w.t.Helper()
	if w.meanwhile != nil {
		s = w.meanwhile(s)
	}
	stored, err := loop.Encode(s)
	if err != nil {
		w.t.Fatal(err)
	}
	if s, err = loop.Decode(stored); err != nil {
		w.t.Fatal(err)
	}
	next, n, err := e.Step(w.t.Context(), s)
	if err != nil {
		w.t.Fatalf("step %d at %s with %d calls: %v", number, s.Stage, len(s.Calls), err)
	}
	return next, n
}

// drive steps s to its end. crash is asked before each save whether the
// process dies there, which loses the step's state but not its effects.
func (w *world) drive(s loop.State, crash func(step int) bool) loop.State {
	w.t.Helper()
	return w.steps(w.engine(), s, 2000, func([]loop.Handle) {}, crash)
}

// steps steps s to its end, in at most so many steps. wait is told what the run waits for; crash
// is asked before each save.
func (w *world) steps(
	e *loop.Engine, s loop.State, most int, wait func(handles []loop.Handle), crash func(step int) bool,
) loop.State {
	w.t.Helper()
	for step := range most {
		next, n := w.step(e, s, step)
		if crash != nil && crash(step) {
			continue
		}
		s = next
		switch n.Kind {
		case loop.Done:
			return s
		case loop.Sleep:
			w.now = n.Until
		case loop.Wait:
			wait(n.Handles)
		case loop.Continue:
		}
	}
	w.t.Fatal("the run does not end")
	return s
}

// eachCrash gives, for one run each, the step at which its process dies: the first, the second,
// and so on until a run has ended before the process died. So there are as many as the run has
// steps, however many it gets, and the last run is one that nothing happened to.
func eachCrash(yield func(at int, crash func(step int) bool) bool) {
	died := true
	for at := 0; died; at++ {
		died = false
		crash := func(step int) bool {
			died = died || step == at
			return step == at
		}
		if !yield(at, crash) {
			return
		}
	}
}

func (w *world) tasks(s loop.State) []run.Task {
	w.t.Helper()
	d, err := progress.Parse([]byte(s.Progress))
	if err != nil {
		w.t.Fatal(err)
	}
	return d.Tasks()
}

var errBoom = errors.New("boom")

// keep keeps what a failed attempt changed.
func (w *world) keep(_ context.Context, a loop.FailedAttempt) (bool, error) {
	w.refused = append(w.refused, a)
	return true, nil
}
