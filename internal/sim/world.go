package sim

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// epoch is when each simulated run begins.
var epoch = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// process is an agent or a check that was started.
type process struct {
	agent loop.AgentStatus
	gate  loop.GateStatus
	end   time.Time
	gone  bool // removed, or died with the host
	// call is what an agent's call came to, for the meter, which is told once.
	call *played
}

// played is a call of an agent: how it found the tree and how it left it.
type played struct {
	answer answer
	before string
	after  files
}

// world is everything around the loop: a work tree, agents, checks and a branch,
// all in memory and on a clock of its own.
type world struct {
	now     time.Time
	agent   *agent
	meter   *meter
	seed    uint64
	started uint64

	trees map[string]files
	work  *workTree
	procs map[string]*process
	// limited is when the provider answers again, told whether it says so.
	limited time.Time
	told    bool
	// last are the faults of the call that worked last and of those that looked at it.
	last []Fault
	// spent is the gateway's own record of what the calls have cost.
	spent float64

	commits []loop.Landing
	landed  []loop.Landed
	// notes are what earlier, merged work noted.
	notes string
}

func newWorld(p *project, m Mix, seed uint64) *world {
	checks := newChecker()
	w := &world{
		now: epoch, seed: seed, trees: map[string]files{}, procs: map[string]*process{},
		agent: &agent{project: p, mix: m, checks: checks}, meter: newMeter(p, checks),
		work: &workTree{files: cloneFiles(p.base), links: map[string]bool{}},
	}
	w.landed = []loop.Landed{{OID: "base", Tree: w.store(p.base)}}
	return w
}

func (w *world) store(f files) string {
	id := digest(f)
	if _, ok := w.trees[id]; !ok {
		w.trees[id] = cloneFiles(f)
	}
	return id
}

func (w *world) tip() loop.Landed { return w.landed[len(w.landed)-1] }

func (w *world) lay(tree string) {
	w.work.files = cloneFiles(w.trees[tree])
	clear(w.work.links)
}

// Open implements loop.WorkTree.
func (w *world) Open(context.Context, loop.State) (loop.Opened, error) {
	w.lay(w.tip().Tree)
	return loop.Opened{
		Settings: loop.Settings{MergedNotes: w.notes},
		Branch:   "ralph/1", BaseBranch: "main", Base: "base", BaseTree: w.landed[0].Tree, DefaultTree: w.landed[0].Tree,
		Head: w.tip().OID, HeadTree: w.tip().Tree,
	}, nil
}

// Reset implements loop.WorkTree.
func (w *world) Reset(_ context.Context, tree string) error {
	w.lay(tree)
	return nil
}

// ReadProgress implements loop.WorkTree.
func (w *world) ReadProgress(_ context.Context, name string) (*progress.Doc, error) {
	if w.work.links[name] {
		return nil, fmt.Errorf("%q: %w", name, progress.ErrNotRegular)
	}
	src, ok := w.work.files[name]
	if !ok {
		return nil, fmt.Errorf("%q: %w", name, fs.ErrNotExist)
	}
	return progress.Parse([]byte(src))
}

// WriteProgress implements loop.WorkTree.
func (w *world) WriteProgress(_ context.Context, name string, d *progress.Doc) error {
	delete(w.work.links, name)
	w.work.files[name] = string(d.Bytes())
	return nil
}

// Names implements loop.Trees.
func (w *world) Names(_ context.Context, tree string) ([]string, error) {
	var out []string
	for _, name := range names(w.trees[tree]) {
		top, _, nested := strings.Cut(name, "/")
		if nested {
			top += "/"
		}
		if !slices.Contains(out, top) {
			out = append(out, top)
		}
	}
	return out, nil
}

// Files implements loop.Trees.
func (w *world) Files(_ context.Context, tree string) ([]string, error) {
	return names(w.trees[tree]), nil
}

// Snapshot implements loop.WorkTree.
func (w *world) Snapshot(context.Context) (string, []loop.Refusal, error) {
	var refused []loop.Refusal
	for name := range w.work.links {
		refused = append(refused, loop.Refusal{Path: name, Reason: "it is a symbolic link"})
	}
	return w.store(w.work.files), refused, nil
}

// Changes implements loop.Trees.
func (w *world) Changes(_ context.Context, from, to string) ([]loop.Change, error) {
	const mode = 0o100644
	a, b := w.trees[from], w.trees[to]
	all := maps.Clone(a)
	maps.Copy(all, b)
	var out []loop.Change
	for _, name := range names(all) {
		before, had := a[name]
		after, has := b[name]
		switch {
		case !had:
			out = append(out, loop.Change{Path: name, Status: "A", NewMode: mode})
		case !has:
			out = append(out, loop.Change{Path: name, Status: "D", OldMode: mode})
		case before != after:
			out = append(out, loop.Change{Path: name, Status: "M", OldMode: mode, NewMode: mode})
		}
	}
	return out, nil
}

