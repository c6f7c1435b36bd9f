package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// Tasks that are marked [P] are worked side by side, each in a lane: a work tree of its
// own, laid out from the tip of the branch. A finished task is folded: what it changed is
// merged onto the present tip, its checks run again on the outcome, and only then is there
// one commit. What does not fit, or fails there, is done again on the new tip. So the
// history stays one line, each commit of it was checked, and progress.md has one writer.
//
// A step is still one transition of one lane: all that lanes share (counts, costs,
// progress.md, what people said) is the state's, and lanes take turns at it.

// Crew gives lanes their work trees, and brings together what they come to.
type Crew interface {
	// Lane is the work tree with that number, from 1, and what starts agents and checks
	// on it. Its WorkTree is laid out by Reset; Open is not called.
	Lane(n int) (WorkTree, Runner)
	// Fold merges what theirs changed of base into ours. Where both changed the same lines
	// there is no tree, and conflicts are the paths.
	Fold(ctx context.Context, base, ours, theirs string) (tree string, conflicts []string, err error)
}

// Lane is one task that is worked beside others.
type Lane struct {
	// Number is that of its work tree.
	Number int
	// Task is the task that it is for.
	Task string

	Stage     Stage
	Resume    Stage
	WaitUntil time.Time
	// Iteration is the number of its last call.
	Iteration int
	// Head is the commit that its work is based on.
	Head, HeadTree, Laid string
	Attempt
	Brief
	GateMemo, Baseline map[string]gate.Result
	// Folded: its work was merged onto what landed meanwhile, and nobody else lands
	// until it has, or has failed.
	Folded bool `json:",omitempty"`
	// Dropped: a person has changed its task.
	Dropped bool `json:",omitempty"`
}

// Stages that only lanes have.
const (
	stageLay  Stage = "lay"  // lay out its work tree
	stageFold Stage = "fold" // bring what passed onto the present tip
)

// tip is what has landed on the branch, as a step in a lane finds it.
type tip struct {
	head, tree string
	baseline   map[string]gate.Result
}

// lane is what a step knows that is taken in a lane; nil outside. It is not stored.
type lane struct {
	iteration int // the last that was begun in any lane
	tip       tip
	folded    bool
	ends      bool     // the lane has nothing left to do
	reopens   bool     // somebody else pushed to the branch
	changed   []string // tasks that people have changed
}

// stepLanes takes one step in the first lane that has one to take. A lane that is about to
// land goes first: nothing may come between a commit and the state that knows of it.
func (e *Engine) stepLanes(ctx context.Context, s *State) (Next, error) {
	order := make([]int, 0, len(s.Lanes))
	for i := range s.Lanes {
		at := (s.Turn + i) % len(s.Lanes)
		if l := s.Lanes[at]; l.Stage == stageLand || l.Stage == stageShow {
			s.Turn = at + 1
			return e.stepLane(ctx, s, at)
		}
		order = append(order, at)
	}
	folding := slices.ContainsFunc(s.Lanes, func(l Lane) bool { return l.Folded })
	out := Next{Kind: Wait}
	var delayed error
	for _, at := range order {
		l := s.Lanes[at]
		if l.Stage == stageFold && folding || s.firstCheck(at) {
			continue
		}
		if e.waits(l.WaitUntil) {
			out.Until = soonest(out.Until, l.WaitUntil)
			continue
		}
		next, err := e.stepLane(ctx, s, at)
		if delay, ok := errors.AsType[*Delay](err); ok {
			delayed = err
			out.Until = soonest(out.Until, e.Now().Add(cmp.Or(max(delay.For, 0), delayPause)))
			continue
		}
		if err != nil {
			return Next{}, err
		}
		if next.Kind == Wait {
			out.Handles = append(out.Handles, next.Handles...)
			continue
		}
		s.Turn = at + 1
		return Next{}, nil
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
		return Next{}, fmt.Errorf("none of %d lanes can go on", len(s.Lanes))
	}
}

// firstCheck says whether the lane at index at is to wait with its checks: another lane
// finds out how they stood before the work began, which is the same for both.
func (s *State) firstCheck(at int) bool {
	l := s.Lanes[at]
	if len(s.Baseline) > 0 || l.Stage != stageGate || l.Process != nil {
		return false
	}
	return slices.ContainsFunc(s.Lanes, func(o Lane) bool {
		return o.Number != l.Number && o.Process != nil && o.Process.Kind == ProcessGate && len(o.GateLast) == 0
	})
}

