package loop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/plan"
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

// Rate-limit waits without a reset time from the provider: doubled from the
// first to the last.
const (
	firstWait = time.Minute
	// minWait is the first wait at least, whatever time the provider names.
	minWait  = 5 * time.Second
	lastWait = 30 * time.Minute
)

// planKey stands for the plan where attempts are counted by task id, and
// moveKey for the branch moving under the run.
const (
	planKey = "(plan)"
	moveKey = "(moved)"
)

// ErrBranchMoved is returned by a Publisher when the branch's tip is neither
// the one the proposal was made on nor the commit that lands it.
var ErrBranchMoved = errors.New("loop: somebody else moved the branch")

// ErrNotAllowed is returned by a Publisher when the person behind the run, or
// behind the task, may no longer write to the repository. The run stops; nothing
// more is committed.
var ErrNotAllowed = errors.New("loop: the person who asked for this may no longer write to the repository")

// Halt is returned by a Publisher where a person has to say how it goes on, or
// has said that it does not. The run ends for Reason; nothing more is committed.
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
	WorkTree  WorkTree
	Trees     Trees
	Runner    Runner
	Publisher Publisher
	// Crew gives tasks that are worked side by side their work trees; nil works one after
	// the other.
	Crew Crew
	// Held says whether no agent is to be started beside those at work; nil never holds. A
	// run that has none at work is held by whoever drives it: see [State.StartsAgent].
	Held func(ctx context.Context) (bool, error)
	// Now is the clock.
	Now func() time.Time
	// Attempts keeps what failed attempts changed; nil keeps nothing.
	Attempts Attempts
	// Emit tells what happens; nil tells nobody.
	Emit func(run.Event)
}

// Step takes the run one transition further. On an error the state is the one
// that was handed in and the step may be repeated.
func (e *Engine) Step(ctx context.Context, old State) (State, Next, error) {
	s := old.copied()
	next, err := e.step(ctx, &s)
	if errors.Is(err, ErrNoWorkTree) && old.Stage != stageOpen && old.Stage != stageEnd {
		return e.laidAnew(ctx, old)
	}
	if delay, ok := errors.AsType[*Delay](err); ok && old.End == "" {
		pause := delay.For
		if pause <= 0 {
			pause = delayPause
		}
		return e.Delay(old, delay.Why, delay.Queued), Next{Kind: Sleep, Until: e.Now().Add(pause)}, nil
	}
	if err != nil {
		return old, Next{}, err
	}
	e.undelay(&s)
	// What it did to the branch has to be known first.
	lands := old.Stage == stageLand || old.Stage == stageClose || old.Stage == stageEnd || old.landing()
	if !lands && textSize(reflect.ValueOf(s)) > maxState {
		return e.Fail(old, tooLarge), Next{}, nil
	}
	return s, next, nil
}

// laidAnew goes on with a run whose work tree is gone, from what is on the branch
// and in the state. What had been started there is gone with it.
func (e *Engine) laidAnew(ctx context.Context, old State) (State, Next, error) {
	s := old.copied()
	if s.Process != nil {
		if err := e.Runner.Abandon(ctx, s.Process.Name); err != nil {
			return old, Next{}, fmt.Errorf("abandon %s: %w", s.Process.Name, err)
		}
	}
	s.dropCall()
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
		if s.landing() {
			return e.stepLanes(ctx, s)
		}
		if err := e.haltLanes(ctx, s, "cancelled"); err != nil {
			return Next{}, err
		}
		return e.cancel(ctx, s)
	}
	if s.stopsHere() {
		if err := e.forget(ctx, s); err != nil {
			return Next{}, err
		}
		return e.stop(s, run.EndCancelled, s.StopAfterCall)
	}
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
		return Next{}, e.takeUp(ctx, s)
	case stageBegin:
		return e.begin(ctx, s)
	case stageSetUp:
		return e.setUp(ctx, s)
	case stageSetUpWatch:
		return e.watchSetUp(ctx, s)
	case stagePick:
		return e.pick(ctx, s)
	case stageStart:
		return e.start(ctx, s)
	case stageWatch:
		return e.watch(ctx, s)
	case stageJudge:
		return e.judge(ctx, s)
	case stagePlanned:
		return e.planned(ctx, s)
	case stageEnded:
		return e.ended(ctx, s)
	case stageRejected:
		return e.rejected(ctx, s)
	case stageSplit:
		return e.split(ctx, s)
	case stageVerified:
		return e.verified(ctx, s)
	case stageReview:
		return e.review(s)
	case stageReviewed:
		return e.reviewed(ctx, s)
	case stagePropose:
		return e.propose(ctx, s)
	case stageGate, stageFinalGates:
		return e.startGate(ctx, s)
	case stageGateWatch, stageFinalWatch:
		return e.watchGate(ctx, s)
	case stageLand:
		return e.land(ctx, s)
	case stageShow:
		return e.show(ctx, s)
	case stageClose:
		return e.close(ctx, s)
	case stageEnd:
		return e.end(ctx, s)
	default:
		return Next{}, fmt.Errorf("run %s is at unknown stage %q", s.Run, s.Stage)
	}
}

// open lays out the work tree and finds, or makes, the progress file.
func (e *Engine) open(ctx context.Context, s *State) error {
	s.Phase = run.PhasePreparing
	opened, err := e.WorkTree.Open(ctx, *s)
	if err != nil {
		return fmt.Errorf("open the work tree: %w", err)
	}
	s.Branch, s.BaseBranch, s.Base, s.BaseTree = opened.Branch, opened.BaseBranch, opened.Base, opened.BaseTree
	s.DefaultTree = opened.DefaultTree
	s.Head, s.HeadTree, s.Templates = opened.Head, opened.HeadTree, opened.Templates
	s.Setup, s.SetupKey, s.Warm = opened.Setup, opened.SetupKey, opened.Warm
	for _, f := range opened.Findings {
		if !slices.Contains(s.Findings, f) { // it is opened again after a restart
			s.Findings = appendFindings(s.Findings, []gate.Finding{f})
		}
	}
	s.Laid = s.HeadTree
	begins := s.Progress == ""
	if begins {
		s.recollect(opened.Earlier)
	}
	if s.StartTree != s.HeadTree { // somebody's commits are part of it now
		s.StartTree, s.Baseline = s.HeadTree, map[string]gate.Result{}
	}
	s.Settings = s.settled(opened.Settings, s.Attended)
	if err := e.detectAll(ctx, s); err != nil {
		return err
	}
	onBranch, doc, err := e.findProgress(ctx, s)
	if err != nil {
		return err
	}
	switch {
	case s.Outdated:
		doc = s.catchUp(onBranch, doc, opened.LastProgress)
	case s.Progress != "" && (onBranch == s.LandedProgress || onBranch == ""):
		// The tree is laid out again, and nobody else wrote this file
		// meanwhile, or somebody took it away: what we know beyond it stays.
		s.LandedProgress = onBranch
		s.Stage = stageBegin
		return nil
	case s.Progress != "":
		if doc, err = e.takeIn(s, doc); err != nil {
			return err
		}
	}
	if onBranch == "" && s.Progress == "" && s.Carried != "" {
		if doc, err = s.restore(doc); err != nil {
			return err
		}
	}
	if doc, err = follow(doc, s); err != nil {
		return err
	}
	doc.AssignIDs()
	e.tellPlan(s)
	if begins {
		s.inherit(doc)
		s.Earlier.Iterations = max(s.Earlier.Iterations, doc.LastIteration())
	}
	s.Progress, s.LandedProgress = s.text(doc), onBranch
	s.Stage = stageBegin
	return nil
}

