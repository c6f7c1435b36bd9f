package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// requireClaim acts on a candidate that its agent does not claim to be done. What it
// leaves unfinished stays, and the next call goes on from there; only a call that
// brought nothing is a failed attempt.
func (e *Engine) requireClaim(ctx context.Context, s *State, c *candidate) (_ Next, handled bool, _ error) {
	said := s.Proposal.Claim
	if s.Proposal.Host {
		return Next{}, false, nil
	}
	if said.Kind == prompt.ClaimDone {
		return Next{}, false, nil
	}
	s.Draft.ClaimedDone = false
	next, err := func() (Next, error) {
		switch {
		case said.Kind == prompt.ClaimFailed, said.Kind == prompt.ClaimBlocked && s.Draft.TooLarge:
			what := "it failed"
			if said.Kind == prompt.ClaimBlocked {
				what = "the task is too large"
			}
			return e.fail(ctx, s, "The last call said that "+what+": "+strings.TrimRight(wordsOf(said), ".;, ")+".")
		case said.Kind == prompt.ClaimBlocked && s.Draft.Unchanged && s.begun():
			// It is not to be lost with what only a person can give.
			s.Draft.TooLarge = true
			return e.fail(ctx, s, "The last call finished part of the task and needs a person for the rest: "+wordsOf(said)+".")
		case said.Kind == prompt.ClaimBlocked && (s.Draft.Unchanged || s.Kept != nil && s.Kept.Blocked):
			// Nothing was changed, or two calls in a row say so.
			e.keepRefused(ctx, s, "blocked: "+wordsOf(said))
			s.endRecord()
			return e.askPerson(ctx, s, c.accepted, s.TaskID, wordsOf(said))
		case !s.Draft.Unchanged:
			return e.goOn(ctx, s, c.accepted, c.work)
		}
		why := "The last call ended without changing any file."
		if s.Proposal.Final != "" { // it may be a question that a person can answer
			why += " It said: " + oneLine(s.Proposal.Final, maxSaid)
		}
		switch {
		case said.Kind == prompt.ClaimPartial:
			// Work that has begun and gets no further needs smaller tasks.
			s.Draft.TooLarge = s.Draft.TooLarge || s.of(s.TaskID).Partial > 0
			why = "The last call said what is left, but changed no file: " + wordsOf(said) + "."
		case s.Draft.Change != "":
			why = "The last call changed nothing more and did not say that the task is done. If the existing work " +
				"completes the task, say so in the required form."
		}
		if s.Proposal.Note != "" {
			why += " Also: " + s.Proposal.Note + "."
		}
		return e.failed(ctx, s, why, failure{Unchanged: true})
	}()
	return next, true, err
}

// maxSaid bounds what is told of the message of a call that changed nothing, in bytes.
const maxSaid = 300

// begun says whether calls got further with the task at hand that can be split up.
func (s *State) begun() bool {
	return s.of(s.TaskID).Partial > 0 && s.Kept != nil && !s.Kept.Blocked && s.splittable(s.TaskID)
}

// splittable says whether a task may still be split up: a part
// of another task cannot be, nor can the one prompt of a run, and each task is split once.
func (s *State) splittable(id string) bool {
	return s.Promise == "" && s.of(id).Parent == "" && !s.of(id).Split
}

// wordsOf is what the agent said besides that it is not done.
func wordsOf(c prompt.Claim) string {
	return cmp.Or(c.Words, "it did not say what")
}

// goOn keeps unfinished work, for the next call to go on from. It uses up no
// attempt; see [Engine.splitUnfinished] for how often that may be.
func (e *Engine) goOn(ctx context.Context, s *State, doc *progress.Doc, tree string) (Next, error) {
	task, err := findTask(doc, s.TaskID)
	if err != nil {
		return Next{}, err
	}
	left := s.Proposal.Claim.Words
	s.Kept = &Kept{
		TaskID: task.ID, Tree: tree, Head: s.Head, HeadTree: s.HeadTree, Left: left,
		Blocked: s.Proposal.Claim.Kind == prompt.ClaimBlocked,
	}
	s.record(task.ID).Partial++
	s.Advanced = s.Advanced || left != ""
	note := "continues; it did not say what is left"
	if left != "" {
		note = "continues; left: " + oneLine(left, 240)
	}
	s.lastCall(func(it *Iteration) { it.Note = note })
	if err := e.appendLog(s, doc, "", note); err != nil {
		return Next{}, err
	}
	e.emit(run.Event{
		Kind: run.EventTaskGoesOn, TaskID: task.ID, Text: note,
	}, s)
	s.accept(doc)
	s.Failure = s.Objection
	if s.Promise != "" {
		// Should the promise never be made, this is all that there is of the work.
		e.keepRefused(ctx, s, note)
	}
	s.Draft = Seen{} // neither a failure nor a landing
	s.dropCall()
	s.Phase, s.Stage = run.PhaseIterating, stagePick
	return Next{}, nil
}