// share adds to what is known of the checks on the tip what another knows of the same
// tree.
func share(known, others map[string]gate.Result) map[string]gate.Result {
	known = maps.Clone(known)
	for key, r := range others {
		if _, ok := known[key]; !ok {
			known[key] = r
		}
	}
	return known
}

func soonest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// stepLane takes one step in the lane at index at. The state is changed only where that
// step changes something.
func (e *Engine) stepLane(ctx context.Context, s *State, at int) (Next, error) {
	own := *e
	own.WorkTree, own.Runner = e.Crew.Lane(s.Lanes[at].Number)
	v := s.enter(s.Lanes[at])
	next, err := own.laneStep(ctx, &v, s.Lanes[at].Dropped)
	if errors.Is(err, ErrNoWorkTree) {
		v = s.enter(s.Lanes[at])
		next, err = Next{}, own.layAgain(ctx, &v)
	}
	if err != nil || next.Kind == Wait {
		return next, err
	}
	s.leave(at, v)
	return next, e.goOnAlone(ctx, s)
}

// goOnAlone lays out the run's own work tree for what comes after the last lane: it stands
// where it was when the first began.
func (e *Engine) goOnAlone(ctx context.Context, s *State) error {
	if len(s.Lanes) > 0 || s.Stage != stagePick {
		return nil // it is opened again, or the run ends
	}
	s.Kept = nil
	return e.layOut(ctx, s, s.HeadTree)
}

// layAgain begins the work of a lane again whose work tree is gone. That of the run may be
// gone, too.
func (e *Engine) layAgain(ctx context.Context, v *State) error {
	if v.Process != nil {
		if err := e.Runner.Abandon(ctx, v.Process.Name); err != nil {
			return fmt.Errorf("abandon %s: %w", v.Process.Name, err)
		}
	}
	v.dropCall()
	v.Kept, v.lane.folded, v.lane.reopens = nil, false, true
	v.Head, v.HeadTree, v.Baseline = v.lane.tip.head, v.lane.tip.tree, maps.Clone(v.lane.tip.baseline)
	v.Stage, v.WaitUntil = stageLay, time.Time{}
	return nil
}

// enter is the state as a step in the lane l sees it: as if the run did nothing else.
func (s *State) enter(l Lane) State {
	v := s.copied()
	v.lane = &lane{
		iteration: s.Iteration, folded: l.Folded,
		tip: tip{head: s.Head, tree: s.HeadTree, baseline: s.Baseline},
	}
	v.Lanes, v.CancelRequested = nil, false
	v.Stage, v.Resume, v.WaitUntil = l.Stage, l.Resume, l.WaitUntil
	v.Iteration, v.Head, v.HeadTree, v.Laid = l.Iteration, l.Head, l.HeadTree, l.Laid
	v.Attempt, v.Brief, v.GateMemo, v.Baseline = l.Attempt, l.Brief, l.GateMemo, l.Baseline
	v.makeMaps()
	if v.HeadTree == s.HeadTree {
		v.Baseline = share(v.Baseline, s.Baseline)
	}
	return v
}

// leave takes what a step in the lane at index at came to.
func (s *State) leave(at int, v State) {
	old, own := s.Lanes[at], v.lane
	l := Lane{
		Number: old.Number, Task: old.Task, Stage: v.Stage, Resume: v.Resume, WaitUntil: v.WaitUntil,
		Iteration: v.Iteration, Head: v.Head, HeadTree: v.HeadTree, Laid: v.Laid,
		Attempt: v.Attempt, Brief: v.Brief, GateMemo: v.GateMemo, Baseline: v.Baseline, Folded: own.folded,
	}
	was := *s
	landed := len(v.Commits) > len(s.Commits)
	lanes := slices.Clone(s.Lanes)
	*s = v
	s.lane, s.Turn, s.CancelRequested = nil, was.Turn, was.CancelRequested
	s.Phase, s.Stage, s.Resume, s.WaitUntil = was.Phase, was.Stage, was.Resume, was.WaitUntil
	s.Attempt, s.Brief, s.GateMemo, s.Baseline = was.Attempt, was.Brief, was.GateMemo, was.Baseline
	s.Iteration = max(was.Iteration, v.Iteration)
	s.Head, s.HeadTree, s.Laid = was.Head, was.HeadTree, was.Laid
	switch {
	case landed:
		s.Head, s.HeadTree, s.Baseline, s.GateLast = v.Head, v.HeadTree, v.Baseline, v.GateLast
	case v.HeadTree == was.HeadTree:
		s.Baseline = share(was.Baseline, v.Baseline)
	}
	if own.reopens {
		s.Phase, s.Stage = run.PhasePreparing, stageOpen
	}
	if v.End != "" { // what ends the run ends all lanes
		s.Phase, s.Stage = v.Phase, v.Stage
	}
	lanes[at] = l
	if own.ends {
		lanes = slices.Delete(lanes, at, at+1)
	}
	s.Lanes = lanes
	for _, task := range own.changed {
		s.dropLane(task)
	}
}

