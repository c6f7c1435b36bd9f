package loop

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/claim"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/supervise"
)

// RuleAlready is the rule of findings about what was there already.
const RuleAlready = "already"

const (
	// maxVerified bounds how many calls look at a task that is claimed without a change.
	maxVerified = 2
	// maxCriteria bounds what one call is asked.
	maxCriteria = 20
)

// unverified says whether somebody has to look at the proposal before it lands,
// now that its checks pass.
func (e *Engine) unverified(s *State, task run.Task) bool {
	p := s.Proposal
	switch {
	case p.Answer != nil:
		return false
	case p.Host:
		return len(task.Accept) > 0 || !s.proven()
	default:
		return p.Already || p.Idle || s.VerifyTasks
	}
}

// verify has a fresh call look at the task as the tree stands. It is a part of the
// iteration that proposed it.
func (e *Engine) verify(s *State, task run.Task) (Next, error) {
	p := *s.Proposal
	p.Criteria = task.Accept
	if len(p.Criteria) == 0 {
		p.Criteria = append([]string{task.Title}, task.Steps...)
	}
	p.Criteria = p.Criteria[:min(len(p.Criteria), maxCriteria)]
	s.Verified[task.ID]++
	s.prepare(prompt.JobVerify, run.RoleReviewer, task.ID)
	s.Proposal = &p
	return Next{}, nil
}

// mayLook says whether one call more may look at what the last one claims.
func (s *State) mayLook(tasks []run.Task, task run.Task, looks int) bool {
	h := s.watchedHistory(tasks, task)
	draft := s.Draft.Bounded()
	draft.Looks = looks
	h.Iterations = append(slices.Clip(h.Iterations), draft)
	return supervise.MayLook(s.Supervision, h)
}

// idle says whether the candidate's own call changed nothing that could do the task, and nobody but it speaks for
// what earlier calls left: they did not call it done, or no check has failed on it and passed since.
func (e *Engine) idle(ctx context.Context, s *State, c *candidate) (bool, error) {
	went := s.Partial[c.task.ID] > 0
	switch {
	case s.Proposal.Host:
		return false, nil
	case s.Draft.Unchanged:
		return went || s.Objection == "", nil
	case !went || c.found == "":
		return false, nil
	}
	changes, err := e.Trees.Changes(ctx, c.found, c.tree)
	if err != nil {
		return false, fmt.Errorf("compare trees: %w", err)
	}
	own, _ := splitChanges(changes, path.Dir(s.ProgressPath))
	why, err := e.elsewhere(ctx, s, c.task, own)
	return why != "", err
}

// disbelieved fails a claim without a change that nobody has to look at; handled is
// false where somebody has. It is looked at where the agent says that the work was
// there, or only that it is done; success announced in any other words is contradicted
// by the tree. After an objection whoever found the work done can name the place, and
// each look counts against what is left to the task.
func (e *Engine) disbelieved(ctx context.Context, s *State, c *candidate) (_ Next, handled bool, _ error) {
	says, err := e.saysWhere(ctx, c.tree, s.Proposal.Final)
	if err != nil {
		return Next{}, false, err
	}
	looked := s.Verified[c.task.ID]
	spent := looked >= maxVerified || !s.mayLook(c.accepted.Tasks(), c.task, 0)
	final, first := s.Proposal.Final, looked == 0
	stands := says || !s.Draft.Unchanged || first && (final == "" || claim.SaysThere(final))
	why := "The last call said that the task is done, but changed no file. "
	switch {
	case spent && stands:
		s.watched()
		next, err := e.askPerson(ctx, s, c.accepted, fmt.Sprintf(
			"is it done? After %d failed attempts a call says so, and no calls are left to verify it: %s", s.Attempts[c.task.ID],
			final))
		return next, true, err
	case spent:
		why += "No calls are left to verify that."
	case !c.already, stands:
		return Next{}, false, nil
	default:
		why += "Do the task. If it was done before, say so and name the place, such as `path/to/file.go:12`."
	}
	if s.Proposal.Note != "" {
		why += " Also: " + s.Proposal.Note + "."
	}
	next, err := e.failed(ctx, s, why, supervise.Failure{Unchanged: true})
	return next, true, err
}

