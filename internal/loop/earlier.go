package loop

import (
	"slices"

	"github.com/org/ralph-action/internal/run"
)

// Earlier sums up what the runs before this one did for the same subject.
type Earlier struct {
	// Runs counts them.
	Runs int
	// Iterations is the number of their last iteration; this run counts on from it.
	Iterations int
	CostUSD    float64
	// Commits are theirs on the branch, oldest first, and Older counts those in
	// front of them that are not kept.
	Commits []Landed `json:",omitempty"`
	Older   int
}

// maxEarlier bounds the commits of earlier runs that a state keeps: it is saved
// after each step.
const maxEarlier = 100

// Bounds of what is kept of such a commit, in bytes. Whoever may push to the
// branch can have written it.
const (
	maxEarlierSubject = 200
	maxEarlierTask    = 20
)

// Sum sums up what this run and those before it did. A run that has not opened its
// work tree did nothing.
func (s *State) Sum() Earlier {
	sum := s.Earlier
	if s.Run != "" && s.Stage != stageOpen {
		sum.Runs++
	}
	sum.Iterations = max(sum.Iterations, s.Iteration)
	sum.CostUSD += s.Usage.CostUSD
	sum.Commits = slices.Concat(sum.Commits, s.Commits)
	return sum
}

// cutOff is e with no more than a state keeps.
func (e Earlier) cutOff() Earlier {
	over := max(len(e.Commits)-maxEarlier, 0)
	e.Older += over
	e.Commits = slices.Clone(e.Commits[over:])
	for i, c := range e.Commits {
		e.Commits[i].Subject, e.Commits[i].TaskID = oneLine(c.Subject, maxEarlierSubject), oneLine(c.TaskID, maxEarlierTask)
	}
	return e
}

// takeEarlier takes in what the branch tells of earlier runs. It has the last word on
// which commits there are. It knows nothing of signatures, nor of work without a
// commit, which the state of the run before may.
func (s *State) takeEarlier(found Earlier) {
	known := s.Earlier
	s.Earlier = found.cutOff()
	for i, c := range s.Earlier.Commits {
		if k := slices.IndexFunc(known.Commits, func(l Landed) bool { return l.OID == c.OID }); k >= 0 {
			s.Earlier.Commits[i].Verified = known.Commits[k].Verified
		}
	}
	s.Earlier.Runs = max(found.Runs, known.Runs)
	s.Earlier.Iterations = max(found.Iterations, known.Iterations)
	s.Earlier.CostUSD = max(found.CostUSD, known.CostUSD)
}

// Iterations counts the iterations that this run has begun.
func (s *State) Iterations() int { return max(s.Iteration-s.Earlier.Iterations, 0) }

// plannings counts the calls of this run that wrote the plan.
func (s *State) plannings() int {
	n := 0
	for _, it := range s.History {
		if it.Role == run.RolePlanner && it.TaskID == "" {
			n++
		}
	}
	return n
}

// nextIteration begins an iteration.
func (s *State) nextIteration() {
	s.Iteration = max(s.Iteration, s.Earlier.Iterations) + 1
	s.Number = s.Iteration
}
