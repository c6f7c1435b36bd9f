package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// How many times something is tried before the run gives up on it.
const (
	// maxStrikes broken agent calls in a row, across tasks, end the run. Of calls
	// that crashed only after they had used the model, twice as many do: those show
	// that agent and provider work.
	maxStrikes = 3
	// maxPlanAttempts bounds the calls that may be spent on a plan. They are more
	// than a task gets: without a plan all of the run's tasks are lost. Where one
	// answer in four is no plan, this leaves one run in 65,000 without.
	maxPlanAttempts = 8
	// maxReopen bounds how often one failing final check becomes a task.
	maxReopen = 2
	// maxMoves bounds how often the branch may move under a run in a row.
	maxMoves = 3
	// maxLost bounds how often in a row a process may get lost before that is
	// taken for its own doing.
	maxLost = 1
	// maxGone bounds how often in a row a process may be gone without a trace:
	// hosts that restart do that, and hosts that restart for ever.
	maxGone = 20
	// maxCrowded bounds how often in a row an agent may be stopped for a full disk before
	// that is taken for its own doing: each time it was started there was room.
	maxCrowded = 3
	// maxWait bounds what a provider may ask for; the time comes through the
	// agent's own output.
	maxWait = 24 * time.Hour
)

// ErrBranchMoved is returned by a Publisher when the branch's tip is neither
// the one the proposal was made on nor the commit that lands it.
var ErrBranchMoved = errors.New("loop: somebody else moved the branch")

// Halt is returned by a Publisher where a person has to say how it goes on, has said that it
// does not, or may no longer write to the repository. The run ends for Reason; nothing more is committed.
type Halt struct {
	Reason run.EndReason
	Detail string
}

// Error implements error.
func (h *Halt) Error() string { return "loop: " + h.Detail }

// Rejection is returned by a Publisher that must not let a proposal through.
// It fails the attempt, not the run.
type Rejection struct{ Refusals []Refusal }

// Error implements error.
func (r *Rejection) Error() string { return "loop: rejected: " + listRefusals(r.Refusals) }

// NextKind says how a driver goes on after a step.
type NextKind int

// The ways to go on.
const (
	// Continue: call Step again at once.
	Continue NextKind = iota
	// Wait: a process runs; call Step again when it ended, or now and then.
	Wait
	// Sleep: call Step again at Until.
	Sleep
	// Done: the run has ended.
	Done
)

// Next is what comes after a step.
type Next struct {
	Kind NextKind
	// Handles are of the processes that run, on Wait: the next step is due when one of
	// them has ended.
	Handles []Handle
	// Until is when the next step is due at the latest, on Sleep and, unless it is zero,
	// on Wait.
	Until time.Time
}

// Engine takes steps. It holds no state of any run.
type Engine struct {
	Work      Work
	Runner    Runner
	Publisher Publisher
	// Beside is the work tree with that number, from 1, for an agent that works beside others,
	// and what starts it there; nil works one after the other. The tree is laid out by Reset;
	// Open is not called.
	Beside func(n int) (Work, Runner)
	// Held says whether no agent is to be started beside those at work; nil never holds. A
	// run that has none at work is held by whoever drives it: see [State.StartsAgent].
	Held func(ctx context.Context) (bool, error)
	// Now is the clock.
	Now func() time.Time
	// KeepAttempt keeps what a failed attempt changed, for people to look at and to take over, in
	// the place of what was kept of the task before; nil keeps nothing. kept is false where
	// there is nothing.
	KeepAttempt func(ctx context.Context, a FailedAttempt) (kept bool, err error)
	// Emit tells what happens; nil tells nobody.
	Emit func(run.Event)
}

// Step takes the run one transition further. On an error the state is the one
// that was handed in and the step may be repeated.
func (e *Engine) Step(ctx context.Context, old State) (State, Next, error) {
	s := old.clone()
	if err := s.load(); err != nil {
		return old, Next{}, err
	}
	next, err := e.step(ctx, &s)
	if errors.Is(err, ErrNoWorkTree) && old.Stage != stageOpen && old.Stage != stageEnd {
		return e.layOutAgain(ctx, old)
	}
	if delay, ok := errors.AsType[*Delay](err); ok && old.End == "" {
		pause := delay.For
		if pause <= 0 {
			pause = delayPause
		}
		return e.Delay(old, Delayed{Why: delay.Why, Queued: delay.Queued}), Next{Kind: Sleep, Until: e.Now().Add(pause)}, nil
	}
	if err != nil {
		return old, Next{}, err
	}
	e.endDelay(&s)
	// What it did to the branch has to be known first.
	lands := old.Stage == stageLand || old.Stage == stageFinal || old.Stage == stageEnd
	if stored, err := Encode(s); err != nil || len(stored) > maxState && !lands {
		return e.Fail(old, tooLarge), Next{}, err
	}
	return s, next, nil
}