// restore gives the progress file of an earlier run on the same subject in the
// place of a new one.
func (s *State) restore(fresh *progress.Doc) (*progress.Doc, error) {
	doc, err := progress.Parse([]byte(s.Carried))
	s.Carried = ""
	if err != nil {
		return nil, fmt.Errorf("read the progress of the run before: %w", err)
	}
	if b, ok := doc.Binding(); !ok || b.Key != s.Subject.Key {
		return fresh, nil
	}
	return doc, nil
}

// maxMerged bounds how many sentences on people's edits a run remembers.
const maxMerged = 20

// takeIn merges the progress file that people left on the branch with what we
// know beyond the one that we landed there. People win; what a person ticked
// is done, as far as tasks go, and what they changed gets all its attempts.
func (e *Engine) takeIn(s *State, human *progress.Doc) (*progress.Doc, error) {
	base, err := progress.Parse([]byte(s.LandedProgress))
	if err != nil {
		return nil, fmt.Errorf("read the landed progress: %w", err)
	}
	host, err := s.document(s.Progress)
	if err != nil {
		return nil, fmt.Errorf("read the accepted progress: %w", err)
	}
	return e.merged(s, progress.Merge(base, host, human))
}

// takeInTasks merges what people made of the task list in the pull request.
func (e *Engine) takeInTasks(s *State, edit PlanEdit) error {
	host, err := s.document(s.Progress)
	if err != nil {
		return fmt.Errorf("read the accepted progress: %w", err)
	}
	doc, err := e.merged(s, progress.MergeTasks(edit.Was, edit.Now, host))
	if err != nil {
		return err
	}
	doc.AssignIDs()
	s.Progress = s.text(doc)
	return nil
}

// merged is the document after a merge with people's edits, and what follows
// from them for the run.
func (e *Engine) merged(s *State, m progress.Merged) (*progress.Doc, error) {
	for _, c := range m.Changes {
		if c.TaskID == "" {
			continue
		}
		// The task is judged anew, by what comes of it as it is now.
		s.anew(c.TaskID)
		if c.Kind == progress.ChangeAdded || c.Kind == progress.ChangeReworded {
			delete(s.Behind, c.TaskID)
		}
		if c.Kind != progress.ChangeReordered && c.Kind != progress.ChangeMoved {
			s.dropLane(c.TaskID)
		}
		if c.TaskID == s.TaskID && c.Kind != progress.ChangeReordered && c.Kind != progress.ChangeMoved {
			// What was said of the task as it was is not about this one.
			s.Brief = Brief{}
			s.TaskID = ""
		}
	}
	if done, total := progress.Counts(m.Doc.Tasks()); done < total && m.Doc.MarkedDone() {
		if err := m.Doc.SetStatus(progress.StatusInProgress); err != nil {
			return nil, fmt.Errorf("set the status: %w", err)
		}
	}
	if err := s.cover(m.Doc); err != nil {
		return nil, err
	}
	told := m.Sentences()
	s.noteMerged(told)
	if len(told) > 0 {
		e.emit(run.Event{Kind: run.EventEdited, Text: strings.Join(told, " ")}, s)
	}
	return m.Doc, nil
}

// maxRoot bounds the files that checks are detected by, in bytes.
const maxRoot = 1 << 20

// detect finds the checks that a tree brings along; none where they were named.
func (e *Engine) detect(ctx context.Context, s *State, tree string) ([]gate.Gate, error) {
	if s.NoDetect || len(s.Gates) > 0 || tree == "" {
		return nil, nil
	}
	var gates []gate.Gate
	err := e.rootOf(ctx, tree, func(r gate.Root) { gates = gate.Detect(r) })
	return s.Quality.Apply(gates), err
}

// rootOf hands over the top directory of a tree.
func (e *Engine) rootOf(ctx context.Context, tree string, look func(gate.Root)) error {
	names, failed := e.Trees.Names(ctx, tree)
	if failed == nil {
		look(gate.Root{Names: names, Read: func(name string) ([]byte, bool) {
			src, ok, err := e.Trees.File(ctx, tree, name, maxRoot)
			failed = errors.Join(failed, err)
			return src, ok
		}})
	}
	if failed != nil {
		return fmt.Errorf("look for checks: %w", failed)
	}
	return nil
}

// detectAll finds the checks that the run is held to: those of the default branch,
// which no agent has written, and what the run's own branch has added to them.
func (e *Engine) detectAll(ctx context.Context, s *State) error {
	base, err := e.detect(ctx, s, s.DefaultTree)
	if err != nil {
		return err
	}
	head, err := e.detect(ctx, s, s.HeadTree)
	if err != nil {
		return err
	}
	s.DetectedGates = gate.Union(base, head)
	return nil
}

// findProgress reads the progress file that is bound to this subject. A file
// bound to another subject is not ours: it stays, and ours gets another path.
// onBranch is the file as it stands, "" where a new one is begun.
func (e *Engine) findProgress(ctx context.Context, s *State) (onBranch string, _ *progress.Doc, _ error) {
	for n := 1; ; n++ {
		dir := ".ralph/" + s.Subject.Slug
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", dir, n)
		}
		s.ProgressPath = dir + "/progress.md"
		doc, err := e.WorkTree.ReadProgress(ctx, s.ProgressPath)
		if errors.Is(err, fs.ErrNotExist) {
			return "", progress.New(s.Subject.Name, progress.Binding{Key: s.Subject.Key, PlanSHA256: s.Plan.SHA256}), nil
		}
		if err != nil {
			if n < 10 {
				continue // something unreadable stands there; leave it alone
			}
			return "", nil, fmt.Errorf("read %s: %w", s.ProgressPath, err)
		}
		if b, ok := doc.Binding(); ok && b.Key == s.Subject.Key {
			return string(doc.Bytes()), doc, nil
		}
		if n >= 10 {
			return "", nil, &run.UserError{
				Message: fmt.Sprintf("%s and nine like it belong to other plans", ".ralph/"+s.Subject.Slug+"/progress.md"),
				Hint:    "remove those that are finished",
			}
		}
	}
}

func (e *Engine) begin(ctx context.Context, s *State) (Next, error) {
	if err := e.Publisher.Begin(ctx, *s); err != nil {
		return Next{}, fmt.Errorf("announce the run: %w", err)
	}
	doc, err := s.document(s.Progress)
	if err != nil {
		return Next{}, fmt.Errorf("read the accepted progress: %w", err)
	}
	done, total := progress.Counts(doc.Tasks())
	e.emit(run.Event{Kind: run.EventRunStarted, Done: done, Total: total, Text: s.Subject.Name}, s)
	e.tellTooMany(s, done, total)
	e.tellCircles(s, doc.Tasks())
	if total == 0 {
		if s.Mode == run.ModeBuild {
			return e.finish(s, run.EndFailed, "there are no tasks to build; run it in plan mode first")
		}
	}
	return e.prepare(ctx, s)
}

// tellCircles names the tasks that wait for each other.
func (e *Engine) tellCircles(s *State, tasks []run.Task) {
	var ids []string
	for _, t := range tasks {
		if t.Actionable() && inCircle(tasks, t.ID) {
			ids = append(ids, t.ID)
		}
	}
	if len(ids) > 0 {
		e.emit(run.Event{
			Kind: run.EventPersonNotified,
			Text: strings.Join(ids, ", ") + " depend on each other in a circle: they are worked in their order. " +
				"Take one of the dependencies out where that is wrong",
		}, s)
	}
}

