package loop

import (
	"slices"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

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