// layOutAgain goes on with a run whose work tree is gone, from what is on the branch
// and in the state. What had been started there is gone with it.
func (e *Engine) layOutAgain(ctx context.Context, old State) (State, Next, error) {
	s := old.clone()
	if s.Process != nil {
		if err := e.Runner.Abandon(ctx, s.Process.Name); err != nil {
			return old, Next{}, fmt.Errorf("abandon %s: %w", s.Process.Name, err)
		}
	}
	for _, c := range s.Calls {
		if c.Process != nil {
			_, runner := e.Beside(c.WorkTree)
			if err := runner.Abandon(ctx, c.Process.Name); err != nil {
				return old, Next{}, fmt.Errorf("abandon %s: %w", c.Process.Name, err)
			}
		}
	}
	s.dropCall()
	s.Calls = nil
	s.Phase, s.Stage = run.PhasePreparing, stageOpen
	e.emit(run.Event{Kind: run.EventTrouble, Text: "the work tree is gone; it is laid out again from the branch"}, &s)
	return s, Next{}, nil
}

func (e *Engine) step(ctx context.Context, s *State) (Next, error) {
	if s.Phase.Terminal() {
		return Next{Kind: Done}, nil
	}
	// What is about to land, or has, is finished first: a commit that nobody
	// knows of would be worse than one more.
	if s.CancelRequested && s.Stage != stageEnd && s.Stage != stageLand && s.Stage != stageShow {
		if len(s.Calls) > 0 {
			return e.haltFirst(ctx, s, "cancelled")
		}
		return e.cancel(ctx, s)
	}
	if s.stopsHere() {
		if err := e.forget(ctx, s); err != nil {
			return Next{}, err
		}
		return e.stop(s, s.stopReason(), s.StopAfterCall)
	}
	if len(s.Calls) > 0 {
		return e.stepBeside(ctx, s)
	}
	return e.stepOne(ctx, s)
}

// stepOne takes the step that the stage asks for.
func (e *Engine) stepOne(ctx context.Context, s *State) (Next, error) {
	if !s.WaitUntil.IsZero() {
		if e.waits(s.WaitUntil) {
			if e.overdue(*s) {
				return e.stop(s, run.EndDeadline, "")
			}
			return Next{Kind: Sleep, Until: s.WaitUntil}, nil
		}
		s.WaitUntil = time.Time{}
		s.Stage = s.Resume
		if e.overdue(*s) {
			return e.stop(s, run.EndDeadline, "")
		}
	}
	switch s.Stage {
	case stageOpen:
		if err := e.open(ctx, s); err != nil {
			return Next{}, err
		}
		return Next{}, e.layOutKept(ctx, s)
	case stageSetup:
		return e.setup(ctx, s)
	case stagePick:
		return e.pick(ctx, s)
	case stageStart:
		return e.start(ctx, s)
	case stageWatch:
		return e.watch(ctx, s)
	case stagePropose:
		return e.propose(ctx, s)
	case stageGate:
		return e.startGate(ctx, s)
	case stageGateWatch:
		return e.watchGate(ctx, s)
	case stageLand:
		return e.land(ctx, s)
	case stageShow:
		return e.show(ctx, s)
	case stageFinal:
		return e.final(ctx, s)
	case stageEnd:
		return e.end(ctx, s)
	default:
		return Next{}, fmt.Errorf("run %s is at unknown stage %q", s.Run, s.Stage)
	}
}

// stop ends the run at one of its limits. A review that comes to one is left
// out: the work it was to read is done.
func (e *Engine) stop(s *State, reason run.EndReason, detail string) (Next, error) {
	if s.Job != prompt.JobReview {
		return e.finish(s, reason, detail)
	}
	s.ReviewNote = "the review did not finish: " + oneLine(cmp.Or(detail, reason.Sentence()), 200)
	s.Reviewed = s.HeadTree
	s.dropCall()
	s.Phase, s.Stage = run.PhaseFinishing, stageFinal
	return Next{}, nil
}

