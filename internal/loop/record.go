package loop

import (
	"slices"

	"time"

	"github.com/org/ralph-action/internal/run"
)

// Iteration is the record of one agent call.
type Iteration struct {
	Number int
	TaskID string
	// Role is the part the agent played, Verdict what the policy had said before it.
	Role      run.Role
	Verdict   Verdict
	StartedAt time.Time
	Duration  time.Duration
	Outcome   string
	Landed    bool
	Note      string
	Model     string
	Usage     run.Usage
	// Models is what the call used of each model, Hosts what it and the checks
	// after it reached, or were kept from.
	Models []run.ModelUse
	Hosts  []run.HostUse
}

// Bounds of an iteration's record; an agent chooses what it asks for.
const (
	maxModels = 8
	maxHosts  = 20
)

// addCall keeps a call in the history. Waits in a row are one entry.
func (s *State) addCall(it Iteration) {
	n := len(s.History)
	if n > 0 && it.Outcome == string(AgentRateLimited) {
		if last := s.History[n-1]; last.Outcome == it.Outcome && last.Number == it.Number {
			it.StartedAt, it.Duration, it.Usage = last.StartedAt, last.Duration+it.Duration, last.Usage.Add(it.Usage)
			it.Models, it.Hosts = run.AddModels(last.Models, it.Models, maxModels), run.AddHosts(last.Hosts, it.Hosts, maxHosts)
			n--
		}
	}
	it.Hosts = run.AddHosts(s.EarlyHosts, it.Hosts, maxHosts)
	s.EarlyHosts = nil
	s.History = append(s.History[:n], it)
}

// lastCall changes the record of the call that ended last, if there is one.
func (s *State) lastCall(change func(*Iteration)) {
	at := s.last()
	if at < 0 {
		return
	}
	change(&s.History[at])
}

// last is the index in the history of the call at hand; -1 where there was none.
func (s *State) last() int {
	for at, it := range slices.Backward(s.History) {
		if it.Number == s.Number {
			return at
		}
	}
	return -1
}

// addHosts adds the hosts of a check to the record of the call it followed, or of
// the first one.
func (s *State) addHosts(hosts []run.HostUse) {
	if len(hosts) > 0 && len(s.History) == 0 {
		s.EarlyHosts = run.AddHosts(s.EarlyHosts, hosts, maxHosts)
	}
	if len(hosts) > 0 {
		s.lastCall(func(it *Iteration) { it.Hosts = run.AddHosts(it.Hosts, hosts, maxHosts) })
	}
}