// laneStep is what a lane does besides what a run does.
func (e *Engine) laneStep(ctx context.Context, s *State, dropped bool) (Next, error) {
	doc, err := s.document(s.Progress)
	if err != nil {
		return Next{}, fmt.Errorf("read the accepted progress: %w", err)
	}
	task, there := doc.Task(s.TaskID)
	switch {
	case s.Stage == stageLand, s.Stage == stageShow:
		return e.step(ctx, s)
	case dropped, s.TaskID == "", !there, !task.Actionable():
		s.lane.ends, s.lane.folded = true, false
		return Next{}, e.halt(ctx, s, "its task was changed")
	case s.StopAfterCall != "" && s.Stage == stageStart && s.Job != prompt.JobVerify:
		s.lane.ends = true
		return Next{}, e.forget(ctx, s)
	case s.Stage == stageLay:
		if err := e.layOut(ctx, s, s.HeadTree); err != nil {
			return Next{}, err
		}
		s.Stage = stagePick
		return Next{}, nil
	case s.Stage == stageFold:
		return e.fold(ctx, s, doc, task)
	case s.Stage == stageStart && e.Held != nil:
		switch held, err := e.Held(ctx); {
		case err != nil:
			return Next{}, err
		case held:
			return Next{}, &Delay{Why: "starting agents is paused", Queued: true}
		}
		return e.step(ctx, s)
	case s.Stage != stagePick:
		return e.step(ctx, s)
	}
	s.lane.folded = false
	if e.ends(s) || s.Limits.TaskAttempts > 0 && s.Attempts[task.ID] >= s.Limits.TaskAttempts {
		s.lane.ends = true
		return Next{}, nil
	}
	if next, handled, err := e.unfinished(ctx, s, doc, task); err != nil || handled {
		return next, err
	}
	return e.call(ctx, s, doc, task)
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

// dropLane has the lane of a task end that a person has changed.
func (s *State) dropLane(task string) {
	if s.lane != nil { // it is another lane's step that has found out
		s.lane.changed = append(s.lane.changed, task)
		return
	}
	for i := range s.Lanes {
		if l := &s.Lanes[i]; l.Task == task && l.Stage != stageLand && l.Stage != stageShow {
			l.Dropped = true
		}
	}
}

// haltLanes stops all lanes; the tasks they were at are open.
func (e *Engine) haltLanes(ctx context.Context, s *State, why string) error {
	for len(s.Lanes) > 0 {
		own := *e
		own.WorkTree, own.Runner = e.Crew.Lane(s.Lanes[0].Number)
		v := s.enter(s.Lanes[0])
		if err := own.halt(ctx, &v, why); err != nil {
			return err
		}
		v.lane.ends = true
		s.leave(0, v)
		if len(s.Lanes) == 0 { // the run may go on after all
			return e.layOut(ctx, s, s.HeadTree)
		}
	}
	return nil
}

// landing says whether a lane is between its checks and the state that knows of its
// commit.
func (s *State) landing() bool {
	return slices.ContainsFunc(s.Lanes, func(l Lane) bool { return l.Stage == stageLand || l.Stage == stageShow })
}

// spreads says whether the run is at no task of its own that it goes on with.
func (s *State) spreads(tasks []run.Task) bool {
	return !slices.ContainsFunc(tasks, func(t run.Task) bool { return t.ID == s.TaskID && t.Actionable() })
}

// spread opens a lane for each task that can be worked beside those that are. It is false where
// the run works one task after the other.
func (e *Engine) spread(s *State, tasks []run.Task) bool {
	if e.Crew == nil || s.Limits.Parallel <= 1 || s.Once {
		return false
	}
	fresh := s.beside(tasks, s.Limits.Parallel)
	if len(s.Lanes) == 0 && len(fresh) < 2 {
		return false
	}
	for _, t := range fresh {
		n := 1
		for slices.ContainsFunc(s.Lanes, func(l Lane) bool { return l.Number == n }) {
			n++
		}
		s.Lanes = append(s.Lanes, Lane{
			Number: n, Task: t.ID, Stage: stageLay, Head: s.Head, HeadTree: s.HeadTree, Iteration: s.Iteration,
			Attempt: Attempt{TaskID: t.ID}, GateMemo: map[string]gate.Result{}, Baseline: maps.Clone(s.Baseline),
		})
	}
	return true
}

// beside are the tasks that may begin now, beside those that are being worked on, in
// order; most is how many there may be in all. The first that must not be worked beside
// others holds up all after it.
func (s *State) beside(tasks []run.Task, most int) []run.Task {
	var busy []run.Task
	taken := map[string]bool{}
	for _, t := range tasks {
		if slices.ContainsFunc(s.Lanes, func(l Lane) bool { return l.Task == t.ID }) {
			busy, taken[t.ID] = append(busy, t), true
		}
	}
	var fresh []run.Task
	for len(s.Lanes)+len(fresh) < most {
		t, ok := choose(tasks, s, taken)
		_, byAgent := s.Behind[t.ID]
		marked := t.Parallel && (!byAgent || len(t.Files) > 0)
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
			x, y := named(x), named(y)
			if x == y || strings.HasPrefix(x, y+"/") || strings.HasPrefix(y, x+"/") {
				return true
			}
		}
	}
	return false
}