// forget removes the ended process; its record has been taken into the state.
func (e *Engine) forget(ctx context.Context, s *State) error {
	if s.Process == nil {
		return nil
	}
	var err error
	if s.Process.Handle != "" {
		err = e.Runner.Remove(ctx, s.Process.Handle)
	} else { // it may have been started all the same
		err = e.Runner.Abandon(ctx, s.Process.Name)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", s.Process.Name, err)
	}
	s.Process = nil
	return nil
}

// cancel stops what runs and ends the run; finished tasks stay landed, and
// the work tree stays for whoever resumes.
func (e *Engine) cancel(ctx context.Context, s *State) (Next, error) {
	if err := e.halt(ctx, s, "cancelled"); err != nil {
		return Next{}, err
	}
	return e.finish(s, run.EndCancelled, s.CancelReason)
}

// Fail ends a run that its surroundings do not let go on: what is wrong was
// found outside of a step, or by a step that fails again and again. The next
// steps tell people.
func (e *Engine) Fail(s State, detail string) State {
	s.End, s.EndDetail = run.EndFailed, detail
	s.Phase, s.Stage = run.PhaseFinishing, stageEnd
	s.WaitUntil = time.Time{}
	return s
}

// finish sets the reason and leaves the telling to the last stage.
func (e *Engine) finish(s *State, reason run.EndReason, detail string) (Next, error) {
	if n := s.Plan.Unread; reason.Complete() && n > 0 {
		reason = run.EndAwaitingPerson
		detail = "the tasks that were read are done; lines of the plan that may be open work were not read: " + strconv.Itoa(n)
	}
	s.End, s.EndDetail = reason, detail
	s.Phase, s.Stage = run.PhaseFinishing, stageEnd
	s.WaitUntil = time.Time{}
	return Next{}, nil
}

// emit tells of an event, with what all events of a run tell.
func (e *Engine) emit(ev run.Event, s *State) {
	if e.Emit == nil {
		return
	}
	ev.Time, ev.Run, ev.Subject, ev.Iteration, ev.CostUSD = e.Now(), s.Run, s.Subject.Name, s.Number, s.Usage.CostUSD
	ev.Iterations, ev.Plannings, ev.Tokens = s.Iterations(), s.plannings(), s.Usage.Tokens()
	if ev.Kind == run.EventRunEnded {
		ev.Iteration = s.Iteration
	}
	tasks := s.standings()
	if i := slices.IndexFunc(tasks, func(t run.Task) bool { return t.ID == ev.TaskID }); i >= 0 {
		ev.TaskTitle = tasks[i].Title
	}
	switch ev.Kind { //nolint:exhaustive // the others leave the tasks as they are
	case run.EventRunStarted, run.EventPlanned, run.EventIteration, run.EventAgentStarted, run.EventGateStarted,
		run.EventAttemptFailed, run.EventTaskGoesOn, run.EventTaskDone, run.EventTaskBlocked, run.EventEdited,
		run.EventRunEnded:
		ev.Tasks = tasks
		ev.Done, ev.Total = progress.Counts(tasks)
	}
	e.Emit(ev)
}

// standings are the tasks as they stand at this moment.
func (s *State) standings() []run.Task {
	if s.load() != nil {
		return nil // the next step says so
	}
	tasks := s.read.doc.Tasks()
	for i := range tasks {
		tasks[i].Status = s.Standing(tasks[i])
	}
	return tasks
}

func findTask(d *progress.Doc, id string) (run.Task, error) {
	t, ok := d.Task(id)
	if !ok {
		return run.Task{}, fmt.Errorf("task %s: %w", id, progress.ErrNoTask)
	}
	return t, nil
}

// oneLine is text on one line of at most n bytes.
func oneLine(text string, n int) string {
	return strs.Cut(strs.OneLine(text), n)
}

func listRefusals(refusals []Refusal) string {
	parts := make([]string, 0, len(refusals))
	for i, r := range refusals {
		if i == 20 {
			parts = append(parts, fmt.Sprintf("and %d more", len(refusals)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%q: %s", r.Path, r.Reason))
	}
	return strings.Join(parts, "; ")
}