// tellTooMany says where the run cannot come to the end of its tasks: each needs at
// least one iteration.
func (e *Engine) tellTooMany(s *State, done, total int) {
	open, most := total-done, s.Limits.MaxIterations
	if most <= 0 || s.Once || s.Mode == run.ModePlan || open <= most-s.Iterations() {
		return
	}
	e.emit(run.Event{
		Kind: run.EventPersonNotified,
		Text: fmt.Sprintf("%d tasks are open, but max_iterations is %d: this run will not reach the end", open, most),
	}, s)
}

// prepare begins with what the repository wants to have run before any agent.
func (e *Engine) prepare(ctx context.Context, s *State) (Next, error) {
	if s.Setup != nil {
		s.Stage = stageSetUp
		return Next{}, nil
	}
	return e.enter(ctx, s)
}

// enter begins with the work, now that everything is in place: with a plan
// where there are no tasks yet.
func (e *Engine) enter(ctx context.Context, s *State) (Next, error) {
	doc, err := s.document(s.Progress)
	if err != nil {
		return Next{}, fmt.Errorf("read the accepted progress: %w", err)
	}
	if len(doc.Tasks()) == 0 {
		s.Phase = run.PhasePlanning
		return e.prepareAgent(s, prompt.JobPlan, run.RolePlanner, "")
	}
	return e.work(ctx, s, doc)
}

// work goes on to the tasks of a plan, or leaves it to people where that is all
// that was asked for or where they have not approved it as it is.
func (e *Engine) work(ctx context.Context, s *State, doc *progress.Doc) (Next, error) {
	hash := doc.PlanSHA256()
	s.Approval = ""
	if s.Mode != run.ModePlan && (!s.NeedsApproval || s.covered() == hash) {
		if s.Approved == hash { // read and approved as it stands
			s.Behind = nil
			if err := s.release(doc); err != nil {
				return Next{}, err
			}
		}
		s.Proposal = nil
		s.Phase, s.Stage = run.PhaseIterating, stagePick
		return Next{}, nil
	}
	s.Approval = hash
	s.Proposal = &Proposal{Progress: s.Progress, Plan: true}
	return e.landPlan(ctx, s)
}

// endPlanned ends a run that goes no further than its plan.
func (e *Engine) endPlanned(s *State) (Next, error) {
	s.Proposal = nil
	if s.Mode == run.ModePlan {
		return e.finish(s, run.EndPlanned, "")
	}
	return e.finish(s, run.EndAwaitingPerson, "the plan needs approval before the work starts")
}

// covered is the hash of the plan that a person's approval covers, "" without one.
func (s *State) covered() string { return cmp.Or(s.Covered, s.Approved) }

// cover has an approval that covers the accepted plan cover doc as well, which
// follows it: the host has edited the plan, or a person who may approve it. What
// agents write is not for cover; see await.
func (s *State) cover(doc *progress.Doc) error {
	if s.Approved == "" {
		return nil
	}
	before, err := s.document(s.Progress)
	if err != nil {
		return fmt.Errorf("read the accepted progress: %w", err)
	}
	if s.covered() == before.PlanSHA256() {
		s.Covered = doc.PlanSHA256()
	}
	return nil
}

// needsApproval is why a task waits that an agent added to an approved plan.
const needsApproval = "an agent added this to the approved plan; approve it with /ralph retry and its id"

// release opens the tasks of an approved plan that waited for approval.
func (s *State) release(doc *progress.Doc) error {
	for _, t := range doc.Tasks() {
		if t.Status != run.TaskBlocked || t.Reason != needsApproval {
			continue
		}
		if err := doc.Reopen(t.ID); err != nil {
			return fmt.Errorf("open %s: %w", t.ID, err)
		}
	}
	s.Progress = s.text(doc)
	return nil
}

// await has tasks that an agent wrote wait for a person, where the plan was
// approved without them.
func (s *State) await(doc *progress.Doc, ids []string) error {
	if s.Approved == "" {
		return nil
	}
	for _, id := range ids {
		if err := doc.Block(id, needsApproval); err != nil {
			return fmt.Errorf("have %s wait for approval: %w", id, err)
		}
	}
	return nil
}

// prepareAgent notes the intent to start an agent for a job, and the task it is
// about, if any. The start itself is the next step.
func (e *Engine) prepareAgent(s *State, job prompt.Job, role run.Role, task string) (Next, error) {
	s.prepare(job, role, task)
	s.Proposal = nil
	s.Process.StartedAt = e.Now()
	return Next{}, nil
}

func (s *State) prepare(job prompt.Job, role run.Role, task string) {
	s.Starts++
	s.Job, s.Role, s.TaskID = job, role, task
	s.Process = &Process{Kind: ProcessAgent, Name: processName(*s)}
	s.Stage = stageStart
	if s.Began = ""; s.lane != nil {
		s.Began = s.Progress
	}
}

// again starts another agent for what the last one was for, as far as the
// limits of the run allow.
func (e *Engine) again(s *State) (Next, error) {
	switch {
	case e.overdue(*s):
		return e.stop(s, run.EndDeadline, "")
	case s.spent():
		return e.stop(s, run.EndBudgetExhausted, s.spending())
	}
	looked := s.Proposal
	if _, err := e.prepareAgent(s, s.Job, s.Role, s.TaskID); err != nil {
		return Next{}, err
	}
	if s.Job == prompt.JobVerify {
		s.Proposal = looked // what is looked at
	}
	return Next{}, nil
}

// stop ends the run at one of its limits. A review that comes to one is left
// out: the work it was to read is done.
func (e *Engine) stop(s *State, reason run.EndReason, detail string) (Next, error) {
	if s.Job != prompt.JobReview {
		return e.finish(s, reason, detail)
	}
	s.ReviewNote = "the review did not finish: " + oneLine(cmp.Or(detail, reason.Sentence()), 200)
	s.dropCall()
	s.Phase, s.Stage = run.PhaseFinishing, stageClose
	return Next{}, nil
}

// spent says whether the budget is used up, as far as is known.
func (s *State) spent() bool {
	return s.Limits.BudgetUSD > 0 && s.Usage.CostUSD >= s.Limits.BudgetUSD
}

func (s *State) spending() string {
	return fmt.Sprintf("$%.2f of $%.2f is spent", s.Usage.CostUSD, s.Limits.BudgetUSD)
}

func processName(s State) string { return fmt.Sprintf("%s-%d", s.Run, s.Starts) }

