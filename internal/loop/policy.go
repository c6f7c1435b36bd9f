package loop

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// The policy: how often a task is tried, who works it next, when it is split or given up, and
// when the run stops. It is asked before each call, looks at nothing but the record of the calls
// before, and answers with the first row of this table that holds. n is limits.task_attempts
// (3), t is loop.stagnationThreshold (5), T is loop.taskTimeoutMinutes (30).
//
//	Before the next call at a task                  | What is done
//	------------------------------------------------+--------------------------------------------
//	3t calls in a row have landed nothing, and all  | The run stops.
//	were at this task and its parts, or a check     |
//	says of it what it says of another              |
//	The last call says that the task is too large,  | A planner splits it: once, and while no plan
//	or two calls ran out of time                    | comes of it up to three times.
//	Its attempts are used up, and no call changed   | It is given up.
//	or claimed anything                             |
//	Its attempts are used up                        | It is split, if that can help.
//	The same, and it cannot be split, or no parts   | Another role has a try: the debugger, or else
//	came of it                                      | the architect. There are two such calls, a
//	                                                | split included; the last is on clean files.
//	The same, and two calls were made since         | It is given up.
//	2t calls in a row have landed nothing           | The architect takes over, on clean files.
//	t calls in a row have landed nothing            | The debugger takes over.
//	Anything else                                   | Another call: by the debugger after a failed
//	                                                | check, else by whoever had the task.
//
// Attempts are used up when n have failed and two of them showed the same, with n - 2 calls
// since; when 2n have failed, whatever they showed; or when they took 3T. So a task that cannot be
// done costs n + 2 calls where it fails alike from the first on, and 2n + 2 at most. A task with a
// single attempt has no try by another role.
//
// Two attempts show the same where the tests that failed fail still, or all but one; where a check
// says the same but for its numbers; and where nothing was changed. A call that broke off shows
// nothing and is no attempt. What came before a task landed, before a person changed it, and
// before a call got further with it, is no evidence any more. Clean files are those of the last
// landed commit.

// Verdict is what is done before the next call at a task.
type Verdict string

// The verdicts, in rising order of how much they interfere.
const (
	VerdictProceed    Verdict = "proceed"
	VerdictSwitchRole Verdict = "switch_role"
	VerdictDecompose  Verdict = "decompose"
	VerdictGiveUp     Verdict = "give_up"
	VerdictAbort      Verdict = "abort"
)

// Decision is what the policy says before a call.
type Decision struct {
	Verdict Verdict
	// Role makes the next call.
	Role run.Role
	// Clean: the files go back to what landed last, as what is wrong with them may be what earlier
	// attempts left there.
	Clean bool
	// Reason says why, in one sentence without a full stop.
	Reason string
	// Guidance is what the next prompt says of how to go on, "" for nothing.
	Guidance string
	// Diagnostics tell a person what happened and what to do where a task or the run ends.
	Diagnostics string
}

const (
	// maxSeen bounds the record that the policy looks at, in calls.
	maxSeen = 128
	// lastTries is how many calls a task has whose attempts are used up: a split is one of them.
	lastTries = 2
	// maxSplits is how often a planner is asked for parts of a task that is said to be too large.
	maxSplits = 3
	// tooLong is how many times the time for a task its failed attempts may take.
	tooLong = 3
	// warning, elevated and critical are the seed's levels of stagnation, in multiples of its
	// threshold.
	warning, elevated, critical = 1, 2, 3
)

// story is what of the record counts when a task is about to be worked, oldest first.
type story struct {
	task, family string
	state        *State
	// since are the calls after the last landing, own the failed ones at the task and kin those
	// at its family: the task that it is a part of, and the parts of that.
	since, own, kin []*Seen
	last            *Seen // of own, plans to split it left out; nil where there is none
	splits          int   // plans to split the task that were asked for and answered
}

// family is the task that id is a part of, or id itself.
func (s *State) family(id string) string { return cmp.Or(s.of(id).Parent, id) }

func (s *State) storyOf(id string) story {
	v := story{task: id, family: s.family(id), state: s}
	for i := range s.Seen {
		c := &s.Seen[i]
		home := s.family(c.TaskID)
		switch {
		case c.Number <= max(s.of(c.TaskID).Since, s.of(home).Since), c.Landed && c.Role == run.RolePlanner:
			continue // a person has answered to it, or it is a plan that was accepted
		case c.Landed:
			v.since = nil
			if home == v.family {
				v.kin = nil
			}
			if c.TaskID == id {
				v.own, v.splits = nil, 0
			}
			continue
		}
		v.since = append(v.since, c)
		if home == v.family {
			v.kin = append(v.kin, c)
		}
		if c.TaskID != id {
			continue
		}
		v.own = append(v.own, c)
		if c.Verdict == VerdictDecompose && c.Outcome != AgentBroken {
			v.splits++
		}
	}
	for _, c := range v.own {
		if c.Verdict != VerdictDecompose {
			v.last = c
		}
	}
	return v
}