// File implements loop.Trees.
func (w *world) File(_ context.Context, tree, path string, limit int64) ([]byte, bool, error) {
	src, ok := w.trees[tree][path]
	return []byte(src), ok && int64(len(src)) <= limit, nil
}

// Secrets implements loop.Trees: the projects hold none.
func (w *world) Secrets(context.Context, string, string) ([]gate.Leak, error) { return nil, nil }

// Patch implements loop.Trees.
func (w *world) Patch(_ context.Context, from, to string, limit int) (string, error) {
	var b strings.Builder
	for _, name := range names(w.trees[to]) {
		if before, after := w.trees[from][name], w.trees[to][name]; before != after && b.Len() < limit {
			fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n%s\n", name, name, after)
		}
	}
	return b.String()[:min(b.Len(), limit)], nil
}

// With implements loop.Trees.
func (w *world) With(_ context.Context, tree, path string, content []byte) (string, error) {
	f := cloneFiles(w.trees[tree])
	f[path] = string(content)
	return w.store(f), nil
}

// Without implements loop.Trees.
func (w *world) Without(_ context.Context, tree, dir string) (string, error) {
	f := cloneFiles(w.trees[tree])
	maps.DeleteFunc(f, func(name, _ string) bool { return name == dir || strings.HasPrefix(name, dir+"/") })
	return w.store(f), nil
}

// Has implements loop.Trees.
func (w *world) Has(_ context.Context, tree string) (bool, error) {
	_, ok := w.trees[tree]
	return ok, nil
}

// Restore implements loop.Trees.
func (w *world) Restore(_ context.Context, tree, from string, paths []string) (string, error) {
	f := cloneFiles(w.trees[tree])
	for _, name := range paths {
		delete(f, name)
		if src, ok := w.trees[from][name]; ok {
			f[name] = src
		}
	}
	return w.store(f), nil
}

// StartAgent implements loop.Runner. Starting a name again finds what was started.
func (w *world) StartAgent(_ context.Context, s loop.State, a loop.AgentStart) (loop.Handle, error) {
	if _, ok := w.procs[a.Name]; ok {
		return loop.Handle(a.Name), nil
	}
	w.started++
	delete(w.work.links, a.ProgressPath)
	w.work.files[a.ProgressPath] = string(a.Progress.Bytes())
	before := w.meter.before(w.work.files)
	ans := answer{ending: endedRefused, took: 5 * time.Second, detail: "You've hit your limit"}
	if !w.now.Before(w.limited) {
		ans = w.agent.work(&call{
			prompt: a.Prompt, tree: w.work, progress: a.ProgressPath,
			rnd: rand.New(rand.NewPCG(w.seed, w.started)), // #nosec G404 -- repeatable on purpose
		})
		if ans.ending == endedRefused {
			w.limited, w.told = w.now.Add(ans.limit), ans.told
		}
	}
	status := w.status(&ans, s, a)
	w.spent += ans.cost
	w.procs[a.Name] = &process{agent: status, end: status.Finished, call: &played{ans, before, cloneFiles(w.work.files)}}
	return loop.Handle(a.Name), nil
}

// reserve is the worst case of one request, in dollars. A gateway admits a request
// only where that still fits into the budget.
const reserve = 0.30

// status tells of the end of a call as the runner would see it: it keeps the limits
// of time, and the gateway that of money.
func (w *world) status(ans *answer, s loop.State, a loop.AgentStart) loop.AgentStatus {
	status := loop.AgentStatus{Final: ans.final, Detail: ans.detail, Model: "simulated", Started: w.now}
	switch ans.ending {
	case endedWell:
		status.Outcome = loop.AgentCompleted
	case endedGaveUp:
		status.Outcome = loop.AgentGaveUp
	case endedCrashed:
		status.Outcome = loop.AgentBroken
	case endedCutOff: // comes of the gateway, below
	case endedRefused:
		status.Outcome = loop.AgentRateLimited
		if w.told {
			status.RetryAt = w.limited
		}
	case endedSilent:
		status.Outcome, status.Detail = loop.AgentTimedOut, "it said nothing for "+a.Idle.String()
		ans.took += a.Idle
	case endedEndless:
		status.Outcome, status.Detail = loop.AgentTimedOut, "it ran out of time after "+a.Wall.String()
		ans.took = a.Wall
	}
	if a.Wall > 0 && ans.took > a.Wall {
		status.Outcome, status.Detail = loop.AgentTimedOut, "it ran out of time after "+a.Wall.String()
		ans.took, ans.ending = a.Wall, endedEndless
	}
	if budget := s.Limits.BudgetUSD; budget > 0 && ans.ending != endedRefused {
		spent := 0.0
		for w.spent+spent+reserve <= budget && spent < ans.cost {
			spent += min(reserve, ans.cost-spent)
		}
		if spent < ans.cost {
			ans.cost, ans.ending = spent, endedCutOff
			status.Outcome, status.Detail = loop.AgentOverBudget, "the budget does not cover another request"
		}
	}
	status.Usage = run.Usage{CostUSD: ans.cost, Turns: 1}
	status.Finished = w.now.Add(ans.took)
	return status
}

