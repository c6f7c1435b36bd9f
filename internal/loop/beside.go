package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// Agents work side by side at tasks that are marked [P], each in a work tree of its own, laid
// out from the tip of the branch. Nothing else is side by side: what they leave waits in line,
// and the run takes one at a time, merges it onto the present tip, and does with it as with
// the work of any call. So the history stays one line, each commit of it was checked, and
// progress.md has one writer. What cannot be merged is done again on the new tip.

// stepBeside takes a step of the run or, where that waits, of the first of the calls beside it
// that has one to take.
func (e *Engine) stepBeside(ctx context.Context, s *State) (Next, error) {
	out := Next{Kind: Wait}
	var delayed error
	lands := s.Stage == stageLand || s.Stage == stageShow
	for i := -1; i < len(s.Calls); i++ {
		v := s.clone()
		next, err := e.stepOf(ctx, &v, i)
		if delay, ok := errors.AsType[*Delay](err); ok && !lands {
			delayed = err
			out.Until = soonest(out.Until, e.Now().Add(cmp.Or(max(delay.For, 0), delayPause)))
			continue
		}
		if err != nil {
			return Next{}, err
		}
		*s = v
		switch {
		case next.Kind == Wait:
			out.Handles = append(out.Handles, next.Handles...)
		case next.Kind == Sleep:
			out.Until = soonest(out.Until, next.Until)
		default:
			return next, nil
		}
	}
	switch {
	case len(out.Handles) > 0:
		return out, nil
	case delayed != nil:
		return Next{}, delayed
	case !out.Until.IsZero():
		out.Kind = Sleep
		return out, nil
	default:
		return Next{}, fmt.Errorf("none of %d calls can go on", len(s.Calls))
	}
}

// soonest is the earlier of two times, of which a may be zero.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// stepOf takes a step of the call beside the run at index i, or of the run itself for -1.
func (e *Engine) stepOf(ctx context.Context, s *State, i int) (Next, error) {
	if i < 0 {
		next, err := e.stepOne(ctx, s)
		if err == nil && s.landsFirst() {
			if err = e.forget(ctx, s); err == nil {
				s.Call = Call{Stage: stagePick, Number: s.Number}
				err = e.layOut(ctx, s, s.HeadTree)
			}
		}
		return next, err
	}
	if s.Calls[i].inLine() {
		return Next{Kind: Wait}, nil
	}
	own := *e
	own.Work, own.Runner = e.Beside(s.Calls[i].WorkTree)
	s.Call, s.Calls[i] = s.Calls[i], s.Call
	next, done, err := own.stepCall(ctx, s)
	if err == nil && s.End != "" { // what ended the run has nothing left to do, should the run go on after all
		done, err = true, own.forget(ctx, s)
	}
	s.Call, s.Calls[i] = s.Calls[i], s.Call
	if errors.Is(err, ErrNoWorkTree) { // its task is open, and will be begun again
		done, err = true, nil
		if p := s.Calls[i].Process; p != nil {
			err = own.Runner.Abandon(ctx, p.Name)
		}
	}
	if err != nil {
		return Next{}, err
	}
	if done {
		s.Calls = slices.Delete(s.Calls, i, i+1)
	}
	if !s.landsFirst() && s.End != "" { // what ends the run ends all
		s.Phase, s.Stage, s.WaitUntil = run.PhaseFinishing, stageEnd, time.Time{}
	}
	return next, nil
}

// landsFirst has what is paid for land before a run ends that has used up its budget, and says
// whether it does.
func (s *State) landsFirst() bool {
	if s.End != run.EndBudgetExhausted || !s.paid() {
		return false
	}
	if s.StopAfterCall == "" { // else a person's stop may be lost where the budget is raised
		s.StopAfterCall, s.StopReason = cmp.Or(s.EndDetail, s.spending()), s.End
	}
	s.End, s.EndDetail, s.Phase = "", "", run.PhaseIterating
	return true
}

// paid says whether agents have finished work that has not landed yet.
func (s *State) paid() bool {
	switch s.Stage { //nolint:exhaustive // in every other stage none is at hand
	case stagePropose, stageGate, stageGateWatch, stageLand, stageShow:
		return true
	case stageStart, stageWatch:
		if s.Job == prompt.JobVerify {
			return true
		}
	}
	return slices.ContainsFunc(s.Calls, func(c Call) bool { return c.Stage == stagePropose && c.Ended == nil })
}

