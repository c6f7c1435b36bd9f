package gate

import (
	"time"
)

// When says on which trees a gate runs.
type When string

// The moments a gate may run at.
const (
	// Task gates run on every proposal, before its commit.
	Task When = "task"
	// Final gates run once all tasks are done.
	Final When = "final"
)

// Kind says what a gate looks at. It decides what a detected gate is worth and
// where a pass rate makes sense; how a gate passes is the same for all.
type Kind string

// The kinds of gates.
const (
	Test      Kind = "test"
	Lint      Kind = "lint"
	Typecheck Kind = "typecheck"
	Build     Kind = "build"
	Secret    Kind = "secret"
	// Check is a gate of which nobody said what it looks at.
	Check Kind = "check"
)

// DefaultTimeout bounds a gate that names no timeout of its own.
const DefaultTimeout = 15 * time.Minute

// Gate is one check: a shell command and when it runs.
type Gate struct {
	// Name is what people read: "go test".
	Name string
	Kind Kind
	// Command is a line for `sh -c`, run in the root of the tree.
	Command string
	When    When
	Timeout time.Duration
	// Advisory gates are reported; they hold nothing back.
	Advisory bool
	// Detected tells that no person asked for this gate; it was found in the
	// repository.
	Detected bool
	// Own: it belongs to the task at hand, and shows whether that is done. That it
	// failed before the work began is no excuse.
	Own bool
	// Prepare says how the tree gets the dependencies that Command needs. It
	// only matters to how soon the gate is done, and is no part of its identity.
	Prepare Prepare
}

// WithDefaults fills what a person left out.
func (g Gate) WithDefaults() Gate {
	if g.Name == "" {
		g.Name = g.Command
	}
	if g.Kind == "" {
		g.Kind = Check
	}
	if g.When == "" {
		g.When = Task
	}
	if g.Timeout == 0 {
		g.Timeout = DefaultTimeout
	}
	return g
}

// Union is base and what proposed adds to it, in that order. A proposal that
// removes a gate (by deleting go.mod, say) still has to pass it.
func Union(base, proposed []Gate) []Gate {
	seen := make(map[string]bool, len(base))
	union := make([]Gate, 0, len(base)+len(proposed))
	for _, gates := range [][]Gate{base, proposed} {
		for _, g := range gates {
			if !seen[g.Command] {
				seen[g.Command] = true
				union = append(union, g)
			}
		}
	}
	return union
}

// At keeps the gates that run at moment w.
func At(gates []Gate, w When) []Gate {
	var at []Gate
	for _, g := range gates {
		if g.When == w {
			at = append(at, g)
		}
	}
	return at
}

// Result is how one gate ended on one tree.
type Result struct {
	Gate     string
	Kind     Kind
	Command  string
	Tree     string
	Passed   bool
	ExitCode int
	// Reason is why it ended when not by itself: "wall_timeout", "signal: killed".
	Reason   string
	Duration time.Duration
	// Output is what of its output tells most; see Excerpt.
	Output string
	// Facts are what was counted in all of its output.
	Facts Facts
	// Missing says what kept it from running, "" where it ran.
	Missing string
	// Advisory: the gate is.
	Advisory bool
	// Verdict is what the result means for the proposal, once that is known.
	Verdict Verdict
}

// Key is what a result may be remembered by: the same command on the same tree
// in the same image gives the same answer.
func Key(tree, command, image string) string {
	return tree + "\x00" + image + "\x00" + command
}