// named is the path that a line of "Files:" begins with.
func named(line string) string {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return ""
	}
	return path.Clean(strings.Trim(fields[0], "`,:;"))
}

// Fold are the trees of work that was merged onto what landed meanwhile: what both began
// from, the work, and what landed.
type Fold struct{ Base, Work, Tip string }

// fold brings what a lane has done onto the present tip. Where that is what it began from
// the checks have run on the very tree; else they run again.
func (e *Engine) fold(ctx context.Context, s *State, doc *progress.Doc, task run.Task) (Next, error) {
	f := Fold{Base: s.HeadTree, Work: s.Proposal.Bare, Tip: s.lane.tip.tree}
	s.Head, s.HeadTree = s.lane.tip.head, s.lane.tip.tree
	if f.Base == f.Tip {
		return Next{}, e.landFolded(ctx, s)
	}
	landed, err := e.completed(s, doc, s.wasDone())
	if err != nil {
		return Next{}, err
	}
	return e.foldOnto(ctx, s, f, &candidate{task: task, accepted: doc, landed: landed})
}

// landFolded has what a lane has done land, with progress.md as it is at this moment: other
// lanes and people have changed that since.
func (e *Engine) landFolded(ctx context.Context, s *State) error {
	doc, err := s.document(s.Progress)
	if err != nil {
		return fmt.Errorf("read the accepted progress: %w", err)
	}
	if doc, err = e.completed(s, doc, s.wasDone()); err != nil {
		return err
	}
	p := s.Proposal
	p.Progress, p.Findings = s.text(doc), s.withWasDone(p.Findings)
	if p.Tree, err = e.Trees.With(ctx, p.Tree, s.ProgressPath, []byte(p.Progress)); err != nil {
		return fmt.Errorf("write %s: %w", s.ProgressPath, err)
	}
	s.Stage = stageLand
	return nil
}

// foldOnto merges the work of a lane onto another tip and has it checked there.
func (e *Engine) foldOnto(ctx context.Context, s *State, f Fold, c *candidate) (Next, error) {
	p := s.Proposal
	p.Fold = &f
	tree, conflicts, err := e.foldTrees(ctx, s, f)
	if err != nil {
		return Next{}, err
	}
	if len(conflicts) > 0 {
		return e.sendBack(ctx, s, "Both changed "+listed(conflicts)+".")
	}
	s.Baseline = maps.Clone(s.lane.tip.baseline)
	c.found, c.work, c.tree = s.Laid, tree, tree
	c.already, c.idle = p.Already, p.Idle
	if next, handled, err := e.lookAtFold(ctx, s, c); err != nil || handled {
		return next, err
	}
	if _, _, err := e.assemble(ctx, s, c); err != nil {
		return Next{}, err
	}
	p = s.Proposal
	if p.Tree, err = e.Trees.With(ctx, p.Tree, s.ProgressPath, []byte(p.Progress)); err != nil {
		return Next{}, fmt.Errorf("write %s: %w", s.ProgressPath, err)
	}
	s.lane.folded = true
	return Next{}, nil
}