// decide says what is done before the next call at a task. See the table above.
func (s *State) decide(task run.Task) Decision {
	v := s.storyOf(task.ID)
	d := s.firstRow(&v, task)
	if d.Role == "" {
		d.Role = v.nextRole(task)
	}
	switch d.Verdict {
	case VerdictGiveUp, VerdictAbort:
		d.Diagnostics = v.diagnostics(d)
	case VerdictProceed, VerdictSwitchRole, VerdictDecompose:
		d.Guidance = v.guidance(d, s.Limits)
	}
	return d
}

func (s *State) firstRow(v *story, task run.Task) Decision {
	most, t := s.Limits.TaskAttempts, s.Limits.Stagnation
	if v.last == nil {
		return Decision{Verdict: VerdictProceed}
	}
	inRow := strs.Count(len(v.since), "call") + " in a row landed nothing"
	shared := v.shared()
	if t > 0 && len(v.since) >= critical*t && (shared != "" || len(v.kin) == len(v.since)) {
		if shared != "" {
			inRow += fmt.Sprintf(", and %s and %s fail in the same way: %s", shared, v.task, v.last.Error)
		}
		return Decision{Verdict: VerdictAbort, Reason: inRow}
	}
	if v.splitHelps(s, task) && (v.tooLarge() || v.timeouts() > 1) {
		reason := "the agent says that the task is too large for one call"
		if !v.tooLarge() {
			reason = "the agent ran out of time twice"
		}
		return v.split(reason)
	}
	switch reason, tries := v.exhaustion(most, s.Attempts[task.ID], s.Limits.TaskTime); {
	case reason == "":
	case v.absent():
		return Decision{Verdict: VerdictGiveUp, Reason: v.absence()}
	case tries < lastTries && v.splitHelps(s, task):
		return v.split(reason)
	case tries < lastTries && most != 1:
		role := run.RoleArchitect
		if tries == 0 && v.last.Role != run.RoleDebugger {
			role = run.RoleDebugger
		}
		return Decision{
			Verdict: VerdictSwitchRole, Role: role, Clean: tries == lastTries-1,
			Reason: reason + "; another role has a last try",
		}
	default:
		return Decision{Verdict: VerdictGiveUp, Reason: reason}
	}
	switch {
	case t > 0 && len(v.since) >= elevated*t && v.last.Role != run.RoleArchitect:
		return Decision{Verdict: VerdictSwitchRole, Role: run.RoleArchitect, Clean: true, Reason: inRow}
	case t > 0 && len(v.since) >= warning*t && v.last.Role != run.RoleArchitect && v.last.Role != run.RoleDebugger:
		return Decision{Verdict: VerdictSwitchRole, Role: run.RoleDebugger, Reason: inRow}
	}
	return Decision{Verdict: VerdictProceed}
}

// exhaustion says why the attempts at a task are used up, "" where they are not, and how many calls
// were made since.
func (v *story) exhaustion(most, failed int, limit time.Duration) (reason string, tries int) {
	var spent time.Duration
	// Those of an earlier run are counted, and nothing else is known of them.
	attempts := failed - len(slices.DeleteFunc(slices.Clone(v.own), func(c *Seen) bool { return !c.attempt() }))
	alike := 0 // 1 from the first attempt on, 2 where one showed what another had, and one more for each call since
	var before []*Seen
	for _, c := range v.own {
		switch {
		case c.Outcome == AgentBroken:
			continue
		case reason != "":
			tries++
			continue
		case c.Advanced:
			before, alike = nil, 0
		}
		spent += max(0, c.Duration)
		switch {
		case alike > 1:
			alike++
		case !c.attempt():
		case slices.ContainsFunc(before, c.repeats):
			alike = 2
		default:
			alike = 1
		}
		before = append(before, c)
		if c.attempt() {
			attempts++
		}
		switch {
		case limit > 0 && spent >= tooLong*limit:
			reason = fmt.Sprintf("the attempts took %s in all", spent.Round(time.Second))
		case most > 0 && attempts >= 2*most:
			reason = strs.Count(attempts, "attempt") + " failed"
		case most > 0 && attempts >= most && alike >= most:
			reason = strs.Count(attempts, "attempt") + " failed"
			if tries = alike - most; most > 1 {
				reason += ", " + inSameWay(before) + " in the same way"
			}
		}
	}
	return reason, tries
}

