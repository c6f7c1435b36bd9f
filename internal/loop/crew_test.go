package loop_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// crew is a world in which tasks are worked side by side. Agents and checks are at work
// until the schedule lets them end.
type crew struct {
	*world
	trees map[int]files
	// busy are processes that have not ended yet; started counts how often each began.
	busy    map[string]bool
	started map[string]int
	// most is how many agents there were at once.
	most int
	// writes: each task makes the file src/ID.txt.
	writes bool
	// removeErr is what removing an ended process comes to next.
	removeErr []error
}

func newCrew(t testing.TB) *crew {
	c := &crew{world: newWorld(t), trees: map[int]files{}, busy: map[string]bool{}, started: map[string]int{}}
	return c
}

func (c *crew) engine() *loop.Engine {
	e := c.world.engine()
	e.Beside, e.Runner = c.lane, &laneTree{crew: c}
	return e
}

func (c *crew) lane(n int) (loop.Work, loop.Runner) {
	l := &laneTree{crew: c, n: n}
	return l, l
}

// Fold merges file by file.
func (w *world) Fold(_ context.Context, base, ours, theirs string) (string, []string, error) {
	b, o, t := w.trees[base], w.trees[ours], w.trees[theirs]
	out := maps.Clone(o)
	var conflicts []string
	for path := range union(b, t) {
		was, had := b[path]
		is, has := t[path]
		if was == is && had == has {
			continue
		}
		now, there := o[path]
		switch {
		case now == is && there == has:
		case now != was || there != had:
			conflicts = append(conflicts, path)
		case has:
			out[path] = is
		default:
			delete(out, path)
		}
	}
	slices.Sort(conflicts)
	return w.store(out), conflicts, nil
}

func union(a, b files) files {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// laneTree is the world as an agent sees it that works beside others, or with 0 as the run does.
type laneTree struct {
	*crew
	n int
}

// with has do work in the lane's own tree.
func (l *laneTree) with(do func() error) error {
	if l.n == 0 {
		return do()
	}
	if l.crew.trees[l.n] == nil {
		return loop.ErrNoWorkTree
	}
	was := l.work
	l.work = l.crew.trees[l.n]
	err := do()
	l.crew.trees[l.n] = l.work
	l.work = was
	return err
}

func (l *laneTree) Reset(_ context.Context, tree string) error {
	l.crew.trees[l.n] = maps.Clone(l.world.trees[tree])
	return nil
}

func (l *laneTree) Snapshot(ctx context.Context) (tree string, refused []loop.Refusal, err error) {
	err = l.with(func() error { tree, refused, err = l.world.Snapshot(ctx); return err })
	return tree, refused, err
}

func (l *laneTree) StartAgent(ctx context.Context, s loop.State, a loop.AgentStart) (h loop.Handle, err error) {
	if _, ok := l.world.agents[a.Name]; !ok {
		l.started[a.Name]++
		l.busy[a.Name] = true
		l.most = max(l.most, len(l.busy))
	}
	err = l.with(func() error { h, err = l.world.StartAgent(ctx, s, a); return err })
	return h, err
}

func (l *laneTree) ObserveAgent(ctx context.Context, h loop.Handle) (loop.AgentStatus, error) {
	if l.busy[string(h)] {
		return loop.AgentStatus{Running: true}, nil
	}
	return l.world.ObserveAgent(ctx, h)
}

func (l *laneTree) StartGate(ctx context.Context, s loop.State, g loop.GateStart) (loop.Handle, error) {
	if _, ok := l.world.gates[g.Name]; !ok {
		l.busy[g.Name] = true
	}
	return l.world.StartGate(ctx, s, g)
}

func (l *laneTree) ObserveGate(ctx context.Context, h loop.Handle) (loop.GateStatus, error) {
	if l.busy[string(h)] {
		return loop.GateStatus{Running: true}, nil
	}
	return l.world.ObserveGate(ctx, h)
}

func (l *laneTree) Stop(ctx context.Context, h loop.Handle, why string) error {
	l.end(string(h))
	return l.world.Stop(ctx, h, why)
}

func (l *laneTree) Remove(ctx context.Context, h loop.Handle) error {
	if len(l.removeErr) > 0 {
		err := l.removeErr[0]
		l.removeErr = l.removeErr[1:]
		if err != nil {
			return err
		}
	}
	return l.world.Remove(ctx, h)
}

func (l *laneTree) Abandon(ctx context.Context, name string) error {
	l.end(name)
	return l.world.Abandon(ctx, name)
}

// end lets a process end.
func (c *crew) end(name string) { delete(c.busy, name) }

// play steps s to its end. pick chooses which of the processes that a run waits for ends
// next; crash is asked before each save.
func (c *crew) play(s loop.State, pick func(n int) int, crash func(step int) bool) loop.State {
	c.t.Helper()
	end := func(handles []loop.Handle) { c.end(string(handles[pick(len(handles))])) }
	return c.steps(c.engine(), s, 20000, end, crash)
}

// atWork steps s until it waits for what is at work.
func (c *crew) atWork(e *loop.Engine, s loop.State) (loop.State, loop.Next) {
	c.t.Helper()
	for {
		next, n, err := e.Step(c.t.Context(), s)
		if err != nil {
			c.t.Fatal(err)
		}
		switch s = next; n.Kind {
		case loop.Wait:
			return s, n
		case loop.Done:
			c.t.Fatalf("ended %s: %s", s.End, s.EndDetail)
		case loop.Continue, loop.Sleep:
		}
	}
}

// parallel is a run of four tasks that may be worked side by side.
func parallel(t testing.TB, body string, most int) loop.State {
	t.Helper()
	r := request(t, body)
	r.Limits = run.Limits{Parallel: most}
	r.Gates = []gate.Gate{{Name: "check", Kind: gate.Check, Command: "check"}}
	r.Review = loop.ReviewNever
	r.KeepProgress = true
	return loop.NewState(r, newWorld(t).now)
}

const fourTasks = "- [ ] T1 [P] one\n- [ ] T2 [P] two\n- [ ] T3 [P] three\n- [ ] T4 [P] four\n"

// linear fails the test unless each commit was made on the one before, and each task has
// one.
func (c *crew) linear(s loop.State) {
	c.t.Helper()
	head, seen := "base", map[string]bool{}
	for i, l := range c.commits {
		if l.State.Head != head {
			c.t.Errorf("commit %d is on %s, not on %s", i+1, l.State.Head, head)
		}
		head = c.landed[i+1].OID
		if l.Task.ID == "" {
			continue
		}
		if seen[l.Task.ID] {
			c.t.Errorf("%s has two commits", l.Task.ID)
		}
		seen[l.Task.ID] = true
	}
	if s.Head != head && (s.Head != "" || len(c.commits) > 0) { // it may not have got as far as to open the branch
		c.t.Errorf("the state is at %s, the branch at %s", s.Head, head)
	}
	for _, task := range c.tasks(s) {
		if (task.Status == run.TaskDone) != seen[task.ID] {
			c.t.Errorf("%s is %s, and committed: %v", task.ID, task.Status, seen[task.ID])
		}
	}
	tip := c.world.trees[c.head().Tree]
	for _, task := range c.tasks(s) {
		if file := "src/" + task.ID + ".txt"; c.writes && task.Status == run.TaskDone && tip[file] != "done" {
			c.t.Errorf("the tip lacks the work of %s, which landed", task.ID)
		}
	}
	for name, n := range c.started {
		if n > 1 {
			c.t.Errorf("%s was started %d times", name, n)
		}
	}
}
