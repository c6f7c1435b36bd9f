package loop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// prepareAgent notes the intent to start an agent for a job, and the task it is
// about, if any. The start itself is the next step.
func (e *Engine) prepareAgent(s *State, job prompt.Job, role run.Role, task string) (Next, error) {
	s.prepare(job, role, task, e.Now())
	s.Proposal = nil
	return Next{}, nil
}

func (s *State) prepare(job prompt.Job, role run.Role, task string, now time.Time) {
	s.Job, s.Role, s.TaskID = job, role, task
	s.prepareProcess(ProcessAgent, now)
	s.Stage = stageStart
	if s.Began = ""; s.WorkTree > 0 {
		s.Began = s.Progress
	}
}

// prepareProcess notes the intent to start a process. The start itself is the next step, so
// that after a crash the same name finds the same process.
func (s *State) prepareProcess(kind ProcessKind, now time.Time) {
	s.Starts++
	s.Process = &Process{Kind: kind, Name: processName(*s), StartedAt: now}
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

func processName(s State) string { return fmt.Sprintf("%s-%d", s.Run, s.Starts) }

// start makes the prompt and starts the agent on the accepted progress.
func (e *Engine) start(ctx context.Context, s *State) (Next, error) {
	doc, err := progress.Parse([]byte(cmp.Or(s.Began, s.Progress)))
	if err != nil {
		return Next{}, fmt.Errorf("read the progress that the agent is to find: %w", err)
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
	attempt := s.Plannings + 1
	if s.TaskID != "" {
		if task, err = findTask(doc, s.TaskID); err != nil {
			return Next{}, err
		}
		attempt = s.Attempts[s.TaskID] + s.of(s.TaskID).Partial + 1
	}
	diff := ""
	if s.Job == prompt.JobReview {
		attempt = s.Reviews
		if diff, err = e.Work.Patch(ctx, s.BaseTree, s.HeadTree, maxReviewDiff); err != nil {
			return Next{}, fmt.Errorf("read the whole change: %w", err)
		}
		diff = cmp.Or(diff, "The changes take too long to compare. Read the files.")
	}
	gates := s.Checks()
	commands := make([]string, 0, len(gates))
	for _, g := range gates {
		commands = append(commands, g.Command)
	}
	names, err := e.Work.Names(ctx, s.HeadTree)
	if err != nil {
		return Next{}, fmt.Errorf("look at the project: %w", err)
	}
	text, err := prompt.Render(s.Templates, prompt.Input{
		Project: prompt.Project(names),
		Job:     s.Job, Role: s.Role, PlanName: s.Subject.Name, PlanFile: s.Subject.PlanFile, ProgressFile: s.ProgressPath,
		PlanText: s.Plan.Words(), Accept: s.Plan.Accept, Guidance: s.Guidance, Task: task, Progress: doc, Attempt: attempt,
		LastFailure: s.Failure, Violations: s.Violations, GateCommands: commands, Left: e.left(*s), Nonce: nonce(*s),
		Tried: attemptsAt(doc, s.TaskID), MergedNotes: s.MergedNotes, Files: s.filesToRead(), Diff: diff,
		Said:       s.quotes(s.TaskID),
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
	e.emit(run.Event{
		Kind: run.EventAgentStarted, Role: s.Role, TaskID: task.ID,
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

// attemptsAt are the recorded attempts at a task.
func attemptsAt(doc *progress.Doc, id string) []progress.Attempt {
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

// watch looks at the agent; when it has ended, the outcome decides.
func (e *Engine) watch(ctx context.Context, s *State) (Next, error) {
	status, err := e.Runner.ObserveAgent(ctx, s.Process.Handle)
	if errors.Is(err, ErrGone) || errors.Is(err, ErrLost) {
		s.Usage = s.Usage.Add(status.Usage) // what it cost is known all the same
		return e.repeatLost(ctx, s, errors.Is(err, ErrGone))
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
		Number: s.Number, TaskID: s.TaskID, Role: s.Role, Verdict: s.Verdict, StartedAt: status.Started,
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
	s.Stage = stagePropose
	if s.Job == prompt.JobVerify && status.Outcome.ownEnd() {
		s.Strikes, s.Idle, s.Waits, s.Crowded = 0, 0, 0, 0
		e.takeAnswer(s, status)
		return Next{}, nil
	}
	left, refused, err := e.Work.Snapshot(ctx)
	if err != nil {
		return Next{}, fmt.Errorf("read the work tree: %w", err)
	}
	switch {
	case status.Outcome.ownEnd():
		s.Strikes, s.Idle, s.Waits, s.Crowded = 0, 0, 0, 0
		leftOut := e.nameLeftOut(s, refused)
		refused = slices.DeleteFunc(refused, func(r Refusal) bool { return r.LeftOut })
		s.takeProposal(status, left, refused)
		s.Proposal.LeftOut = leftOut
	case slices.Contains([]Outcome{AgentRateLimited, AgentOverBudget, AgentOverTaskBudget, AgentCrowded, AgentBroken},
		status.Outcome):
		s.Ended = &status
		s.Ended.Final = ""
		s.Laid, err = e.keepTaskFile(ctx, s, left)
		return Next{}, err
	default:
		return Next{}, fmt.Errorf("agent ended with unknown outcome %q", status.Outcome)
	}
	return Next{}, nil
}

// ownEnd says whether a call came to an end of its own, so that there is something to look at.
func (o Outcome) ownEnd() bool { return o == AgentCompleted || o == AgentGaveUp || o == AgentTimedOut }

// repeatLost goes on where nobody can tell how the agent ended: the iteration is
// repeated, but not for ever. gone: nothing of it is left, not even what it changed.
func (e *Engine) repeatLost(ctx context.Context, s *State, gone bool) (Next, error) {
	if err := e.lookAround(ctx, s); err != nil {
		return Next{}, err
	}
	if !gone {
		if s.Lost++; s.Lost <= maxLost {
			return e.again(s)
		}
		s.Ended = &AgentStatus{
			Outcome: AgentBroken, Detail: "its process was lost: something ended it from outside, or it ended its own parent",
		}
		s.Stage = stagePropose
		return Next{}, nil
	}
	if s.Job == prompt.JobBuild {
		s.Draft = Seen{
			Number: s.Number, TaskID: s.TaskID, Role: s.Role, Outcome: AgentBroken, Class: FailCrash, Verdict: s.Verdict,
		}
		s.endRecord()
	}
	if s.Gone++; s.Gone <= maxGone {
		return e.again(s)
	}
	s.Ended = &AgentStatus{Outcome: AgentBroken, Detail: "its process was gone each time"}
	s.Gone, s.Stage = 0, stagePropose
	return Next{}, nil
}

// maxLeftOut bounds the directories that are left out and told by name.
const maxLeftOut = 5

// maxRefused bounds the paths that are kept and told by name of those that cannot be stored.
const maxRefused = 50

// nameLeftOut tells people, in a line, which directories are left out of the work: those that tools make.
// The line is returned where it is new, for the agent.
func (e *Engine) nameLeftOut(s *State, refused []Refusal) string {
	var left []string
	for _, r := range refused {
		if r.LeftOut {
			left = append(left, r.Path+" ("+r.Reason+")")
		}
	}
	if len(left) == 0 {
		return ""
	}
	f := gate.Finding{Rule: "left_out", Text: "left out of the work: " + strings.Join(left, ", ")}
	if more := len(left) - maxLeftOut; more > 0 {
		f.Text = fmt.Sprintf("left out of the work: %s and %d more", strings.Join(left[:maxLeftOut], ", "), more)
	}
	if !e.tell(s, run.EventPersonNotified, f) {
		return ""
	}
	return f.Text
}

// takeProposal takes what the agent left behind, and says of it, as the proposal.
func (s *State) takeProposal(status AgentStatus, left string, refused []Refusal) {
	s.Proposal = &Proposal{
		Final: oneLine(prompt.Prose(status.Final), maxFinal),
		Left:  left, Refused: refused[:min(len(refused), maxRefused)],
	}
	s.Proposal.Note = oneLine(status.Detail, 300)
	if status.Outcome != AgentCompleted {
		s.Proposal.Failed = "The last call did not end well: " + oneLine(status.Detail, 600) + "."
	}
	if s.Job == prompt.JobBuild || s.Job == prompt.JobPlan {
		s.Failure = s.Proposal.Failed // else it still says why the task failed
	}
	if s.Job == prompt.JobBuild || s.Job == prompt.JobPlan {
		s.Proposal.Claim = prompt.ReadClaim(status.Final, s.Promise)
	}
}