// splitUnfinished acts on a task that has gone on for as many calls as it may: it is
// split up, and where it was already, a person decides. handled is false where
// another call may go on.
func (e *Engine) splitUnfinished(
	ctx context.Context, s *State, doc *progress.Doc, task run.Task,
) (_ Next, handled bool, _ error) {
	most, made := s.Limits.PartialCalls, s.of(task.ID).Partial
	if most <= 0 || made < most {
		return Next{}, false, nil
	}
	if !s.splittable(task.ID) {
		words := fmt.Sprintf("%d calls each did a part of it, and it is still not finished", made)
		if s.Kept != nil && s.Kept.Left != "" {
			words += "; left: " + s.Kept.Left
		}
		if s.Kept != nil {
			plain, err := e.withoutNotes(ctx, s.Kept.Tree)
			if err != nil {
				return Next{}, false, err
			}
			s.Draft.Change = plain
			e.keepRefused(ctx, s, words)
			s.Draft = Seen{}
		}
		next, err := e.askPerson(ctx, s, doc, task.ID, words)
		return next, true, err
	}
	s.record(task.ID).Split = true // whatever comes of it, it is not tried again
	s.Verdict, s.Guidance = VerdictDecompose, nil
	s.nextIteration()
	e.emit(run.Event{
		Kind: run.EventVerdict, TaskID: task.ID, Verdict: string(s.Verdict),
		Text: fmt.Sprintf("%s: %d calls each did a part of it", s.Verdict, made),
	}, s)
	e.emit(run.Event{
		Kind: run.EventIteration, TaskID: task.ID, Verdict: string(s.Verdict),
	}, s)
	next, err := e.prepareAgent(s, prompt.JobSplit, run.RolePlanner, task.ID)
	return next, true, err
}

// askPerson sets a task aside for what only a person can give. The others go on;
// when none is left, the run waits for that person.
func (e *Engine) askPerson(ctx context.Context, s *State, doc *progress.Doc, task, words string) (Next, error) {
	s.Needs = append(s.Needs, Need{TaskID: task, Words: oneLine(words, maxNeed)})
	s.Brief = Brief{}
	s.dropCall()
	s.Phase = run.PhaseIterating
	return e.giveUp(ctx, s, doc, task, Decision{
		Reason:      "needs a person: " + oneLine(words, maxNeed),
		Diagnostics: fmt.Sprintf("%s needs a person. The agent said: %s\n", task, oneLine(words, maxNeed)),
	})
}

// maxNeed bounds what is kept of what an agent lacks, in bytes.
const maxNeed = 400

// openNeeds are the needs of tasks that are still blocked.
func (s *State) openNeeds(tasks []run.Task) []Need {
	var out []Need
	for _, t := range tasks {
		i := slices.IndexFunc(s.Needs, func(n Need) bool { return n.TaskID == t.ID })
		if t.Status == run.TaskBlocked && i >= 0 {
			out = append(out, s.Needs[i])
		}
	}
	return out
}

// layOutKept lays unfinished work out again after the tree was laid out anew: after a
// restart, or because somebody pushed. Where both changed the same lines it is
// dropped, for the next call begins that task again.
func (e *Engine) layOutKept(ctx context.Context, s *State) error {
	k := s.Kept
	if k == nil {
		return nil
	}
	there, err := e.Work.Has(ctx, k.Tree)
	if err != nil {
		return fmt.Errorf("look for unfinished work: %w", err)
	}
	tree := k.Tree
	if there && k.HeadTree != s.HeadTree {
		if tree, _, err = e.foldTrees(ctx, s, k.HeadTree, k.Tree); err != nil {
			return err
		}
	}
	if !there || tree == "" {
		e.loseKept(s)
		return nil
	}
	kept := *k
	kept.Tree, kept.Head, kept.HeadTree = tree, s.Head, s.HeadTree
	s.Kept = &kept
	return e.layOut(ctx, s, tree)
}

// loseKept gives up unfinished work, and tells people.
func (e *Engine) loseKept(s *State) {
	task := s.Kept.TaskID
	s.Kept = nil
	s.record(task).Partial = 0
	e.emit(run.Event{
		Kind: run.EventTrouble, TaskID: task, Text: "the unfinished work at " + task + " is lost; the task starts over",
	}, s)
}