// inLine says whether what an agent left waits for the run to take it.
func (c *Call) inLine() bool {
	return c.Stage == stagePropose && c.Process == nil && (c.Ended == nil || c.Ended.Outcome == AgentOverTaskBudget)
}

// stepCall takes a step of a call beside the run, which is the one at hand now. done: nothing
// of it is left.
func (e *Engine) stepCall(ctx context.Context, s *State) (next Next, done bool, err error) {
	doc := s.doc()
	task, there := doc.Task(s.TaskID)
	switch {
	case s.Dropped, !there, !task.Actionable():
		return Next{}, true, e.halt(ctx, s, "its task was changed")
	case s.StopReason == run.EndBudgetExhausted && s.Stage != stagePropose:
		return Next{}, true, e.halt(ctx, s, "the budget is used up")
	case s.StopAfterCall != "" && s.Stage == stageStart:
		return Next{}, true, e.forget(ctx, s)
	case s.Stage == stagePropose:
		if err := e.forget(ctx, s); err != nil || s.inLine() {
			return Next{}, false, err
		}
	case s.Stage == stageStart && e.Held != nil:
		switch held, err := e.Held(ctx); {
		case err != nil:
			return Next{}, false, err
		case held:
			return Next{}, false, &Delay{Why: "starting agents is paused", Queued: true}
		}
	}
	next, err = e.stepOne(ctx, s)
	return next, false, err
}

// parallel says whether the run has agents work side by side.
func (e *Engine) parallel(s *State) bool {
	return e.Beside != nil && s.Limits.Parallel > 1 && !s.Once && !e.ends(s)
}

// pickBeside has one more agent work beside the others, or takes what one has left.
func (e *Engine) pickBeside(ctx context.Context, s *State, doc *progress.Doc) (Next, error) {
	if e.parallel(s) {
		if fresh := s.beside(doc.Tasks(), s.Limits.Parallel); len(fresh) > 0 {
			return e.callBeside(ctx, s, doc, fresh[0])
		}
	}
	for i := range s.Calls {
		if s.Calls[i].inLine() {
			if s.Kept != nil {
				e.loseKept(s)
			}
			return e.take(ctx, s, i)
		}
	}
	return Next{Kind: Wait}, nil
}

// callBeside decides about the next call at a task as for any other, and has it made beside the
// run. Failed and unfinished work at the task goes along.
func (e *Engine) callBeside(ctx context.Context, s *State, doc *progress.Doc, task run.Task) (Next, error) {
	goesOn := s.TaskID == task.ID
	if next, handled, err := e.splitUnfinished(ctx, s, doc, task); err != nil || handled {
		return next, err
	}
	if next, err := e.call(ctx, s, doc, task); err != nil || s.Stage != stageStart || s.Job != prompt.JobBuild {
		return next, err
	}
	c := s.Call
	c.WorkTree, c.From, c.Began = 1, s.HeadTree, s.Progress
	for slices.ContainsFunc(s.Calls, func(o Call) bool { return o.WorkTree == c.WorkTree }) {
		c.WorkTree++
	}
	if !goesOn {
		c.Laid, c.Kept = s.HeadTree, nil
	}
	tree, _ := e.Beside(c.WorkTree)
	if err := tree.Reset(ctx, c.Laid); err != nil {
		return Next{}, fmt.Errorf("lay out a work tree for %s: %w", task.ID, err)
	}
	s.Calls = append(s.Calls, c)
	s.Call = Call{Stage: stagePick, Number: c.Number, Laid: s.Laid}
	return Next{}, e.layOut(ctx, s, s.HeadTree)
}