// answered takes what a call says that looked at a task.
func (e *Engine) answered(s *State, status AgentStatus) (Next, error) {
	p := *s.Proposal
	answer := claim.ReadVerification(status.Final, len(p.Criteria))
	if status.Outcome != AgentCompleted {
		answer = claim.Verification{Objection: "the verifying call failed: " + oneLine(status.Detail, maxEvidence)}
	}
	if p.Looks++; status.Outcome != AgentCompleted || !answers(status.Final, answer) {
		p.Unanswered++
	} else {
		p.Unanswered = 0
	}
	p.Answer = &answer
	s.Proposal = &p
	s.evidence(func(ev *Evidence) {
		ev.Signal = "agreed"
		if !answer.Agreed {
			ev.Signal = oneLine("not agreed: "+answer.Objection, maxEvidence)
		}
	})
	s.Stage = stageVerified
	return Next{}, nil
}

// answers says whether a call that looked at a task answered anything at all, in
// whatever form. What answers nothing is no objection.
func answers(final string, v claim.Verification) bool {
	return v.Agreed || strings.Contains(final, "RALPH_VERIFY") || strings.Contains(final, "VERIFICATION_") ||
		slices.ContainsFunc(v.Answers, func(a claim.Answer) bool { return a != claim.Answer{} })
}

// verified acts on the answer of a call that looked at the task. What else it did
// is thrown away.
func (e *Engine) verified(ctx context.Context, s *State) (Next, error) {
	if err := e.forget(ctx, s); err != nil {
		return Next{}, err
	}
	if err := e.layOut(ctx, s, s.Proposal.Work); err != nil {
		return Next{}, err
	}
	s.Job, s.Draft = prompt.JobBuild, s.Proposal.Draft
	p := *s.Proposal
	task, err := e.task(s)
	if err != nil {
		return Next{}, err
	}
	if p.Unanswered > 0 && s.Verified[task.ID] < maxVerified {
		doc, err := s.document(s.Progress)
		if err != nil {
			return Next{}, fmt.Errorf("read the accepted progress: %w", err)
		}
		if p.Host || s.mayLook(doc.Tasks(), task, p.Looks) {
			p.Answer = nil
			s.Proposal = &p
			return e.verify(s, task)
		}
	}
	answer := *p.Answer
	if answer.Agreed {
		if answer.Objection, err = e.unfounded(ctx, p.Tree, p.Criteria, answer); err != nil {
			return Next{}, err
		}
		answer.Agreed = answer.Objection == ""
	}
	p.Answer = &answer
	s.Proposal = &p
	if !answer.Agreed {
		s.Draft.Looks = p.Looks
		if s.Proposal.Host {
			return e.fixFirst(ctx, s, task, "what it asks for is missing", answer.Objection)
		}
		why := "Another agent call verified the task and disagrees: " + answer.Objection
		if p.Note != "" {
			why += " Also: " + p.Note + "."
		}
		return e.failed(ctx, s, why, supervise.Failure{Unchanged: p.Already})
	}
	return e.confirmed(ctx, s)
}

// confirmed lets a proposal land that the evidence speaks for, and notes that
// evidence where people and later calls find it.
func (e *Engine) confirmed(ctx context.Context, s *State) (Next, error) {
	p := *s.Proposal
	if note := s.wasDone(); note != "" {
		accepted, err := s.document(s.Progress)
		if err != nil {
			return Next{}, fmt.Errorf("read the accepted progress: %w", err)
		}
		doc, err := e.completed(s, accepted, note)
		if err != nil {
			return Next{}, err
		}
		if p.Tree, err = e.Trees.With(ctx, p.Tree, s.ProgressPath, doc.Bytes()); err != nil {
			return Next{}, fmt.Errorf("note the evidence: %w", err)
		}
		if err := e.layOut(ctx, s, p.Tree); err != nil {
			return Next{}, err
		}
		p.Progress = s.text(doc)
		p.Findings = s.withWasDone(p.Findings)
		s.Proposal = &p
		e.emit(run.Event{Kind: run.EventPersonNotified, TaskID: s.TaskID, Text: s.TaskID + " " + note}, s)
	}
	if s.Stage = stageLand; s.lane != nil {
		s.Stage = stageFold
	}
	return Next{}, nil
}

