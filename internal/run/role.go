package run

import "slices"

// Role is the part an agent plays in one iteration. A role is a prompt profile
// with its own model and limits, not another program.
type Role string

// The roles, after section 3.8 of the analysis the loop is built on.
const (
	// RolePlanner turns what is wanted into tasks, or one task into smaller ones.
	RolePlanner Role = "planner"
	// RoleImplementer works a task. It is the role where nothing asks for another.
	RoleImplementer Role = "implementer"
	// RoleTester works a task that is about tests.
	RoleTester Role = "tester"
	// RoleDebugger fixes a failure that has been seen, and nothing else.
	RoleDebugger Role = "debugger"
	// RoleReviewer reads the whole change and may ask for more work.
	RoleReviewer Role = "reviewer"
	// RoleArchitect works a task that several approaches have failed at: it
	// looks for another shape first.
	RoleArchitect Role = "architect"
)

// Roles lists every role, in the order of the documentation.
func Roles() []Role {
	return []Role{RolePlanner, RoleImplementer, RoleTester, RoleDebugger, RoleReviewer, RoleArchitect}
}

// Known says whether r is a role.
func (r Role) Known() bool { return slices.Contains(Roles(), r) }
