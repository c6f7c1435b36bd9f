package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// required are the checks due now: those of the task on a proposal, those of
// the end once all tasks are done. What the base brings along is joined by
// what the proposal adds, never shortened by it.
func (e *Engine) required(s State) ([]gate.Gate, error) {
	when := gate.Task
	if s.Phase == run.PhaseFinishing {
		when = gate.Final
	}
	gates := e.gates(s)
	if len(s.Gates) == 0 && !s.NoDetect {
		proposed, err := e.detect()
		if err != nil {
			return nil, err
		}
		gates = gate.Union(gates, proposed)
	}
	return gate.At(gates, when), nil
}

func (e *Engine) finalGates(s State) bool {
	return len(gate.At(s.Gates, gate.Final)) > 0
}

// checked is the tree that checks run on: the proposal, or at the end what has
// landed, without .ralph/. The notes of a run are no part of what is checked.
func (e *Engine) checked(ctx context.Context, s *State, final bool) (string, error) {
	whole := s.HeadTree
	if !final {
		whole = s.Proposal.Tree
	}
	tree, err := e.Workspace.Without(ctx, whole, ".ralph")
	if err != nil {
		return "", fmt.Errorf("take .ralph out of the tree: %w", err)
	}
	return tree, nil
}

// startGate starts the next check.
func (e *Engine) startGate(ctx context.Context, s *State) (Next, error) {
	gates, err := e.required(*s)
	if err != nil {
		return Next{}, err
	}
	final := s.Stage == stageFinalGates
	if s.GateIndex >= len(gates) {
		if final {
			s.Stage = stageClose
			return Next{}, nil
		}
		s.Stage = stageLand
		return Next{}, nil
	}
	g := gates[s.GateIndex]
	tree, err := e.checked(ctx, s, final)
	if err != nil {
		return Next{}, err
	}
	if r, ok := s.GateMemo[gate.Key(tree, g.Command, s.Image)]; ok {
		return e.judgeGate(ctx, s, r)
	}
	if s.Process == nil {
		// The intent first: after a crash the same name finds the same process.
		s.Starts++
		s.Process = &Process{Kind: ProcessGate, Name: processName(*s), StartedAt: e.Now()}
		return Next{}, nil
	}
	h, err := e.Runner.StartGate(ctx, *s, GateStart{Name: s.Process.Name, Gate: g, Tree: tree})
	if err != nil {
		return Next{}, fmt.Errorf("start check %q: %w", g.Name, err)
	}
	s.Process.Handle = h
	s.Stage = stageGateWatch
	if final {
		s.Stage = stageFinalWatch
	}
	return Next{}, nil
}

func (e *Engine) watchGate(ctx context.Context, s *State) (Next, error) {
	gates, err := e.required(*s)
	if err != nil {
		return Next{}, err
	}
	final := s.Stage == stageFinalWatch
	back := stageGate
	if final {
		back = stageFinalGates
	}
	if s.GateIndex >= len(gates) {
		return Next{}, fmt.Errorf("check %d of %d is not there any more", s.GateIndex+1, len(gates))
	}
	g := gates[s.GateIndex]
	tree, err := e.checked(ctx, s, final)
	if err != nil {
		return Next{}, err
	}
	status, err := e.Runner.ObserveGate(ctx, s.Process.Handle)
	switch {
	case errors.Is(err, ErrGone) && e.overdue(*s):
		return e.finish(s, run.EndDeadline, "")
	case errors.Is(err, ErrGone):
		s.Process, s.Stage = nil, back
		return Next{}, nil
	case errors.Is(err, ErrLost):
		s.Process, s.Stage = nil, back
		if s.Lost++; s.Lost <= maxLost {
			return Next{}, nil
		}
		return e.judgeGate(ctx, s, gate.Result{
			Gate: g.Name, Command: g.Command, Tree: tree, ExitCode: -1,
			Reason: "its process was lost: something ended it from outside, or it ended its own parent",
		})
	case err != nil:
		return Next{}, fmt.Errorf("observe check %q: %w", g.Name, err)
	}
	if status.Running {
		return Next{Kind: Wait, Handle: s.Process.Handle}, nil
	}
	s.Lost = 0
	r := status.Result
	r.Gate, r.Command, r.Tree = g.Name, g.Command, tree
	if err := e.forget(ctx, s); err != nil {
		return Next{}, err
	}
	for key, old := range s.GateMemo {
		if old.Tree != tree {
			delete(s.GateMemo, key)
		}
	}
	s.Stage = back
	word := "passed"
	if !r.Passed {
		word = "failed"
	}
	e.emit(run.Event{Kind: run.EventGate, TaskID: s.TaskID, Text: fmt.Sprintf("%s %s in %s", g.Name, word, r.Duration.Round(10*time.Millisecond))}, s)
	if r.Reason != "exited" {
		// How it ended says nothing of the tree for certain; do not remember it.
		return e.judgeGate(ctx, s, r)
	}
	s.GateMemo[gate.Key(tree, g.Command, s.Image)] = r
	return Next{}, nil
}

// judgeGate takes the result of one check: on to the next, or back to work.
func (e *Engine) judgeGate(ctx context.Context, s *State, r gate.Result) (Next, error) {
	s.GateLast = append(s.GateLast[:len(s.GateLast):len(s.GateLast)], r)
	if r.Passed {
		s.GateIndex++
		return Next{}, nil
	}
	if s.Stage == stageGate {
		return e.fail(ctx, s, gate.Remediation(r))
	}
	return e.reopen(s, r)
}

// reopen turns a failed final check into a task of its own.
func (e *Engine) reopen(s *State, r gate.Result) (Next, error) {
	s.Reopened[r.Command]++
	if s.Reopened[r.Command] > maxReopen {
		return e.finish(s, run.EndBlocked, fmt.Sprintf("the final check %q still fails", r.Gate))
	}
	doc, err := s.document(s.Progress)
	if err != nil {
		return Next{}, fmt.Errorf("read the accepted progress: %w", err)
	}
	_, err = doc.AddTask(run.Task{
		Title: fmt.Sprintf("Make the final check %q pass", r.Gate), Priority: 1,
		Accept: []string{fmt.Sprintf("`%s` exits with 0", r.Command)},
	})
	if err != nil {
		return Next{}, fmt.Errorf("add a task: %w", err)
	}
	if err := doc.SetStatus(progress.StatusInProgress); err != nil {
		return Next{}, fmt.Errorf("set the status: %w", err)
	}
	s.Progress = s.text(doc)
	s.Failure = gate.Remediation(r)
	s.TaskID = ""
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	return Next{}, nil
}