// take makes the work that waits at index i the work at hand, on the present tip.
func (e *Engine) take(ctx context.Context, s *State, i int) (Next, error) {
	s.Call = s.Calls[i]
	s.Calls = slices.Delete(s.Calls, i, i+1)
	s.WorkTree = 0
	from := s.From
	s.From = ""
	doc := s.doc()
	task, there := doc.Task(s.TaskID)
	if s.Ended != nil && there {
		return Next{}, e.layOut(ctx, s, s.HeadTree)
	}
	p := s.Proposal
	if there = there && task.Actionable() && !s.Dropped; there {
		var err error
		if there, err = e.Work.Has(ctx, p.Left); err != nil {
			return Next{}, fmt.Errorf("look for the work at %s: %w", s.TaskID, err)
		}
	}
	if !there { // it is not wanted any more, or gone: then its task is begun again
		s.Call = Call{Stage: stagePick, Number: s.Number}
		return Next{}, e.layOut(ctx, s, s.HeadTree)
	}
	work, found := p.Left, s.Laid
	if from != s.HeadTree {
		tree, conflicts, err := e.foldTrees(ctx, s, from, work)
		if err != nil {
			return Next{}, err
		}
		if len(conflicts) > 0 {
			s.Kept = nil // the next call begins the task again
			s.record(s.TaskID).Partial = 0
			if p.Failed != "" || p.Claim.Kind == prompt.ClaimFailed || p.Claim.Kind == prompt.ClaimBlocked {
				return Next{}, e.leaveOut(ctx, s)
			}
			return e.sendBack(ctx, s, from, "Both changed "+listPaths(conflicts)+".")
		}
		p.Left = tree
		if found, conflicts, err = e.foldTrees(ctx, s, from, found); err != nil {
			return Next{}, err
		}
		if len(conflicts) > 0 {
			found = "" // the call resolved it
		}
	}
	if err := e.layOut(ctx, s, p.Left); err != nil {
		return Next{}, err
	}
	s.Laid = found
	return Next{}, nil
}

// leaveOut gives up what the call at hand did to the files. What it said is all that counts.
func (e *Engine) leaveOut(ctx context.Context, s *State) error {
	tree, err := e.Work.Restore(ctx, s.HeadTree, s.Proposal.Left, []string{s.ProgressPath})
	if err != nil {
		return fmt.Errorf("leave out the work at %s: %w", s.TaskID, err)
	}
	s.Proposal.Left = tree
	return e.layOut(ctx, s, tree)
}

// foldTrees merges what work changed of the tree from into the tip. The progress file stays as
// it is in work, and the plan's own file as it is on the branch.
func (e *Engine) foldTrees(ctx context.Context, s *State, from, work string) (tree string, conflicts []string, err error) {
	plain := work
	if own := s.Subject.HostFiles; len(own) > 0 {
		if plain, err = e.Work.Restore(ctx, work, from, own); err != nil {
			return "", nil, fmt.Errorf("fold %s: %w", s.TaskID, err)
		}
	}
	sides := [3]string{from, s.HeadTree, plain}
	for i, side := range sides {
		if sides[i], err = e.Work.Without(ctx, side, path.Dir(s.ProgressPath)); err != nil {
			return "", nil, fmt.Errorf("fold %s: %w", s.TaskID, err)
		}
	}
	if tree, conflicts, err = e.Work.Fold(ctx, sides[0], sides[1], sides[2]); err != nil {
		return "", nil, fmt.Errorf("fold %s: %w", s.TaskID, err)
	}
	if len(conflicts) > 0 {
		return "", conflicts, nil
	}
	if tree, err = e.Work.Restore(ctx, tree, work, []string{s.ProgressPath}); err != nil {
		return "", nil, fmt.Errorf("fold %s: %w", s.TaskID, err)
	}
	return tree, nil, nil
}

// maxFoldDiff bounds each of the two changes that a call is shown whose work did not fit,
// in bytes.
const maxFoldDiff = 12 << 10

// sendBack has a task done again on the present tip, which its work does not fit. Nobody is
// to blame, and no attempt is used: others were faster.
func (e *Engine) sendBack(ctx context.Context, s *State, from, why string) (Next, error) {
	mine, err := e.Work.Patch(ctx, from, s.Proposal.Left, maxFoldDiff)
	if err != nil {
		return Next{}, fmt.Errorf("read the change of %s: %w", s.TaskID, err)
	}
	theirs, err := e.Work.Patch(ctx, from, s.HeadTree, maxFoldDiff)
	if err != nil {
		return Next{}, fmt.Errorf("read what landed meanwhile: %w", err)
	}
	if err := e.layOut(ctx, s, s.HeadTree); err != nil {
		return Next{}, err
	}
	short := oneLine("does not fit what landed meanwhile: "+why, maxTold)
	s.lastCall(func(it *Iteration) { it.Note = short })
	e.emit(run.Event{Kind: run.EventAttemptFailed, TaskID: s.TaskID, Text: short}, s)
	s.dropCall()
	s.Draft = Seen{}
	s.Brief = Brief{Failure: fmt.Sprintf("Other tasks landed while the last call worked at this one, and the two do not "+
		"fit together. %s\n\nDo the task again on the files as they are now.\n\nThe work that did not fit:\n\n%s\n\n"+
		"What landed meanwhile:\n\n%s", why, mine, theirs)}
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	return Next{}, nil
}