// pick looks at the exit conditions, then at the tasks.
func (e *Engine) pick(ctx context.Context, s *State) (Next, error) {
	doc, err := s.document(s.Progress)
	if err != nil {
		return Next{}, fmt.Errorf("read the accepted progress: %w", err)
	}
	tasks := doc.Tasks()
	if s.Stuck { // somebody has brought work meanwhile
		s.Stuck, s.EndDetail = false, ""
	}
	switch done, total := progress.Counts(tasks); {
	case total == 0:
		return e.finish(s, run.EndFailed, "the plan holds no task")
	case len(s.Lanes) > 0:
		if !e.ends(s) {
			e.spread(s, tasks)
		}
		return e.stepLanes(ctx, s)
	case done == total:
		s.Phase, s.Stage, s.GateIndex = run.PhaseFinishing, stageFinalGates, 0
		return Next{}, nil
	case e.overdue(*s):
		return e.finish(s, run.EndDeadline, "")
	case s.spent():
		return e.finish(s, run.EndBudgetExhausted, s.spending())
	case s.StopAfterCall != "":
		return e.finish(s, run.EndCancelled, s.StopAfterCall)
	case s.Once && s.Iteration > 0:
		return e.finish(s, run.EndSingleIteration, "")
	case s.Limits.MaxIterations > 0 && s.Iterations() >= s.Limits.MaxIterations:
		return e.finish(s, run.EndMaxIterations, fmt.Sprintf("reached max_iterations (%d)", s.Limits.MaxIterations))
	}
	if s.spreads(tasks) && e.spread(s, tasks) {
		return Next{}, nil
	}
	task, ok := choose(tasks, s, nil)
	if !ok {
		detail := ""
		switch {
		case slices.ContainsFunc(tasks, run.Task.Actionable):
			detail = holdups(tasks, s)
		case s.Iteration == 0:
			detail = "the open tasks were blocked before; remove “(blocked: …)” from a task in " + s.ProgressPath +
				" to retry it"
		}
		return e.stuck(s, detail)
	}
	if task.Verify {
		return e.hostTask(ctx, s, doc, task)
	}
	if next, handled, err := e.unfinished(ctx, s, doc, task); err != nil || handled {
		return next, err
	}
	return e.call(ctx, s, doc, task)
}

// stuck ends a run that has no task left to work. Where it has landed something, the
// final checks say first how that stands.
func (e *Engine) stuck(s *State, detail string) (Next, error) {
	if len(s.Commits) == 0 || len(gate.At(e.gates(*s), gate.Final)) == 0 {
		return e.finishStuck(s, detail)
	}
	s.Stuck, s.EndDetail = true, detail
	s.Phase, s.Stage, s.GateIndex, s.GateLast = run.PhaseFinishing, stageFinalGates, 0, nil
	return Next{}, nil
}

// finishStuck ends a run without a task to work: for a person to give what the tasks
// need, or blocked.
func (e *Engine) finishStuck(s *State, detail string) (Next, error) {
	doc, err := s.document(s.Progress)
	if err != nil {
		return Next{}, fmt.Errorf("read the accepted progress: %w", err)
	}
	needs := s.needed(doc.Tasks())
	if len(needs) == 0 {
		return e.finish(s, run.EndBlocked, detail)
	}
	said := make([]string, 0, len(needs))
	for _, n := range needs {
		said = append(said, n.TaskID+" needs a person: "+n.Words)
	}
	return e.finish(s, run.EndAwaitingPerson, strings.TrimSuffix(strings.Join(said, "; ")+"; "+detail, "; "))
}

func rank(t run.Task) int {
	if t.Priority == 0 {
		return 1 << 30
	}
	return t.Priority
}

// start makes the prompt and starts the agent on the accepted progress.
func (e *Engine) start(ctx context.Context, s *State) (Next, error) {
	doc, err := s.document(cmp.Or(s.Began, s.Progress))
	if err != nil {
		return Next{}, fmt.Errorf("read the accepted progress: %w", err)
	}
	mode := run.ModeBuild
	if s.Job != prompt.JobBuild {
		mode = run.ModePlan // what changes the plan and no code
	}
	var task run.Task
	var criteria []string
	if s.Proposal != nil {
		criteria = s.Proposal.Criteria
	}
	unfinished := ""
	if s.Kept != nil && s.Kept.TaskID == s.TaskID {
		unfinished = cmp.Or(s.Kept.Left, "It did not say. Compare the existing work with the task.")
	}
	attempt := s.Attempts[planKey] + 1
	if s.TaskID != "" {
		if task, err = findTask(doc, s.TaskID); err != nil {
			return Next{}, err
		}
		attempt = s.Attempts[s.TaskID] + s.Partial[s.TaskID] + 1
	}
	diff := ""
	if s.Job == prompt.JobReview {
		attempt = s.Reviews
		if diff, err = e.Trees.Patch(ctx, s.BaseTree, s.HeadTree, maxReviewDiff); err != nil {
			return Next{}, fmt.Errorf("read the whole change: %w", err)
		}
		diff = cmp.Or(diff, "The changes take too long to compare. Read the files.")
	}
	gates := e.gates(*s)
	commands := make([]string, 0, len(gates))
	for _, g := range gates {
		commands = append(commands, g.Command)
	}
	guidance := s.Guidance
	if s.Job != prompt.JobVerify { // that one answers, and changes nothing
		guidance = slices.Concat(guidance, s.Notes)
		s.Noted = len(s.Notes)
	}
	names, err := e.Trees.Names(ctx, s.HeadTree)
	if err != nil {
		return Next{}, fmt.Errorf("look at the project: %w", err)
	}
	text, err := prompt.Render(s.Templates, prompt.Input{
		Project: prompt.Project(names),
		Job:     s.Job, Role: s.Role, PlanName: s.Subject.Name, PlanFile: s.Subject.PlanFile, ProgressFile: s.ProgressPath,
		PlanText: s.Plan.Words(), Accept: s.Plan.Accept, Guidance: guidance, Task: task, Progress: doc, Attempt: attempt,
		LastFailure: s.Failure, Violations: s.Violations, GateCommands: commands, Left: e.left(*s), Nonce: nonce(*s),
		Tried: tried(doc, s.TaskID), MergedNotes: s.MergedNotes, Files: s.interesting(), Diff: diff,
		Said:       s.quoted(s.TaskID),
		Unfinished: unfinished, Criteria: criteria, Promise: s.Promise, MayAsk: s.Ask != plan.AskNever,
	})
	if err != nil {
		return Next{}, fmt.Errorf("render prompt: %w", err)
	}
	h, err := e.Runner.StartAgent(ctx, *s, AgentStart{
		Name: s.Process.Name, Mode: mode, Role: s.Role, Prompt: text, Attempt: attempt,
		Model: s.modelOf(s.Role), MaxTurns: s.Roles[s.Role].MaxTurns, DenyTools: s.Roles[s.Role].DenyTools,
		Progress: doc, ProgressPath: s.ProgressPath,
		Wall: e.wall(*s), Idle: max(s.Limits.IdleTimeout, 0),
	})
	if err != nil {
		return Next{}, fmt.Errorf("start agent: %w", err)
	}
	s.Process.Handle = h
	s.Stage = stageWatch
	done, total := progress.Counts(doc.Tasks())
	e.emit(run.Event{
		Kind: run.EventAgentStarted, Role: s.Role, TaskID: task.ID, TaskTitle: task.Title, Done: done, Total: total,
	}, s)
	return Next{}, nil
}

// maxEvidence bounds one line of evidence, in bytes.
const maxEvidence = 300

// maxFinal bounds what is kept of an agent's last message, in bytes.
const maxFinal = 2000

// maxSummary bounds what is kept of it once the work has landed.
const maxSummary = 600

// maxReviewDiff bounds what is read of a change for its review, in bytes; a
// prompt takes less.
const maxReviewDiff = 64 << 10

// tried are the recorded attempts at a task.
func tried(doc *progress.Doc, id string) []progress.Attempt {
	if id == "" {
		return nil
	}
	var own []progress.Attempt
	for _, a := range doc.Attempts() {
		if a.Tried == id || strings.HasPrefix(a.Tried, id+" ") {
			own = append(own, a)
		}
	}
	return own
}