// inSameWay says how many of the calls show the same.
func inSameWay(calls []*Seen) string {
	most := 0
	for i, c := range calls {
		alike := 1
		for _, before := range calls[:i] {
			if c.repeats(before) {
				alike++
			}
		}
		most = max(most, alike)
	}
	if most == len(calls) {
		return "all"
	}
	return fmt.Sprintf("%d of them", most)
}

// shared is another task at which a check says the same as at this one, "" where there is none: then
// it may be neither's fault.
func (v *story) shared() string {
	for _, c := range v.since {
		if v.last.Class.ofCheck() && c.Shown == v.last.Shown && v.state.family(c.TaskID) != v.family {
			return c.TaskID
		}
	}
	return ""
}

// spent is how long the attempts at the task took.
func (v *story) spent() (sum time.Duration) {
	for _, c := range v.own {
		sum += max(0, c.Duration)
	}
	return sum
}

// absent says whether no call at the task has changed or claimed anything: there is nothing that
// smaller tasks or another role could build on.
func (v *story) absent() bool {
	return !slices.ContainsFunc(v.own, func(c *Seen) bool {
		return !c.Unchanged || c.ClaimedDone || c.Verdict == VerdictDecompose
	})
}

// absence names what kept an agent from doing anything: its own error, where it ended with one.
func (v *story) absence() string {
	reason := strs.Count(len(v.own), "call") + " changed nothing and claimed nothing"
	if v.last.Outcome == AgentGaveUp && v.last.Error != "" {
		reason = "the agent ended with an error each time: " + v.last.Error
	}
	return reason
}

// splitHelps says whether smaller tasks could fare better than this one.
func (v *story) splitHelps(s *State, task run.Task) bool {
	switch {
	case !s.splittable(task.ID):
		return false
	case v.splits > 0 && (v.splits >= maxSplits || !v.tooLarge()):
		return false
	case len(namedSources(task)) == 1 && !v.tooLarge() && v.timeouts() < 2:
		return false
	}
	return v.last.Class != FailCrash && v.last.Class != FailRefused
}

func (v *story) split(reason string) Decision {
	role := run.RolePlanner
	if v.last.tooLarge() {
		role = run.RoleArchitect
	}
	return Decision{Verdict: VerdictDecompose, Role: role, Reason: reason}
}

// tooLarge says whether the last attempt took the task for too much, plans to split it left out.
func (v *story) tooLarge() bool {
	for _, c := range slices.Backward(v.own) {
		if c.Verdict != VerdictDecompose && c.Outcome != AgentBroken {
			return c.tooLarge()
		}
	}
	return false
}

func (v *story) timeouts() (n int) {
	for _, c := range v.own {
		if c.Outcome == AgentTimedOut && v.last.Outcome == AgentTimedOut {
			n++
		}
	}
	return n
}

// nextRole is who makes the next call where the policy names nobody: the debugger after a failed
// check, whom only the architect follows; else whoever had the task; and for a fresh task whom
// its title asks for.
func (v *story) nextRole(task run.Task) run.Role {
	for _, c := range slices.Backward(v.own) {
		switch {
		case c.Role == run.RolePlanner || c.Role == run.RoleReviewer || c.Verdict == VerdictDecompose:
			continue
		case c.Class.ofCheck() && c.Class != FailHang && c.Role != run.RoleArchitect:
			return run.RoleDebugger
		}
		return c.Role
	}
	switch {
	case task.Verify, testsOnly().MatchString(task.Title):
		return run.RoleTester
	case design().MatchString(task.Title):
		return run.RoleArchitect
	default:
		return run.RoleImplementer
	}
}

// Titles of tasks that ask for tests alone, or for a design.
var (
	testsOnly = strs.Lazy(`(?i)^(?:add|write|extend|improve|create|increase|complete)(?: [\w-]+){0,3}? ` +
		`(?:tests?|test cases?|(?:test )?coverage)(?:$| (?:for|of|that|to|in|on|around|covering|which|with)\b)`)
	design = strs.Lazy(`(?i)\b(?:re-?design|re-?architect|` +
		`(?:design|architecture) (?:of|for|decision|document)|decide (?:on|how)|choose (?:a|an|the|between))\b`)
)