// ObserveAgent implements loop.Runner.
func (w *world) ObserveAgent(_ context.Context, h loop.Handle) (loop.AgentStatus, error) {
	p, ok := w.procs[string(h)]
	switch {
	case !ok:
		return loop.AgentStatus{}, loop.ErrGone
	case p.gone:
		return loop.AgentStatus{Usage: p.agent.Usage}, loop.ErrGone
	case w.now.Before(p.end):
		return loop.AgentStatus{Running: true, Started: p.agent.Started}, nil
	}
	w.tell(p, false)
	return p.agent, nil
}

// tell has the meter note a call that is over. One that died with the host is a
// crash, however far it had come.
func (w *world) tell(p *process, died bool) {
	if p.call == nil {
		return
	}
	c := *p.call
	p.call = nil
	if died {
		c.answer.ending = endedCrashed
	}
	if c.answer.job != "verify" {
		w.last = nil
	}
	if c.answer.fault != FaultNone {
		w.last = append(w.last, c.answer.fault)
	}
	w.meter.called(c.answer, c.before, c.after)
}

// StartGate implements loop.Runner.
func (w *world) StartGate(ctx context.Context, _ loop.State, g loop.GateStart) (loop.Handle, error) {
	if _, ok := w.procs[g.Name]; ok {
		return loop.Handle(g.Name), nil
	}
	w.started++
	rnd := rand.New(rand.NewPCG(w.seed+1, w.started)) // #nosec G404 -- repeatable on purpose
	took := time.Duration(10+rnd.IntN(50)) * time.Second
	output, passed := w.agent.checks.check(w.trees[g.Tree], g.Gate.Command, rnd.Float64() < flakiness)
	r := gate.Result{
		Passed: passed, Reason: "exited", Duration: took, Output: gate.Excerpt(ctx, output), Facts: gate.Read(output),
	}
	if !passed {
		r.ExitCode = 1
	}
	w.procs[g.Name] = &process{gate: loop.GateStatus{Result: r}, end: w.now.Add(took)}
	return loop.Handle(g.Name), nil
}

// flakiness is how often the flaky test fails.
const flakiness = 0.3

// ObserveGate implements loop.Runner.
func (w *world) ObserveGate(_ context.Context, h loop.Handle) (loop.GateStatus, error) {
	p, ok := w.procs[string(h)]
	switch {
	case !ok || p.gone:
		return loop.GateStatus{}, loop.ErrGone
	case w.now.Before(p.end):
		return loop.GateStatus{Running: true}, nil
	}
	return p.gate, nil
}

// Stop implements loop.Runner.
func (w *world) Stop(_ context.Context, h loop.Handle, _ string) error {
	if p, ok := w.procs[string(h)]; ok && w.now.Before(p.end) {
		p.end = w.now
	}
	return nil
}

// Remove implements loop.Runner.
func (w *world) Remove(ctx context.Context, h loop.Handle) error { return w.Abandon(ctx, string(h)) }

// Abandon implements loop.Runner.
func (w *world) Abandon(_ context.Context, name string) error {
	if p, ok := w.procs[name]; ok {
		p.gone = true
	}
	return nil
}

// Begin implements loop.Publisher.
func (w *world) Begin(context.Context, loop.State) error { return nil }

// Land implements loop.Publisher. Landing the same iteration and tree again finds
// the commit that is there.
func (w *world) Land(_ context.Context, l loop.Landing) (loop.Landed, error) {
	if l.State.Head != w.tip().OID {
		last := w.commits[len(w.commits)-1]
		if last.Iteration == l.Iteration && last.Tree == l.Tree && last.State.Head == l.State.Head {
			return w.tip(), nil
		}
		return loop.Landed{}, loop.ErrBranchMoved
	}
	w.commits = append(w.commits, l)
	w.landed = append(w.landed, loop.Landed{
		OID: fmt.Sprintf("c%d", len(w.commits)), Tree: l.Tree, Subject: l.Task.Title, TaskID: l.Task.ID,
	})
	var faults []Fault
	var wanted []aim
	if !l.Closing && !l.Recorded && !l.Planned {
		faults = w.last
		if places.MatchString(l.Task.Title) {
			wanted = w.agent.aims(&call{tree: &workTree{files: w.trees[l.Tree]}}, l.Task.Title)
		}
	}
	w.meter.committed(w.trees[l.Tree], faults, wanted)
	return w.tip(), nil
}

// Show implements loop.Publisher.
func (w *world) Show(_ context.Context, s loop.State) (*loop.PullRequest, error) {
	return &loop.PullRequest{Number: 2, Draft: !s.End.Complete()}, nil
}

// Screen implements loop.Publisher.
func (w *world) Screen(loop.State, []loop.Change) loop.Screened { return loop.Screened{} }