// modelOf is the model for a role, "" for the agent's own default.
func (s *State) modelOf(role run.Role) string {
	if own := s.Roles[role].Model; own != "" {
		return own
	}
	return s.Model
}

// left is what the run may still spend, this iteration included.
func (e *Engine) left(s State) prompt.Left {
	left := prompt.Left{Time: e.wall(s)}
	if s.Limits.TaskAttempts > 0 {
		left.Attempts = s.Limits.TaskAttempts - s.Attempts[s.TaskID]
	}
	if s.Limits.MaxIterations > 0 {
		left.Iterations = s.Limits.MaxIterations - s.Iterations() + 1
	}
	if s.Limits.BudgetUSD > 0 {
		left.USD = s.Limits.BudgetUSD - s.Usage.CostUSD
	}
	return left
}

// nonce marks where untrusted text begins and ends in a prompt. It is another one for each
// start, and nobody who sees what was published of the run, or an earlier prompt, knows it.
func nonce(s State) string {
	sum := sha256.Sum256([]byte(s.NonceKey + "\x00" + processName(s)))
	return hex.EncodeToString(sum[:8])
}

// wall is the time one agent call may take: the iteration's limit, or what is
// left until the deadline of the run.
func (e *Engine) wall(s State) time.Duration {
	wall := s.Limits.IterationTimeout
	if s.Limits.RunTimeout > 0 {
		left := max(s.Deadline(e.Now()).Sub(e.Now()), time.Second)
		if wall <= 0 || left < wall {
			wall = left
		}
	}
	return max(wall, 0)
}

func (e *Engine) overdue(s State) bool {
	return s.Limits.RunTimeout > 0 && !e.Now().Before(s.Deadline(e.Now()))
}

// gates are the checks a proposal has to pass, by what is known so far.
func (e *Engine) gates(s State) []gate.Gate { return s.Checks() }

// watch looks at the agent; when it has ended, the outcome decides.
func (e *Engine) watch(ctx context.Context, s *State) (Next, error) {
	status, err := e.Runner.ObserveAgent(ctx, s.Process.Handle)
	if errors.Is(err, ErrGone) || errors.Is(err, ErrLost) {
		s.Usage = s.Usage.Add(status.Usage) // what it cost is known all the same
		return e.withoutEnd(ctx, s, errors.Is(err, ErrGone))
	}
	if err != nil {
		return Next{}, fmt.Errorf("observe agent: %w", err)
	}
	if status.Running {
		return Next{Kind: Wait, Handles: []Handle{s.Process.Handle}}, nil
	}
	s.Lost, s.Gone = 0, 0
	s.Usage = s.Usage.Add(status.Usage)
	if status.Model != "" {
		s.SeenModel = status.Model
	}
	s.addCall(Iteration{
		Number: s.Iteration, TaskID: s.TaskID, Role: s.Role, Verdict: s.Verdict, StartedAt: status.Started,
		Duration: status.Finished.Sub(status.Started), Outcome: string(status.Outcome),
		Note: oneLine(status.Detail, 300), Model: status.Model, Usage: status.Usage,
		Models: run.AddModels(nil, status.Models, maxModels), Hosts: run.AddHosts(nil, status.Hosts, maxHosts),
	})
	e.emit(run.Event{
		Kind: run.EventAgentFinished, Role: s.Role, TaskID: s.TaskID, Text: string(status.Outcome),
		Outcome: string(status.Outcome),
		Model:   status.Model, Usage: status.Usage, Duration: status.Finished.Sub(status.Started),
		Models: run.AddModels(nil, status.Models, maxModels), Hosts: run.AddHosts(nil, status.Hosts, maxHosts),
	}, s)

	s.beginRecord(status)
	switch status.Outcome {
	case AgentRateLimited, AgentOverBudget, AgentOverTaskBudget, AgentCrowded, AgentBroken:
		// What it said is stored before its process is forgotten.
		s.Ended = &Ended{
			Outcome: status.Outcome, Detail: status.Detail, RetryAt: status.RetryAt, Worked: worked(status.Usage),
			DoFirst: status.DoFirst, Lasts: status.Lasts, Limit: status.Limit,
		}
		s.Stage = stageEnded
		return Next{}, nil
	case AgentCompleted, AgentGaveUp, AgentTimedOut:
		s.Strikes, s.Idle, s.Waits, s.Crowded = 0, 0, 0, 0
		if s.Job == prompt.JobVerify {
			return e.answered(s, status)
		}
		s.takeProposal(status)
		s.Stage = stageJudge
		return Next{}, nil
	default:
		return Next{}, fmt.Errorf("agent ended with unknown outcome %q", status.Outcome)
	}
}

// withoutEnd is what follows where nobody can tell how the agent ended: the iteration is
// repeated, but not for ever. gone: nothing of it is left, not even what it changed.
func (e *Engine) withoutEnd(ctx context.Context, s *State, gone bool) (Next, error) {
	if err := e.lookAround(ctx, s); err != nil {
		return Next{}, err
	}
	if !gone {
		if s.Lost++; s.Lost <= maxLost {
			return e.again(s)
		}
		s.Ended = &Ended{
			Outcome: AgentBroken, Detail: "its process was lost: something ended it from outside, or it ended its own parent",
		}
		s.Stage = stageEnded
		return Next{}, nil
	}
	if s.Job == prompt.JobBuild {
		s.Draft = Seen{
			Number: s.Iteration, TaskID: s.TaskID, Role: s.Role, Outcome: AgentBroken, Class: FailCrash, Verdict: s.Verdict,
		}
		s.endRecord()
	}
	if s.Gone++; s.Gone <= maxGone {
		return e.again(s)
	}
	s.Ended = &Ended{Outcome: AgentBroken, Detail: "its process was gone each time"}
	s.Gone, s.Stage = 0, stageEnded
	return Next{}, nil
}

// takeProposal takes what the agent left behind, and says of it, as the proposal.
func (s *State) takeProposal(status AgentStatus) {
	s.Notes, s.Noted = s.Notes[s.Noted:], 0
	s.Proposal = &Proposal{Plan: s.Job == prompt.JobPlan, Final: oneLine(prompt.Prose(status.Final), maxFinal)}
	s.Proposal.Note = oneLine(status.Detail, 300)
	if status.Outcome != AgentCompleted {
		s.Proposal.Failed = "The last call did not end well: " + oneLine(status.Detail, 600) + "."
	}
	if s.Job == prompt.JobBuild || s.Job == prompt.JobPlan {
		s.Failure = s.Proposal.Failed // else it still says why the task failed
	}
	if s.Job == prompt.JobBuild || s.Job == prompt.JobPlan {
		s.Proposal.Claim = prompt.ReadPromise(status.Final, s.Promise)
	}
}

// ended acts on an agent call that came to nothing: a wait, a crash, a budget.
func (e *Engine) ended(ctx context.Context, s *State) (Next, error) {
	if err := e.forget(ctx, s); err != nil {
		return Next{}, err
	}
	if err := e.lookAround(ctx, s); err != nil {
		return Next{}, err
	}
	end := *s.Ended
	s.Ended = nil
	detail := oneLine(end.Detail, 600)
	switch end.Outcome { //nolint:exhaustive // the others are judged
	case AgentRateLimited:
		return e.wait(s, end)
	case AgentOverBudget:
		return e.stop(s, run.EndBudgetExhausted, oneLine(detail, 300))
	case AgentOverTaskBudget:
		return e.overTaskBudget(ctx, s, detail)
	case AgentCrowded:
		return e.crowded(s, detail)
	default:
		return e.broken(s, detail, end)
	}
}

