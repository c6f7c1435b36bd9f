package loop

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// RuleAlready is the rule of findings about what was there already.
const RuleAlready = "already"

const (
	// maxVerified bounds how many calls look at a task that is claimed again and again without a change.
	maxVerified = 2
	// maxCriteria bounds what one call is asked.
	maxCriteria = 20
)

// needsLook says whether somebody has to look at the proposal before it lands,
// now that its checks pass.
func (e *Engine) needsLook(s *State, task run.Task) bool {
	p := s.Proposal
	switch {
	case p.Answer != nil:
		return false
	case p.Host:
		return len(task.Accept) > 0 || !s.hasProof()
	default:
		return p.Already || p.Idle
	}
}

// verify has a fresh call look at the task as the tree stands. It is a part of the
// iteration that proposed it.
func (e *Engine) verify(s *State, task run.Task) (Next, error) {
	p := s.Proposal
	p.Criteria = task.Accept
	if len(p.Criteria) == 0 {
		p.Criteria = append([]string{task.Title}, task.Steps...)
	}
	p.Criteria = p.Criteria[:min(len(p.Criteria), maxCriteria)]
	s.record(task.ID).Verified++
	s.prepare(prompt.JobVerify, run.RoleReviewer, task.ID, e.Now())
	return Next{}, nil
}

// requireLook acts on a claim without a change of the call's own; handled is false where the checks run and then a
// call looks whether the task is done. Two such calls look at the same tree at most; then a person is asked where the
// claim names a file that is there: it may be true.
func (e *Engine) requireLook(ctx context.Context, s *State, c *candidate) (_ Next, handled bool, _ error) {
	if s.of(c.task.ID).Verified < maxVerified {
		return Next{}, false, nil
	}
	there, err := e.existing(ctx, c.tree, namedPath().FindAllString(s.Proposal.Final, maxNamed))
	if err != nil {
		return Next{}, false, err
	}
	if len(there) == 0 {
		next, err := e.failed(ctx, s, "The last call said that the task is done, but changed no file and named none "+
			"where it was done before.", failure{Unchanged: true})
		return next, true, err
	}
	s.endRecord()
	next, err := e.askPerson(ctx, s, c.accepted, s.TaskID,
		"Is it done? The agent says so; two other calls that looked did not confirm it: "+s.Proposal.Final)
	return next, true, err
}

// takeAnswer takes what a call says that looked at a task.
func (e *Engine) takeAnswer(s *State, status AgentStatus) {
	p := s.Proposal
	answer := prompt.ReadVerification(status.Final, len(p.Criteria))
	if status.Outcome != AgentCompleted {
		answer = prompt.Verification{Objection: "the verifying call failed: " + oneLine(status.Detail, maxEvidence)}
		s.record(s.TaskID).Verified-- // it has seen nothing
	}
	p.Answer = &answer
}

// takeVerification acts on the answer of a call that looked at the task. What else it did
// is thrown away.
func (e *Engine) takeVerification(ctx context.Context, s *State) (Next, error) {
	if err := e.layOut(ctx, s, s.Proposal.Work); err != nil {
		return Next{}, err
	}
	s.Job, s.Draft = prompt.JobBuild, s.Proposal.Draft
	p := s.Proposal
	task, err := e.task(s)
	if err != nil {
		return Next{}, err
	}
	answer := *p.Answer
	if answer.Agreed {
		if answer.Objection, err = e.checkEvidence(ctx, p.Tree, answer); err != nil {
			return Next{}, err
		}
		answer.Agreed = answer.Objection == ""
	}
	p.Answer = &answer
	if !answer.Agreed {
		if s.Proposal.Host {
			return e.fixFirst(ctx, s, task, "what it asks for is missing", answer.Objection)
		}
		why := "Another agent call verified the task and disagrees: " + answer.Objection
		if p.Note != "" {
			why += " Also: " + p.Note + "."
		}
		return e.failed(ctx, s, why, failure{Unchanged: p.Already})
	}
	return e.landConfirmed(ctx, s)
}

// landConfirmed lets a proposal land that the evidence speaks for, and notes that
// evidence where people and later calls find it.
func (e *Engine) landConfirmed(ctx context.Context, s *State) (Next, error) {
	p := s.Proposal
	if p.Already {
		said := make([]string, 0, len(p.Answer.Answers))
		for _, a := range p.Answer.Answers {
			said = append(said, a.Evidence)
		}
		note := "was already done: " + oneLine(strings.Join(said, "; "), maxEvidence)
		doc, err := e.completeProgress(s, s.doc(), note)
		if err != nil {
			return Next{}, err
		}
		if p.Tree, err = e.Work.With(ctx, p.Tree, s.ProgressPath, doc.Bytes()); err != nil {
			return Next{}, fmt.Errorf("note the evidence: %w", err)
		}
		p.Progress = string(doc.Bytes())
		s.find(RuleAlready, s.TaskID+" "+note+". Nothing was changed for it.")
		e.emit(run.Event{Kind: run.EventPersonNotified, TaskID: s.TaskID, Text: s.TaskID + " " + note}, s)
	}
	s.Stage = stageLand
	return Next{}, nil
}

var (
	// placeInFile finds what may be a file with a line in evidence.
	placeInFile = strs.Lazy(`([\w./@+-]*[\w-]):(\d{1,7})\b`)
	// onlyFile matches what can be nothing else, unlike a clock time and a host with a port.
	onlyFile = strs.Lazy(`^(?:[^/].*/.*|\D.*\.[A-Za-z]\w*)$`)
)

// Bounds of the places that evidence names.
const (
	maxPlaces       = 5
	maxEvidenceFile = 4 << 20 // bytes of a file
)

