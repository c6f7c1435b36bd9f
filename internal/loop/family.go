package loop

import (
	"slices"

	"github.com/org/ralph-action/internal/run"
)

// Family is what a run has that works no text of its own: other subjects, each of which is
// worked by a run of its own, in this order. Its driver does not step such a run.
type Family struct {
	// Stacked: the work on each begins from the branch of the one before it.
	Stacked bool `json:",omitempty"`
	Members []Member
	// Shown is the hash of what people were shown last.
	Shown string `json:",omitempty"`
}

// Member is one of the subjects of a family.
type Member struct {
	// Name is what people call it ("#12"), Number its number, and Node its identity.
	Name   string
	Number int
	Node   string
	// Text is the hash of the plan that was approved with the family.
	Text string `json:",omitempty"`
	// Run is the run that works it, "" as long as there is none. Joined: somebody else began
	// that.
	Run    run.ID `json:",omitempty"`
	Joined bool   `json:",omitempty"`
	// Skipped is why no run is begun, "" where one is.
	Skipped string `json:",omitempty"`
}

// Lead gives the state of a run that works a family a family of its own to change, and
// says that the run is under way.
func (s *State) Lead() *Family {
	f := *s.Family
	f.Members = slices.Clone(f.Members)
	s.Family, s.Phase = &f, run.PhaseIterating
	return &f
}

// EndFamily ends a run that works a family, and tells whoever watches. What people see has
// been brought up to date before.
func (e *Engine) EndFamily(s State, reason run.EndReason, detail string) State {
	s.End, s.EndDetail, s.EndedAt, s.Delayed = reason, detail, e.Now(), nil
	s.Phase = reason.Phase()
	return s
}
