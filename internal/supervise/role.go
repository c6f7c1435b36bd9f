package supervise

import (
	"slices"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Role is the part an agent plays in one iteration.
type Role = run.Role

// The roles, under the names they have here.
const (
	Planner     = run.RolePlanner
	Implementer = run.RoleImplementer
	Tester      = run.RoleTester
	Debugger    = run.RoleDebugger
	Reviewer    = run.RoleReviewer
	Architect   = run.RoleArchitect
)

// Situation is what the choice of a role depends on besides the history.
type Situation struct {
	// Planning: there are no tasks yet, or the plan is to be changed.
	Planning bool
	// Finishing: all tasks are done and the whole is looked at once more.
	Finishing bool
	// Verdict is the supervisor's, for this very iteration.
	Verdict Verdict
}

// NextRole says who works the next iteration. A task that failed goes from
// whoever had it to the debugger, and on to the architect when the supervisor
// says so; it stays there until it lands.
func NextRole(h History, task run.Task, s Situation) Role {
	switch {
	case s.Planning:
		return Planner
	case s.Finishing:
		return Reviewer
	case s.Verdict.Role != "":
		return s.Verdict.Role
	}
	if last := lastAttempt(h, task.ID); last != nil {
		switch last.Class {
		case FailCompile, FailTest, FailLint:
			if last.Role != Architect {
				return Debugger
			}
			return Architect
		case FailNone, FailTimeout, FailCrash, FailRateLimit, FailRefused, FailEmpty,
			FailTooComplex, FailMissingContext, FailUnknown:
		}
		switch last.Role {
		case Implementer, Tester, Debugger, Architect:
			return last.Role
		case Planner, Reviewer:
		}
	}
	switch {
	case task.Verify, testsOnlyRE().MatchString(task.Title):
		return Tester
	case designRE().MatchString(task.Title):
		return Architect
	default:
		return Implementer
	}
}

// lastAttempt is the last iteration that worked the task, if that did not land.
func lastAttempt(h History, id string) *Iteration {
	for _, it := range slices.Backward(h.counted()) {
		if it.TaskID == id && it.Role != Planner {
			if it.Landed {
				return nil
			}
			return it
		}
	}
	return nil
}

// Titles of tasks that ask for tests alone, or for a design.
var (
	testsOnlyRE = strs.Lazy(`(?i)^(?:add|write|extend|improve|create|increase|complete)(?: [\w-]+){0,3}? (?:tests?|test cases?|(?:test )?coverage)(?:$| (?:for|of|that|to|in|on|around|covering|which|with)\b)`)
	designRE    = strs.Lazy(`(?i)\b(?:re-?design|re-?architect|(?:design|architecture) (?:of|for|decision|document)|decide (?:on|how)|choose (?:a|an|the|between))\b`)
)

// promote is who takes over from role when it does not get on, "" when nobody
// is left.
func promote(r Role) Role {
	switch r {
	case Architect:
		return ""
	case Debugger:
		return Architect
	case Planner, Implementer, Tester, Reviewer:
		return Debugger
	default:
		return Debugger
	}
}
