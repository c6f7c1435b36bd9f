package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

const (
	// maxSteps bounds the steps of a run that does not end by itself.
	maxSteps = 50_000
	// maxTroubles is how many steps in a row may fail before the run is given up,
	// as both doors have it.
	maxTroubles = 5
	// readBack is after how many steps a run goes on from what was stored of it,
	// though the host has not died: often enough that nothing which is not stored
	// could carry a run, and not at each step, since reading takes longer than all
	// the rest.
	readBack = 8
)

// looped runs the project through the loop, stored at each step and read back
// every few. With the mix's chance the host dies after a step: what the step has
// done stays done, but its state is lost, and the run goes on from the one before,
// as it was stored.
func looped(ctx context.Context, p *project, m Mix, seed uint64) (outcome, error) {
	notes := ""
	if p.conditions[ConditionTaught] {
		var err error
		if notes, err = taught(ctx, p, m, rand.New(rand.NewPCG(seed+3, 0))); err != nil { // #nosec G404 -- repeatable on purpose
			return outcome{}, err
		}
	}
	return drive(ctx, p, m, "sim", seed, notes)
}

// drive is looped with what earlier, merged work noted.
func drive(ctx context.Context, p *project, m Mix, name run.ID, seed uint64, notes string) (outcome, error) {
	w := newWorld(p, m, seed)
	w.notes = notes
	rnd := rand.New(rand.NewPCG(seed+2, 0)) // #nosec G404 -- repeatable on purpose
	wanted, err := plan.FromIssue("Bring the values up to date", p.issue())
	if err != nil {
		return outcome{}, fmt.Errorf("make the plan: %w", err)
	}
	limits := m.Limits.limits()
	limits.BudgetUSD = p.budget
	review := loop.ReviewNever
	if p.conditions[ConditionReviewed] {
		review = loop.ReviewAlways
	}
	s := loop.NewState(loop.Request{
		Run: name, Plan: wanted,
		Subject: loop.Subject{Key: "issue:I_1", Slug: "1", Name: wanted.Title, PlanFile: "issue #1"},
		Settings: loop.Settings{Ask: plan.AskNever, Review: review, Limits: limits, Gates: []gate.Gate{
			{Name: "go vet", Kind: gate.Lint, Command: vetCommand}, {Name: "go test", Kind: gate.Test, Command: testCommand},
			{Name: "accept", Command: acceptCommand, When: gate.Final},
		}},
	}, w.now)
	e := &loop.Engine{
		WorkTree: w, Trees: w, Runner: w, Publisher: w, Now: func() time.Time { return w.now },
	}
	e.Emit = func(ev run.Event) {
		if ev.Kind == run.EventAttemptFailed {
			w.meter.failed(ev.TaskID)
		}
	}
	stored, err := loop.Encode(s)
	if err != nil {
		return outcome{}, err
	}
	var out outcome
	troubles := 0
	for step := range maxSteps {
		if err := ctx.Err(); err != nil {
			return outcome{}, fmt.Errorf("run the loop: %w", err)
		}
		next, n, err := e.Step(ctx, s)
		if err != nil {
			if troubles++; troubles < maxTroubles {
				continue
			}
			out.trouble = err.Error()
			next, n = e.Fail(s, out.trouble), loop.Next{}
		}
		troubles = 0
		if n.Kind == loop.Done {
			out.end = next.End
			if doc, err := progress.Parse([]byte(next.Progress)); err == nil {
				out.notes = doc.Notes()
			}
			out.doubled = w.doubled(next)
			if out.givenUp, err = givenUp(next); err != nil {
				return outcome{}, err
			}
			w.meter.finish(&out, w.trees[w.tip().Tree], w.now.Sub(epoch))
			return out, nil
		}
		died := rnd.Float64() < m.Crash
		if died && rnd.IntN(2) == 0 {
			w.die()
		}
		if !died {
			w.pass(n)
			if stored, err = loop.Encode(next); err != nil {
				return outcome{}, err
			}
			s = next
		}
		if died || step%readBack == 0 {
			if s, err = loop.Decode(stored); err != nil {
				return outcome{}, err
			}
		}
	}
	return outcome{}, fmt.Errorf("the run does not end: it is at %s", s.Stage)
}

// givenUp are the tasks that are not done where the run had no more to work, those
// left out that wait for a person, who is told what the agent says.
func givenUp(s loop.State) ([]string, error) {
	switch s.End { //nolint:exhaustive // the others are limits, or are done
	case run.EndBlocked, run.EndAwaitingPerson, run.EndStagnated:
	default:
		return nil, nil
	}
	doc, err := progress.Parse([]byte(s.Progress))
	if err != nil {
		return nil, fmt.Errorf("read the progress of a run that has ended: %w", err)
	}
	var ids []string
	for _, t := range doc.Tasks() {
		asked := slices.ContainsFunc(s.Needs, func(n loop.Need) bool { return n.TaskID == t.ID })
		if t.Status != run.TaskDone && !asked {
			ids = append(ids, t.ID)
		}
	}
	return ids, nil
}

// pass lets the time pass that a step asks for.
func (w *world) pass(n loop.Next) {
	switch n.Kind {
	case loop.Wait:
		if p, ok := w.procs[string(n.Handles[0])]; ok && w.now.Before(p.end) {
			w.now = p.end
		}
	case loop.Sleep:
		w.now = n.Until
	case loop.Continue, loop.Done:
	}
}

// die ends all processes, with the host that owned them.
func (w *world) die() {
	for _, p := range w.procs {
		if w.now.Before(p.end) {
			p.gone = true
			w.tell(p, true)
		}
	}
}

// doubled counts the commits on the branch that the state does not know of.
func (w *world) doubled(s loop.State) int {
	known := len(s.Commits)
	if s.Closing != nil {
		known++
	}
	n := len(w.commits) - known
	seen := map[string]bool{}
	for _, c := range w.commits {
		if c.Closing || c.Recorded || c.Planned {
			continue
		}
		if seen[c.Task.ID] {
			n++
		}
		seen[c.Task.ID] = true
	}
	return n
}