// worked says whether a call got as far as using the model.
func worked(u run.Usage) bool { return u.CostUSD > 0 || u.OutputTokens > 0 }

// lookAround notes how a call that was not looked at has left the files, so that
// the next one is not taken for having changed them.
func (e *Engine) lookAround(ctx context.Context, s *State) error {
	tree, _, err := e.WorkTree.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read the work tree: %w", err)
	}
	s.Laid, err = e.keepTaskFile(ctx, s, tree)
	return err
}

// layOut makes the work tree a known one again.
func (e *Engine) layOut(ctx context.Context, s *State, tree string) error {
	if err := e.WorkTree.Reset(ctx, tree); err != nil {
		return fmt.Errorf("reset the work tree: %w", err)
	}
	s.Laid = tree
	return nil
}

// overTaskBudget gives up a task that has used up its share; the others have
// theirs.
func (e *Engine) overTaskBudget(ctx context.Context, s *State, detail string) (Next, error) {
	doc, err := s.document(s.Progress)
	if err != nil {
		return Next{}, fmt.Errorf("read the accepted progress: %w", err)
	}
	if s.Job == prompt.JobReview || s.TaskID == "" {
		return e.stop(s, run.EndBudgetExhausted, detail)
	}
	s.Failure = detail
	s.Phase = run.PhaseIterating
	return e.giveUp(ctx, s, doc, Decision{
		TaskID: s.TaskID, Reason: "its budget is used up",
		Diagnostics: fmt.Sprintf("%s was given up: its budget is used up.\n\n%s\n", s.TaskID, detail),
	})
}

// wait notes when the provider wants to be asked again. It costs neither an
// attempt nor an iteration. However soon it names, waits in a row grow.
func (e *Engine) wait(s *State, end Ended) (Next, error) {
	least, until := minWait, end.RetryAt
	if !until.After(e.Now()) {
		least = firstWait
	}
	if floor := e.Now().Add(min(least<<min(s.Waits, 10), lastWait)); until.Before(floor) {
		until = floor
	}
	until = earlier(until, e.Now().Add(maxWait))
	if s.Limits.RunTimeout > 0 {
		until = earlier(until, s.Deadline(e.Now()))
	}
	s.Waits++
	task := s.TaskID
	if _, err := e.again(s); err != nil || s.Stage != stageStart {
		return Next{}, err
	}
	s.Resume, s.WaitUntil = s.Stage, until
	e.emit(run.Event{
		Kind: run.EventWaiting, TaskID: task,
		Text: cmp.Or(end.Limit, "Rate limited"), Until: until,
	}, s)
	return Next{Kind: Sleep, Until: until}, nil
}