// checkEvidence says what is wrong with the evidence of an answer that agrees, "" for nothing: none of
// the places that it names exists, or it names neither a place nor a command between backticks.
func (e *Engine) checkEvidence(ctx context.Context, tree string, v prompt.Verification) (string, error) {
	for i, a := range v.Answers {
		places := placeInFile().FindAllStringSubmatch(a.Evidence, maxPlaces)
		found, files := false, false
		for _, p := range places {
			line, err := strconv.Atoi(p[2])
			if err != nil {
				continue
			}
			src, ok, err := e.Work.File(ctx, tree, strings.TrimPrefix(p[1], "./"), maxEvidenceFile)
			if err != nil {
				return "", fmt.Errorf("read %q of the tree: %w", p[1], err)
			}
			files = files || onlyFile().MatchString(p[1])
			found = found || ok && line >= 1 && line <= strings.Count(string(src), "\n")+1
		}
		if command := strings.Count(a.Evidence, "`") >= 2; !found && (files || !command) {
			return fmt.Sprintf("the answer to criterion %d names neither a line that exists nor a command: %s", i+1,
				oneLine(a.Evidence, 200)), nil
		}
	}
	return "", nil
}

// namedPath finds what may be the path of a file in a text.
var namedPath = strs.Lazy(`[\w.-]+(?:/[\w.-]+)*\.\w{1,8}\b`)

// maxNamed bounds the paths of a text that are looked up.
const maxNamed = 20

// existing are the names that a tree has a file of.
func (e *Engine) existing(ctx context.Context, tree string, names []string) ([]string, error) {
	var found []string
	for _, name := range names {
		name = strings.TrimPrefix(name, "./")
		if slices.Contains(found, name) {
			continue
		}
		_, ok, err := e.Work.File(ctx, tree, name, maxEvidenceFile)
		if err != nil {
			return nil, fmt.Errorf("read %q of the tree: %w", name, err)
		}
		if ok {
			found = append(found, name)
		}
	}
	return found, nil
}

// hostTask begins a task that the host does itself: it runs all checks and those of
// the tasks of its phase, and changes nothing.
func (e *Engine) hostTask(ctx context.Context, s *State, task run.Task) (Next, error) {
	if err := e.layOut(ctx, s, s.HeadTree); err != nil {
		return Next{}, err
	}
	const note = "the host runs the checks itself"
	at := e.Now()
	s.nextIteration()
	s.dropCall()
	s.Brief = Brief{}
	s.Job, s.Role, s.TaskID, s.Verdict = prompt.JobBuild, run.RoleReviewer, task.ID, VerdictProceed
	s.addCall(Iteration{
		Number: s.Number, TaskID: task.ID, Role: s.Role, Verdict: s.Verdict,
		StartedAt: at, Outcome: string(AgentCompleted), Note: note,
	})
	s.beginRecord(AgentStatus{Outcome: AgentCompleted, Started: at, Finished: at})
	s.Proposal = &Proposal{Host: true, Note: note, Left: s.HeadTree} // of the tree as it is
	s.Stage = stagePropose
	e.emit(run.Event{
		Kind: run.EventIteration, TaskID: task.ID, Text: note,
	}, s)
	return Next{}, nil
}

// phaseChecks are the checks that the tasks before a task of the host's own brought
// along, in its phase, and its own.
func phaseChecks(tasks []run.Task, own run.Task) []string {
	var out []string
	for _, t := range tasks {
		if t.ID != own.ID && (t.Group != own.Group || t.Status != run.TaskDone) {
			continue
		}
		for _, c := range t.Checks {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// fixFirst puts a task that fixes what was found before a task of the host's own,
// which is looked at again after it, a few times.
func (e *Engine) fixFirst(ctx context.Context, s *State, task run.Task, what, why string) (Next, error) {
	doc := s.doc()
	s.dropCall()
	s.Draft = Seen{} // nobody has tried anything
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	s.record(task.ID).Reopened++
	if s.of(task.ID).Reopened > maxReopen {
		s.Failure = why
		reason := fmt.Sprintf("after %d tasks to fix it, %s", maxReopen, what)
		return e.giveUp(ctx, s, doc, task.ID, Decision{
			Reason:      reason,
			Diagnostics: fmt.Sprintf("%s was given up: %s.\n\n%s\n", task.ID, reason, why),
		})
	}
	// A person's approval covers this task. So it says what the approved one asks for; what
	// an agent or a check said of it is told to the next call, and is no part of the plan.
	fix := run.Task{
		Title: fmt.Sprintf("Fix what %s found: %s", task.ID, what), Priority: task.Priority, Group: task.Group,
		Accept: slices.Clone(task.Accept), Checks: task.Checks,
	}
	if len(fix.Accept) == 0 {
		fix.Accept = []string{task.Title}
	}
	tasks := doc.Tasks()
	var id string
	var err error
	if i := slices.IndexFunc(tasks, func(t run.Task) bool { return t.ID == task.ID }); i > 0 {
		id, err = doc.InsertAfter(tasks[i-1].ID, fix)
	} else {
		fix.Priority = 1
		id, err = doc.AddTask(fix)
	}
	if err != nil {
		return Next{}, fmt.Errorf("add a task: %w", err)
	}
	s.noteAuthor(s.person(task), id)
	if err := e.appendLog(s, doc, "", fmt.Sprintf("%s: %s", task.ID, what)); err != nil {
		return Next{}, err
	}
	if err := s.amend(doc); err != nil {
		return Next{}, err
	}
	e.emit(run.Event{
		Kind: run.EventPlanned, TaskID: task.ID,
		Text: fmt.Sprintf("%s: %s; a task to fix that comes first", task.ID, what),
	}, s)
	s.Failure = why
	s.Objection = why
	s.TaskID = id // or the check would come again first, where it has a priority of its own
	return Next{}, nil
}