// wasDone says of a proposal that changes nothing what speaks for it, "" for any other.
func (s *State) wasDone() string {
	p := s.Proposal
	if !p.Already || p.Answer == nil {
		return ""
	}
	evidence := make([]string, 0, len(p.Answer.Answers))
	for _, a := range p.Answer.Answers {
		evidence = append(evidence, a.Evidence)
	}
	return "was already done: " + oneLine(strings.Join(evidence, "; "), maxEvidence)
}

// withWasDone are findings with that about a proposal that changes nothing.
func (s *State) withWasDone(findings []gate.Finding) []gate.Finding {
	note := s.wasDone()
	f := gate.Finding{Rule: RuleAlready, Text: s.TaskID + " " + note + ". Nothing was changed for it."}
	if note == "" || slices.Contains(findings, f) {
		return findings
	}
	return append(slices.Clip(findings), f)
}

// placeInFile finds a file with a line in evidence.
var placeInFile = regexp.MustCompile(`([\w./@+-]*[\w-]\.?[\w-]*):(\d{1,7})\b`)

// ranCommand finds a command with its result in evidence.
var ranCommand = regexp.MustCompile("`[^`]{2,}`|(?i)\\b(?:ran|running|exit(?:s|ed)?|output|prints?|passe[sd]|returns?)\\b|\\bok\\b")

// maxEvidenceFile bounds a file that evidence points into, in bytes.
const maxEvidenceFile = 4 << 20

// unfounded says what is wrong with the evidence of an answer that agrees, "" for
// nothing: a place that does not exist shows nothing, one far from the files that the
// criterion names no more, and neither do mere words.
func (e *Engine) unfounded(ctx context.Context, tree string, criteria []string, v claim.Verification) (string, error) {
	for i, a := range v.Answers {
		// Beside a command with its result, host:port or a clock time is no place.
		if ranCommand.MatchString(a.Evidence) {
			continue
		}
		places, err := e.places(ctx, tree, a.Evidence)
		if err != nil {
			return "", err
		}
		if len(places) == 0 {
			return fmt.Sprintf("the answer to criterion %d gives no evidence that can be found: %s", i+1,
				oneLine(a.Evidence, 200)), nil
		}
		if i >= len(criteria) {
			continue
		}
		named, err := e.existing(ctx, tree, namedPath.FindAllString(criteria[i], maxNamed))
		if err != nil {
			return "", err
		}
		if len(named) > 0 && !sameFolder(named, places) {
			return fmt.Sprintf("the answer to criterion %d points to %s, which is not near what the criterion names: %s",
				i+1, strings.Join(places, ", "), strings.Join(named, ", ")), nil
		}
	}
	return "", nil
}

// sameFolder says whether a file of a stands in the folder of one of b.
func sameFolder(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool { return path.Dir(x) == path.Dir(y) })
	})
}

// places are the files of a tree that a text names a line of.
func (e *Engine) places(ctx context.Context, tree, text string) ([]string, error) {
	var found []string
	for _, p := range placeInFile.FindAllStringSubmatch(text, 5) {
		line, err := strconv.Atoi(p[2])
		if err != nil {
			continue
		}
		name := strings.TrimPrefix(p[1], "./")
		src, ok, err := e.Trees.File(ctx, tree, name, maxEvidenceFile)
		if err != nil {
			return nil, fmt.Errorf("read %q of the tree: %w", name, err)
		}
		if ok && line >= 1 && line <= strings.Count(string(src), "\n")+1 {
			found = append(found, name)
		}
	}
	return found, nil
}

// existing are the names that a tree has a file of.
func (e *Engine) existing(ctx context.Context, tree string, names []string) ([]string, error) {
	var found []string
	for _, name := range names {
		name = strings.TrimPrefix(name, "./")
		if slices.Contains(found, name) {
			continue
		}
		_, ok, err := e.Trees.File(ctx, tree, name, maxEvidenceFile)
		if err != nil {
			return nil, fmt.Errorf("read %q of the tree: %w", name, err)
		}
		if ok {
			found = append(found, name)
		}
	}
	return found, nil
}

