package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// leftProgress is progress.md as the agent left it, nil where there is none that can be
// read: unreadable then says why, and is "" where there is none at all.
func (e *Engine) leftProgress(ctx context.Context, s *State) (_ *progress.Doc, unreadable string, _ error) {
	if all := s.Proposal.refusesAll(); all != nil {
		return nil, all.Reason, nil
	}
	for _, r := range s.Proposal.Refused {
		if s.holdsProgress(r.Path) {
			return nil, r.Reason, nil
		}
	}
	return e.readProgress(ctx, s.Proposal.Left, s.ProgressPath)
}

// refusesAll is why nothing of the work tree could be stored, nil where it could.
func (p *Proposal) refusesAll() *Refusal {
	for i := range p.Refused {
		if p.Refused[i].Path == "." {
			return &p.Refused[i]
		}
	}
	return nil
}

// readProgress reads a progress file of a tree; see [Work].
func (e *Engine) readProgress(ctx context.Context, tree, path string) (*progress.Doc, string, error) {
	doc, unreadable, err := e.Work.Progress(ctx, tree, path)
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", path, err)
	}
	return doc, unreadable, nil
}

// holdsProgress says whether path is that of progress.md, or stands where its folder should.
func (s *State) holdsProgress(path string) bool {
	return path == s.ProgressPath || strings.HasPrefix(s.ProgressPath, path+"/")
}

// judge takes what is the agent's own to say in progress.md.
func (e *Engine) judge(ctx context.Context, s *State) error {
	before := s.doc()
	after, unreadable, err := e.leftProgress(ctx, s)
	if err != nil {
		return err
	}
	found, err := s.found()
	if err != nil {
		return err
	}
	verdict := progress.Judge(found, before, after, s.TaskID)
	fresh := newTasks(before, verdict.Accepted)
	s.noteAuthor(run.Task{}, fresh...)
	if err := s.await(verdict.Accepted, fresh); err != nil {
		return err
	}
	if s.Promise != "" {
		for _, id := range fresh {
			if err := verdict.Accepted.Skip(id, "this run has one prompt and no other tasks"); err != nil {
				return fmt.Errorf("leave %s out: %w", id, err)
			}
		}
	}
	s.Violations = verdict.Violations
	if s.Proposal.LeftOut != "" {
		s.Violations = append(s.Violations, s.Proposal.LeftOut+
			": where the work needs one of them, take it back in by a rule with ! in .gitignore")
	}
	s.accept(verdict.Accepted)
	said := s.Proposal.Claim
	ticked := (verdict.TickedAssigned || verdict.ClaimedDone) && s.Promise == "" // a tick is no promise
	if ticked {
		said = said.Ticked()
	}
	s.Draft.ClaimedDone = said.Kind == prompt.ClaimDone || ticked
	p := s.Proposal
	p.Claim = said
	if unreadable != "" {
		what := "the progress file was not a plain, readable file, so it was restored: " + oneLine(unreadable, 200)
		s.Violations = append(s.Violations, what)
		p.Note = strings.TrimPrefix(p.Note+"; "+what, "; ")
	}
	return nil
}

// found is progress.md as the agent found it.
func (s *State) found() (*progress.Doc, error) {
	if s.Began == "" {
		return s.doc(), nil
	}
	found, err := progress.Parse([]byte(s.Began))
	if err != nil {
		return nil, fmt.Errorf("read the progress that the agent found: %w", err)
	}
	return found, nil
}