// ends says whether the run begins no other call.
func (e *Engine) ends(s *State) bool {
	most := s.Limits.MaxIterations
	return s.StopAfterCall != "" || e.overdue(*s) || s.spent() || most > 0 && s.Iterations() >= most
}

// halt stops what is at work for the state. What it has cost counts.
func (e *Engine) halt(ctx context.Context, s *State, why string) error {
	if s.Process == nil {
		return nil
	}
	if s.Process.Handle != "" {
		if err := e.Runner.Stop(ctx, s.Process.Handle, why); err != nil {
			return fmt.Errorf("stop %s: %w", s.Process.Name, err)
		}
		if s.Process.Kind == ProcessAgent && s.Stage == stageWatch {
			if status, err := e.Runner.ObserveAgent(ctx, s.Process.Handle); err == nil && !status.Running {
				s.Usage = s.Usage.Add(status.Usage)
			}
		}
	}
	return e.forget(ctx, s)
}

// dropBeside has the call end that is beside the run at a task which a person has changed.
func (s *State) dropBeside(task string) {
	for i := range s.Calls {
		if c := &s.Calls[i]; c.TaskID == task {
			c.Dropped = true
		}
	}
}

// haltFirst stops the first of the calls beside the run; the task it was at is open. It is a
// step of its own: what the call has cost is known no more once its process is removed.
func (e *Engine) haltFirst(ctx context.Context, s *State, why string) (Next, error) {
	own := *e
	own.Work, own.Runner = e.Beside(s.Calls[0].WorkTree)
	s.Call, s.Calls[0] = s.Calls[0], s.Call
	err := own.halt(ctx, s, why)
	s.Call, s.Calls = s.Calls[0], s.Calls[1:]
	return Next{}, err
}

// beside are the tasks that may begin now, beside those that are being worked on, in
// order; most is how many there may be in all. The first that must not be worked beside
// others holds up all after it.
func (s *State) beside(tasks []run.Task, most int) []run.Task {
	var busy []run.Task
	taken := map[string]bool{}
	for _, t := range tasks {
		if slices.ContainsFunc(s.Calls, func(c Call) bool { return c.TaskID == t.ID }) {
			busy, taken[t.ID] = append(busy, t), true
		}
	}
	var fresh []run.Task
	for len(s.Calls)+len(fresh) < most {
		t, ok := choose(tasks, s, taken)
		marked := t.Parallel && (s.of(t.ID).Behind == nil || len(t.Files) > 0) ||
			len(busy) > 0 && s.Kept != nil && s.Kept.TaskID == t.ID // part of one that began beside them
		if !ok || !marked || t.Verify ||
			slices.ContainsFunc(busy, func(b run.Task) bool { return overlap(b.Files, t.Files) }) {
			break
		}
		busy, taken[t.ID], fresh = append(busy, t), true, append(fresh, t)
	}
	return fresh
}

// overlap says whether two tasks name a file that is the same, or in a folder that the
// other names. A remark behind the path does not count.
func overlap(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			x, y := pathOf(x), pathOf(y)
			if x == y || strings.HasPrefix(x, y+"/") || strings.HasPrefix(y, x+"/") {
				return true
			}
		}
	}
	return false
}

// pathOf is the path that a line of "Files:" begins with.
func pathOf(line string) string {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return ""
	}
	return path.Clean(strings.Trim(fields[0], "`,:;"))
}

// maxTold bounds what is told of an attempt on one line, in bytes.
const maxTold = 300

// maxListed bounds the paths of a sentence.
const maxListed = 10

// listPaths is a list of paths in a sentence.
func listPaths(paths []string) string {
	more := ""
	if len(paths) > maxListed {
		more = fmt.Sprintf(" and %d more", len(paths)-maxListed)
		paths = paths[:maxListed]
	}
	return strings.Join(paths, ", ") + more
}