// saysWhere says whether an agent's words name a file that exists, or a command.
func (e *Engine) saysWhere(ctx context.Context, tree, text string) (bool, error) {
	if quotedCommand.MatchString(text) {
		return true, nil
	}
	there, err := e.existing(ctx, tree, namedPath.FindAllString(text, maxNamed))
	return len(there) > 0, err
}

// quotedCommand finds a command in an agent's words.
var quotedCommand = regexp.MustCompile("`[^`\n]+ [^`\n]+`")

// hostTask begins a task that the host does itself: it runs all checks and those of
// the tasks of its phase, and changes nothing.
func (e *Engine) hostTask(ctx context.Context, s *State, doc *progress.Doc, task run.Task) (Next, error) {
	if err := e.layOut(ctx, s, s.HeadTree); err != nil {
		return Next{}, err
	}
	const note = "the host runs the checks itself"
	s.hostCall(e.Now(), task, note)
	done, total := progress.Counts(doc.Tasks())
	e.emit(run.Event{
		Kind: run.EventIteration, TaskID: task.ID, TaskTitle: task.Title, Text: note, Done: done, Total: total,
	}, s)
	return Next{}, nil
}

// hostCall stands for a call that no agent makes: the host proposes the tree as it is.
func (s *State) hostCall(at time.Time, task run.Task, note string) {
	s.nextIteration()
	s.dropCall()
	s.Brief.begin()
	s.Job, s.Role, s.TaskID, s.Verdict = prompt.JobBuild, run.RoleReviewer, task.ID, supervise.VerdictProceed
	s.addCall(Iteration{
		Number: s.Iteration, TaskID: task.ID, Role: s.Role, Verdict: s.Verdict,
		StartedAt: at, Outcome: string(AgentCompleted), Note: note,
	})
	s.observed(AgentStatus{Outcome: AgentCompleted, Started: at, Finished: at})
	s.Proposal = &Proposal{Host: true, Note: note}
	s.Stage = stagePropose
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
	doc, err := s.document(s.Progress)
	if err != nil {
		return Next{}, fmt.Errorf("read the accepted progress: %w", err)
	}
	s.dropCall()
	s.Draft, s.DraftTree = supervise.Iteration{}, "" // nobody has tried anything
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	s.Reopened[task.ID]++
	if s.Reopened[task.ID] > maxReopen {
		s.Failure = why
		a := supervise.Assessment{Verdict: supervise.Verdict{
			Kind: supervise.VerdictGiveUp, TaskID: task.ID, Reason: fmt.Sprintf("after %d tasks to fix it, %s", maxReopen, what),
		}}
		a.Diagnostics = fmt.Sprintf("%s was given up: %s.\n\n%s\n", task.ID, a.Verdict.Reason, why)
		return e.giveUp(ctx, s, doc, a)
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
	if i := slices.IndexFunc(tasks, func(t run.Task) bool { return t.ID == task.ID }); i > 0 {
		id, err = doc.InsertAfter(tasks[i-1].ID, fix)
	} else {
		fix.Priority = 1
		id, err = doc.AddTask(fix)
	}
	if err != nil {
		return Next{}, fmt.Errorf("add a task: %w", err)
	}
	s.wrote(s.person(task), id)
	if err := e.appendLog(s, doc, "", fmt.Sprintf("%s: %s", task.ID, what)); err != nil {
		return Next{}, err
	}
	done, total := progress.Counts(doc.Tasks())
	e.emit(run.Event{
		Kind: run.EventPlanned, TaskID: task.ID, Done: done, Total: total,
		Text: fmt.Sprintf("%s: %s; a task to fix that comes first", task.ID, what),
	}, s)
	if err := s.cover(doc); err != nil {
		return Next{}, err
	}
	s.Progress = s.text(doc)
	s.Failure = why
	s.Objection, s.TaskID = why, ""
	return Next{}, nil
}
