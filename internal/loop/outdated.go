package loop

import (
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// outdatedStarts is added to the number of processes that an outdated run has started:
// those that came after its state was stored may still be there, under the numbers
// that follow.
const outdatedStarts = 1 << 20

// Outdated is the state of a run whose branch may have gone further than the state
// knows, as where the state is from an older copy of the database. Its next step takes the branch as it is;
// what was under way when the state was stored is forgotten. A run that is only to
// be told of stays as it is.
func Outdated(s State) State {
	if s.End != "" {
		return s
	}
	s.Call, s.PullRequest, s.Calls = Call{}, nil, nil
	s.Starts += outdatedStarts
	s.Phase, s.Stage, s.Outdated = run.PhasePreparing, stageOpen, true
	return s
}

// catchUp gives the progress file as the branch has it, or had it until a run that
// completed took it away. What the state knows of the tasks is dropped: it is older.
func (s *State) catchUp(onBranch string, doc, last *progress.Doc) *progress.Doc {
	s.Outdated, s.Progress, s.LandedProgress = false, onBranch, onBranch
	if onBranch == "" && last != nil {
		doc = last
		s.accept(doc)
	}
	s.Iteration = max(s.Iteration, doc.LastIteration())
	return doc
}