// waits says whether the time until which something waits is still to come. No wait is
// longer than maxWait: one that is was begun by a clock that has been put back since.
func (e *Engine) waits(until time.Time) bool {
	left := until.Sub(e.Now())
	return left > 0 && left <= maxWait
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// broken answers a crash or a refusal by the provider: try again, but three in
// a row are not going to fix themselves, and what lasts is not tried again at all.
func (e *Engine) broken(s *State, detail string, end Ended) (Next, error) {
	s.Strikes++
	if s.Idle++; end.Worked && end.DoFirst == "" {
		s.Idle = 0
	}
	s.Draft.Outcome = AgentBroken // that its process is gone is told by no outcome
	s.blame(failure{}, detail, detail)
	s.endRecord()
	what := "the agent failed: " + detail
	if end.DoFirst != "" {
		what = "not the task's fault: " + detail
	}
	if !end.Lasts { // else the run's end says it, once
		e.emit(run.Event{Kind: run.EventAttemptFailed, TaskID: s.TaskID, Text: what}, s)
	}
	if end.Lasts || s.Idle >= maxStrikes || s.Strikes >= 2*maxStrikes {
		return e.stop(s, run.EndFailed, brokenDetail(s.Strikes, detail, end.DoFirst))
	}
	return e.again(s)
}

// crowded repeats a call that the machine had no room for. The next start waits for
// room.
func (e *Engine) crowded(s *State, detail string) (Next, error) {
	if s.Crowded++; s.Crowded < maxCrowded {
		return e.again(s)
	}
	return e.stop(s, run.EndFailed, brokenDetail(s.Crowded, detail,
		"see what fills the disk: either the work itself, or something else on this machine"))
}

// brokenDetail is why a run ends after so many broken calls. What somebody can
// fix begins with the words of who refused, and with what to do first.
func brokenDetail(calls int, detail, doFirst string) string {
	if doFirst == "" {
		return fmt.Sprintf("the agent failed %d times in a row: %s", calls, detail)
	}
	blame := "No task is blamed."
	if calls > 1 {
		blame = fmt.Sprintf("(%d agent calls in a row failed; no task is blamed.)", calls)
	}
	return fmt.Sprintf("%s. What to do first: %s. %s", strings.TrimRight(detail, ". "), doFirst, blame)
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
	if s.Process != nil && s.Process.Handle != "" {
		if err := e.Runner.Stop(ctx, s.Process.Handle, "cancelled"); err != nil {
			return Next{}, fmt.Errorf("stop %s: %w", s.Process.Name, err)
		}
	}
	if err := e.forget(ctx, s); err != nil {
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

// landPlan publishes the plan and ends plan mode.
func (e *Engine) landPlan(ctx context.Context, s *State) (Next, error) {
	doc, err := s.document(s.Proposal.Progress)
	if err != nil {
		return Next{}, fmt.Errorf("read the plan: %w", err)
	}
	if err := e.WorkTree.WriteProgress(ctx, s.ProgressPath, doc); err != nil {
		return Next{}, fmt.Errorf("write %s: %w", s.ProgressPath, err)
	}
	tree, refused, err := e.WorkTree.Snapshot(ctx)
	if err != nil {
		return Next{}, fmt.Errorf("read the work tree: %w", err)
	}
	if len(refused) > 0 {
		return Next{}, fmt.Errorf("read the work tree: %s", listRefusals(refused))
	}
	s.Proposal.Tree = tree
	if tree == s.HeadTree {
		return e.endPlanned(s)
	}
	s.Stage = stageLand
	return Next{}, nil
}

// land makes the proposal a commit.
func (e *Engine) land(ctx context.Context, s *State) (Next, error) {
	l := Landing{
		State: *s, Iteration: s.Iteration, Tree: s.Proposal.Tree, Own: s.Proposal.Own, Model: s.SeenModel,
		CostUSD: s.Usage.CostUSD - s.LandedUSD, Planned: s.Proposal.Plan,
	}
	if !s.Proposal.Plan {
		doc, err := s.document(s.Proposal.Progress)
		if err != nil {
			return Next{}, fmt.Errorf("read the proposed progress: %w", err)
		}
		if l.Task, err = findTask(doc, s.TaskID); err != nil {
			return Next{}, err
		}
	}
	landed, err := e.Publisher.Land(ctx, l)
	if err != nil {
		return e.notLanded(s, err)
	}
	if len(s.Proposal.Own) > 0 { // the agent's tree is another one
		if err := e.layOut(ctx, s, landed.Tree); err != nil {
			return Next{}, err
		}
	}
	delete(s.Attempts, moveKey)
	s.Kept = nil
	landed.TaskID = l.Task.ID
	if !l.Planned {
		landed.Summary = oneLine(s.Proposal.Final, maxSummary)
	}
	if at := s.last(); at >= 0 && l.Task.ID != "" {
		s.landedFeedback(l.Task.ID, landed, s.History[at].Evidence.Change)
	}
	s.Commits = append(s.Commits, landed)
	s.HeadTree, s.LandedUSD = landed.Tree, s.Usage.CostUSD
	if landed.OID != "" { // nothing is committed where that was not wanted
		s.Head = landed.OID
	}
	s.Progress = s.Proposal.Progress
	s.LandedProgress = s.Progress
	s.HintDone = s.Proposal.Done
	s.raise()
	s.Findings = appendFindings(s.Findings, s.Proposal.Findings)
	s.Failure, s.Objection = "", ""
	if !l.Planned {
		s.lastCall(func(it *Iteration) { it.Landed = true })
	}
	s.Stage = stageShow
	e.emit(run.Event{Kind: run.EventCommitted, TaskID: l.Task.ID, TaskTitle: l.Task.Title, Text: landed.OID}, s)
	if l.Planned {
		return e.endPlanned(s)
	}
	doc, err := s.document(s.Progress)
	if err != nil {
		return Next{}, fmt.Errorf("read the accepted progress: %w", err)
	}
	s.Draft.Landed = true
	s.endRecord()
	done, total := progress.Counts(doc.Tasks())
	e.emit(run.Event{Kind: run.EventTaskDone, TaskID: l.Task.ID, TaskTitle: l.Task.Title, Done: done, Total: total}, s)
	s.dropCall()
	s.TaskID, s.Brief = "", Brief{Violations: s.Violations}
	return Next{}, nil
}

// notLanded is what follows where the publisher did not land the proposal.
func (e *Engine) notLanded(s *State, err error) (Next, error) {
	var rejected *Rejection
	var halt *Halt
	switch {
	case errors.As(err, &halt):
		return e.finish(s, halt.Reason, halt.Detail)
	case errors.Is(err, ErrBranchMoved) && s.lane != nil:
		// What it holds is folded onto what the others pushed.
		s.Stage, s.lane.folded, s.lane.reopens = stageFold, false, true
		return Next{}, nil
	case errors.Is(err, ErrBranchMoved):
		return e.moved(s)
	case errors.As(err, &rejected):
		s.reject(rejected.Refusals)
		return Next{}, nil
	case errors.Is(err, ErrNotAllowed):
		return e.finish(s, run.EndCancelled, err.Error())
	default:
		return Next{}, fmt.Errorf("land %s: %w", s.TaskID, err)
	}
}

// moved takes in a branch that somebody else pushed to: lay the tree out anew
// at its tip and repeat the iteration there. Nothing is overwritten.
func (e *Engine) moved(s *State) (Next, error) {
	s.Attempts[moveKey]++
	if s.Attempts[moveKey] >= maxMoves {
		return e.finish(s, run.EndFailed, "somebody moved the branch each time the run wanted to commit")
	}
	s.dropCall()
	s.Phase, s.Stage = run.PhasePreparing, stageOpen
	return Next{}, nil
}

func (e *Engine) show(ctx context.Context, s *State) (Next, error) {
	if again, err := e.publish(ctx, s); err != nil || again {
		return Next{}, err
	}
	s.Stage = stagePick
	return Next{}, nil
}

// publish shows people how the run stands. Where they have edited the task list
// meanwhile, that is taken in first, and has to be stored before what they
// wrote is written over: again says to come back.
func (e *Engine) publish(ctx context.Context, s *State) (again bool, err error) {
	shown := *s
	shown.Delayed = nil // a run that takes this step waits for nothing
	pr, err := e.Publisher.Show(ctx, shown)
	if err != nil {
		return false, fmt.Errorf("show progress: %w", err)
	}
	if pr == nil {
		return false, nil
	}
	edit := pr.Edit
	pr.Edit = nil
	s.PullRequest = pr
	s.followPullRequest()
	if edit == nil {
		return false, nil
	}
	return true, e.takeInTasks(s, *edit)
}

// Stale says whether what people see lacks a commit that has landed: showing it
// was put off.
func (s *State) Stale() bool {
	return s.PullRequest != nil && s.PullRequest.Head != "" && s.PullRequest.Head != s.Head && s.End == ""
}

// Refresh shows people how a run stands that waits for something. An edit of
// theirs is left for the next step that shows: an agent may be at work on the
// tasks as they are.
func (e *Engine) Refresh(ctx context.Context, s State) (State, error) {
	pr, err := e.Publisher.Show(ctx, s)
	if err != nil {
		return s, fmt.Errorf("show progress: %w", err)
	}
	switch {
	case pr == nil:
	case pr.Edit != nil:
		shown := *s.PullRequest
		shown.Head = s.Head // until the edit is taken in there is no more to show
		s.PullRequest = &shown
	default:
		s.PullRequest = pr
		s.followPullRequest()
	}
	return s, nil
}

// followPullRequest takes in what people have done to the pull request itself: closed or
// merged, it ends the run; sent elsewhere, it goes there.
func (s *State) followPullRequest() {
	pr := s.PullRequest
	if s.End != "" || pr == nil {
		return
	}
	switch {
	case s.CancelRequested:
	case pr.Merged:
		s.CancelRequested, s.CancelReason = true, fmt.Sprintf("#%d was merged", pr.Number)
	case pr.Closed:
		s.CancelRequested, s.CancelReason = true, fmt.Sprintf("#%d was closed", pr.Number)
	}
	if pr.Base != "" && pr.Base != s.BaseBranch {
		s.noteMerged([]string{fmt.Sprintf("The pull request now targets %s instead of %s.", pr.Base, s.BaseBranch)})
		s.BaseBranch = pr.Base
	}
}

// noteMerged keeps sentences on what people did to the run.
func (s *State) noteMerged(sentences []string) {
	s.Merged = append(s.Merged, sentences...)
	s.Merged = s.Merged[max(0, len(s.Merged)-maxMerged):]
}

// close lands the commit that takes progress.md away again, or into the archive, where
// the repository does not keep it.
func (e *Engine) close(ctx context.Context, s *State) (Next, error) {
	reason := run.EndAllTasksComplete
	if s.HintDone {
		reason = run.EndRalphDone
	}
	keep := s.KeepProgress && !s.ArchiveProgress
	if keep {
		if err := e.markDone(ctx, s); err != nil {
			return Next{}, err
		}
	}
	if keep || s.NoCommit || s.Head == s.Base {
		return e.finish(s, reason, "")
	}
	tree, err := e.Trees.Without(ctx, s.HeadTree, s.ProgressPath)
	if err != nil {
		return Next{}, fmt.Errorf("take out %s: %w", s.ProgressPath, err)
	}
	if tree == s.HeadTree {
		return e.finish(s, reason, "")
	}
	place, own := s.ProgressPath, []string(nil)
	if s.ArchiveProgress {
		if tree, place, err = e.archive(ctx, s, tree); err != nil {
			return Next{}, err
		}
		own = []string{place}
	}
	landed, err := e.Publisher.Land(ctx, Landing{
		State: *s, Iteration: s.Iteration, Tree: tree, Model: s.SeenModel, CostUSD: s.Usage.CostUSD - s.LandedUSD,
		Closing: true, Own: own,
	})
	if errors.Is(err, ErrBranchMoved) {
		// Somebody works on the branch already; the file may stay.
		return e.finish(s, reason, "")
	}
	if halt, ok := errors.AsType[*Halt](err); ok {
		return e.finish(s, halt.Reason, halt.Detail)
	}
	if err != nil {
		return Next{}, fmt.Errorf("land the closing commit: %w", err)
	}
	s.Closing, s.Head, s.HeadTree, s.LandedUSD = &landed, landed.OID, landed.Tree, s.Usage.CostUSD
	s.ProgressPath = place
	return e.finish(s, reason, "")
}

// maxArchived bounds the plans of one name and day that the archive holds.
const maxArchived = 100

// archive puts progress.md as it ended into the archive of a tree. Its folder is named
// by the day on which the run began and by the plan.
func (e *Engine) archive(ctx context.Context, s *State, tree string) (archived, place string, _ error) {
	doc, err := s.document(s.Progress)
	if err != nil {
		return "", "", fmt.Errorf("read the accepted progress: %w", err)
	}
	if err := doc.SetStatus(progress.StatusDone); err != nil {
		return "", "", fmt.Errorf("set the status: %w", err)
	}
	dir := fmt.Sprintf(".ralph/archive/%s-%s", s.StartedAt.UTC().Format(time.DateOnly), path.Base(path.Dir(s.ProgressPath)))
	for n := 1; n <= maxArchived; n++ {
		if place = dir + "/progress.md"; n > 1 {
			place = fmt.Sprintf("%s-%d/progress.md", dir, n)
		}
		_, taken, err := e.Trees.File(ctx, tree, place, progress.MaxSize)
		if err != nil {
			return "", "", fmt.Errorf("look into the archive: %w", err)
		}
		if !taken {
			break
		}
	}
	if archived, err = e.Trees.With(ctx, tree, place, doc.Bytes()); err != nil {
		return "", "", fmt.Errorf("archive %s: %w", s.ProgressPath, err)
	}
	return archived, place, nil
}

// markDone sets the status of a file that stays, where that waited for the final
// checks.
func (e *Engine) markDone(ctx context.Context, s *State) error {
	doc, err := s.document(s.Progress)
	if err != nil {
		return fmt.Errorf("read the accepted progress: %w", err)
	}
	if doc.MarkedDone() || len(s.Commits) == 0 {
		return nil
	}
	if err := doc.SetStatus(progress.StatusDone); err != nil {
		return fmt.Errorf("set the status: %w", err)
	}
	s.Progress = s.text(doc)
	return e.commitProgress(ctx, s)
}

// end records what is worth remembering, tells people, and closes the run.
func (e *Engine) end(ctx context.Context, s *State) (Next, error) {
	if err := e.haltLanes(ctx, s, "the run ended"); err != nil {
		return Next{}, err
	}
	if err := e.forget(ctx, s); err != nil {
		return Next{}, err
	}
	if !s.End.Complete() && s.End != run.EndPlanned && len(s.Commits) > 0 {
		// On a machine that has no tree of the run, the notes are not worth making one: people are
		// told of the end all the same.
		if err := e.commitProgress(ctx, s); err != nil && !errors.Is(err, ErrNoWorkTree) {
			return Next{}, err
		}
	}
	s.Phase = s.End.Phase()
	s.EndedAt = e.Now()
	again, err := e.publish(ctx, s)
	if err != nil {
		return Next{}, err
	}
	if again {
		return e.resumed(s)
	}
	e.TellEnd(*s)
	return Next{Kind: Done}, nil
}

// TellEnd tells whoever watches that the run has ended. Step does; it is for
// doors that give up on a run whose end could not be published.
func (e *Engine) TellEnd(s State) {
	ended := s.EndedAt
	if ended.IsZero() {
		ended = e.Now()
	}
	e.emit(run.Event{
		Kind: run.EventRunEnded, End: s.End, Proof: s.Proof(), Text: s.EndDetail, Duration: ended.Sub(s.StartedAt),
	}, &s)
}

// resumed is what becomes of a run that was about to end when people's edits of
// the task list were found: work that they added is worked, where the run ended
// for want of any.
func (e *Engine) resumed(s *State) (Next, error) {
	s.Phase, s.EndedAt = run.PhaseFinishing, time.Time{}
	doc, err := s.document(s.Progress)
	if err != nil {
		return Next{}, fmt.Errorf("read the accepted progress: %w", err)
	}
	if done, total := progress.Counts(doc.Tasks()); s.End.Complete() && done < total {
		s.End, s.EndDetail, s.Closing = "", "", nil
		s.Phase, s.Stage = run.PhaseIterating, stagePick
	}
	return Next{}, nil
}

// commitProgress commits the progress file of a run that stopped short, so that the
// next one knows which tasks are blocked and what was tried.
func (e *Engine) commitProgress(ctx context.Context, s *State) error {
	doc, err := s.document(s.Progress)
	if err != nil {
		return fmt.Errorf("read the accepted progress: %w", err)
	}
	if err := e.WorkTree.Reset(ctx, s.HeadTree); err != nil {
		return fmt.Errorf("reset the work tree: %w", err)
	}
	if err := e.WorkTree.WriteProgress(ctx, s.ProgressPath, doc); err != nil {
		return fmt.Errorf("write %s: %w", s.ProgressPath, err)
	}
	tree, _, err := e.WorkTree.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read the work tree: %w", err)
	}
	tree, own, err := e.writeBack(ctx, s, tree, doc, "")
	if err != nil {
		return err
	}
	if tree == s.HeadTree {
		return nil
	}
	landed, err := e.Publisher.Land(ctx, Landing{
		State: *s, Iteration: s.Iteration, Tree: tree, Own: own, Model: s.SeenModel, CostUSD: s.Usage.CostUSD - s.LandedUSD,
		Recorded: true,
	})
	var rejected *Rejection
	var halt *Halt
	if errors.Is(err, ErrBranchMoved) || errors.Is(err, ErrNotAllowed) || errors.As(err, &rejected) ||
		errors.As(err, &halt) {
		return nil // the notes are not worth more than that
	}
	if err != nil {
		return fmt.Errorf("land the record: %w", err)
	}
	s.HeadTree, s.LandedUSD = landed.Tree, s.Usage.CostUSD
	if landed.OID != "" {
		s.Commits = append(s.Commits, landed)
		s.Head = landed.OID
	}
	return nil
}

func (e *Engine) emit(ev run.Event, s *State) {
	if e.Emit == nil {
		return
	}
	ev.Time, ev.Run, ev.Subject, ev.Iteration, ev.CostUSD = e.Now(), s.Run, s.Subject.Name, s.Iteration, s.Usage.CostUSD
	ev.Iterations, ev.Plannings, ev.Tokens, ev.Notices = s.Iterations(), s.plannings(), s.Usage.Tokens(), s.Notices
	switch ev.Kind { //nolint:exhaustive // the others leave the tasks as they are
	case run.EventRunStarted, run.EventPlanned, run.EventIteration, run.EventAgentStarted, run.EventGateStarted,
		run.EventAttemptFailed, run.EventTaskDone, run.EventTaskBlocked, run.EventEdited, run.EventRunEnded:
		ev.Tasks = s.standings()
	}
	e.Emit(ev)
}

// standings are the tasks as they stand at this moment.
func (s *State) standings() []run.Task {
	doc, err := s.document(s.Progress)
	if err != nil {
		return nil // it is told where it matters
	}
	tasks := doc.Tasks()
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