// foldTrees merges, each side with the progress file of the tip: the host writes that.
func (e *Engine) foldTrees(ctx context.Context, s *State, f Fold) (tree string, conflicts []string, err error) {
	text, there, err := e.Trees.File(ctx, f.Tip, s.ProgressPath, progress.MaxSize)
	if err != nil {
		return "", nil, fmt.Errorf("read %s: %w", s.ProgressPath, err)
	}
	sides := [2]string{f.Base, f.Work}
	for i, side := range sides {
		if there {
			sides[i], err = e.Trees.With(ctx, side, s.ProgressPath, text)
		} else {
			sides[i], err = e.Trees.Without(ctx, side, path.Dir(s.ProgressPath))
		}
		if err != nil {
			return "", nil, fmt.Errorf("fold %s: %w", s.TaskID, err)
		}
	}
	if tree, conflicts, err = e.Crew.Fold(ctx, sides[0], f.Tip, sides[1]); err != nil {
		return "", nil, fmt.Errorf("fold %s: %w", s.TaskID, err)
	}
	return tree, conflicts, nil
}

// lookAtFold looks at a folded tree as at what an agent has left: two changes that are
// allowed can come to one that is not.
func (e *Engine) lookAtFold(ctx context.Context, s *State, c *candidate) (_ Next, handled bool, err error) {
	changes, err := e.Trees.Changes(ctx, s.HeadTree, c.tree)
	if err != nil {
		return Next{}, false, fmt.Errorf("compare trees: %w", err)
	}
	code, foreign := splitChanges(changes, path.Dir(s.ProgressPath))
	c.code = code
	screened := e.Publisher.Screen(*s, code)
	if refused := slices.Concat(foreign, screened.Refused, screened.Protected); len(refused) > 0 {
		next, err := e.sendBack(ctx, s, "Together they change "+listRefusals(refused)+".")
		return next, true, err
	}
	p := s.Proposal
	if p.Gates, err = e.detect(ctx, s, c.tree); err != nil {
		return Next{}, false, err
	}
	if c.inspection, err = e.inspect(ctx, s, code, c.tree); err != nil || c.why == "" {
		return Next{}, false, err
	}
	next, err := e.sendBack(ctx, s, c.why)
	return next, true, err
}

// maxFoldDiff bounds each of the two changes that a call is shown whose work did not fit,
// in bytes.
const maxFoldDiff = 12 << 10

// sendBack has a task done again on the present tip, which its work does not fit. Nobody is
// to blame, and no attempt is used: others were faster.
func (e *Engine) sendBack(ctx context.Context, s *State, why string) (Next, error) {
	f := *s.Proposal.Fold
	mine, err := e.Trees.Patch(ctx, f.Base, f.Work, maxFoldDiff)
	if err != nil {
		return Next{}, fmt.Errorf("read the change of %s: %w", s.TaskID, err)
	}
	theirs, err := e.Trees.Patch(ctx, f.Base, f.Tip, maxFoldDiff)
	if err != nil {
		return Next{}, fmt.Errorf("read what landed meanwhile: %w", err)
	}
	s.Baseline = maps.Clone(s.lane.tip.baseline)
	s.dropCall()
	s.Kept, s.lane.folded = nil, false
	s.Draft = Seen{}
	if err := e.layOut(ctx, s, s.HeadTree); err != nil {
		return Next{}, err
	}
	s.Objection = ""
	s.Failure = fmt.Sprintf("The work was fine by itself, but other tasks landed first and the two do not fit together. "+
		"%s\n\nDo the task again on the files as they are now.\n\nThe work that did not fit:\n\n%s\n\n"+
		"What landed meanwhile:\n\n%s", why, mine, theirs)
	short := oneLine("does not fit what landed meanwhile: "+why, maxTold)
	s.lastCall(func(it *Iteration) { it.Note = short })
	e.emit(run.Event{Kind: run.EventAttemptFailed, TaskID: s.TaskID, Text: short}, s)
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	return Next{}, nil
}

// maxTold bounds what is told of an attempt on one line, in bytes.
const maxTold = 300

// listed is a list of paths in a sentence.
func listed(paths []string) string {
	const most = 10
	more := ""
	if len(paths) > most {
		more = fmt.Sprintf(" and %d more", len(paths)-most)
		paths = paths[:most]
	}
	return strings.Join(paths, ", ") + more
}