// newTasks are the ids of the tasks in after that before does not have.
func newTasks(before, after *progress.Doc) (ids []string) {
	for _, t := range after.Tasks() {
		if _, ok := before.Task(t.ID); !ok {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// completeProgress gives the progress file as it will be once this task has landed: its
// box ticked, what was done noted, its failed attempts gone. The note is for the log.
func (e *Engine) completeProgress(s *State, accepted *progress.Doc, note string) (*progress.Doc, error) {
	doc := accepted.Clone()
	task, err := findTask(doc, s.TaskID)
	if err != nil {
		return nil, err
	}
	if err := doc.Tick(s.TaskID); err != nil {
		return nil, fmt.Errorf("tick %s: %w", s.TaskID, err)
	}
	if err := doc.SetCompleted([]string{task.ID + " " + task.Title}); err != nil {
		return nil, fmt.Errorf("note what was completed: %w", err)
	}
	if err := s.clearAttempts(doc); err != nil {
		return nil, fmt.Errorf("clear the attempts: %w", err)
	}
	if err := e.appendLog(s, doc, task.ID, note); err != nil {
		return nil, err
	}
	done, total := progress.Counts(doc.Tasks())
	if done == total && !e.finalGates(*s) {
		if err := doc.SetStatus(progress.StatusDone); err != nil {
			return nil, fmt.Errorf("set the status: %w", err)
		}
	}
	return doc, nil
}

// clearAttempts takes out the failed attempts, but for those at tasks that are worked
// beside this one.
func (s *State) clearAttempts(doc *progress.Doc) error {
	var others []progress.Attempt
	for _, a := range doc.Attempts() {
		id, _, _ := strings.Cut(a.Tried, " ")
		if slices.ContainsFunc(s.Calls, func(c Call) bool { return c.TaskID == id }) {
			others = append(others, a)
		}
	}
	if err := doc.ClearSection(progress.SectionAttempts); err != nil {
		return err
	}
	for _, a := range others {
		if err := doc.RecordAttempt(a); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) appendLog(s *State, doc *progress.Doc, completed, note string) error {
	row := progress.LogRow{Iteration: s.Number, Completed: completed, Notes: note}
	if at := s.last(); at >= 0 {
		row.Started, row.Duration = s.History[at].StartedAt, s.History[at].Duration
	}
	if err := doc.AppendLog(row); err != nil {
		return fmt.Errorf("append to the iteration log: %w", err)
	}
	return nil
}

// takeTasks gives the tasks of a call that was to write some, whose notes are taken.
func (e *Engine) takeTasks(ctx context.Context, s *State) ([]run.Task, error) {
	after, _, err := e.leftProgress(ctx, s)
	if err != nil {
		return nil, err
	}
	found, err := s.found()
	if err != nil {
		return nil, err
	}
	verdict := progress.JudgeAdded(found, s.doc(), after)
	s.accept(verdict.Accepted)
	if s.Proposal.Failed != "" {
		return nil, nil // half a list would pass for the whole
	}
	return verdict.Added, nil
}

// splitChanges separates the work from the run's own folder, whose only file
// is progress.md and is judged by its content. Anything else the agent did
// below .ralph/ belongs to other runs or steers this one.
func splitChanges(changes []Change, own string) (code []Change, foreign []Refusal) {
	for _, c := range changes {
		switch {
		case c.Path == own+"/progress.md":
		case strings.HasPrefix(c.Path, ".ralph/"):
			foreign = append(foreign, Refusal{Path: c.Path, Reason: "only the run's own progress file may change below .ralph/"})
		default:
			code = append(code, c)
		}
	}
	return code, foreign
}

// reject fails the attempt for what must not even be looked at, and takes the work tree back
// to the last good one, since what is refused must not linger in it.
func (e *Engine) reject(ctx context.Context, s *State, refused []Refusal) (Next, error) {
	if err := e.layOut(ctx, s, s.HeadTree); err != nil {
		return Next{}, err
	}
	s.Draft.Change = "" // nothing of it is kept
	return e.failed(ctx, s, "The last call's changes to these paths cannot be accepted, so the files were restored: "+
		listRefusals(refused)+".", failure{Refused: true})
}

// fail notes a failed attempt at the task, where the next one reads it. After
// the last attempt the task is blocked and the tree goes back to the last good
// one, so that the next task starts clean.
func (e *Engine) fail(ctx context.Context, s *State, why string) (Next, error) {
	return e.failed(ctx, s, why, failure{})
}

// maxTried bounds what is noted of a failed attempt, in bytes: enough for the
// lines that tell what failed.
const maxTried = 800

// withObjection is why an attempt failed and, where that was not for a check, what a
// check had said before: a call that did nothing has fixed nothing.
func (s *State) withObjection(why string, f failure) string {
	if f.Check != nil {
		s.Objection = why
		return why
	}
	if s.Objection == "" {
		return why
	}
	return why + "\n\nAn earlier check failure that is not fixed yet:\n\n" + s.Objection
}

// failed is fail with what is known of the failure besides the agent's part.
func (e *Engine) failed(ctx context.Context, s *State, why string, f failure) (Next, error) {
	detail := ""
	if s.Proposal != nil {
		detail = s.Proposal.Note
	}
	kept := e.keepRefused(ctx, s, why)
	s.blame(f, why, detail)
	s.endRecord()
	s.dropCall()
	s.Attempts[s.TaskID]++
	s.Failure = s.withObjection(why, f)
	short := oneLine(why, 300)
	s.lastCall(func(it *Iteration) { it.Note = short })
	doc := s.doc()
	task, err := findTask(doc, s.TaskID)
	if err != nil {
		return Next{}, err
	}
	if err := doc.RecordAttempt(progress.Attempt{
		Iteration: s.Number, Tried: task.ID + " " + task.Title, Result: oneLine(why, maxTried),
		Next: "fix what failed before anything else",
	}); err != nil {
		return Next{}, fmt.Errorf("record the attempt: %w", err)
	}
	if err := e.appendLog(s, doc, "", short); err != nil {
		return Next{}, err
	}
	ev := run.Event{Kind: run.EventAttemptFailed, TaskID: task.ID, Text: short, Kept: kept}
	if f.Check != nil {
		head, _, _ := strings.Cut(why, " It printed:\n\n")
		ev.Text, ev.Gate, ev.Lines = oneLine(head, 300), f.Check.Gate, gate.FailureLines(f.Check.Output)
	}
	e.emit(ev, s)
	s.accept(doc)
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	if s.Limits.TaskAttempts > 0 && s.Attempts[s.TaskID] >= s.Limits.TaskAttempts {
		// Whatever the run stops for next, people should find the task blocked.
		if d := s.decide(task); d.Verdict == VerdictGiveUp {
			e.tellVerdict(s, task, d)
			return e.giveUp(ctx, s, doc, task.ID, d)
		}
	}
	return Next{}, nil
}

// keepRefused keeps what the call at hand changed where people can look at it, and
// says whether it is there. It costs the run nothing where that fails.
func (e *Engine) keepRefused(ctx context.Context, s *State, why string) bool {
	if e.KeepAttempt == nil || s.Draft.Change == "" || s.TaskID == "" {
		return false
	}
	a := FailedAttempt{
		Run: s.Run, Iteration: s.Number, Head: s.Head, From: s.HeadTree, Why: oneLine(why, maxTried),
	}
	a.Task, _ = s.doc().Task(s.TaskID)
	kept, err := e.keepAttempt(ctx, s, a)
	if err != nil {
		e.emit(run.Event{
			Kind: run.EventTrouble, TaskID: s.TaskID, Text: "the refused work could not be kept: " + err.Error(),
		}, s)
	}
	return kept
}

// keepAttempt keeps a failed attempt together with the run's notes as they were before it; not
// one that holds a secret.
func (e *Engine) keepAttempt(ctx context.Context, s *State, a FailedAttempt) (kept bool, err error) {
	plain, err := e.withoutNotes(ctx, s.HeadTree)
	if err != nil {
		return false, err
	}
	leaks, err := e.Work.Secrets(ctx, plain, s.Draft.Change)
	if err != nil || len(leaks) > 0 {
		return false, err
	}
	if a.To, _, err = e.Work.Fold(ctx, plain, s.HeadTree, s.Draft.Change); err != nil {
		return false, err
	}
	return e.KeepAttempt(ctx, a)
}
