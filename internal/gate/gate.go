package gate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
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

// DefaultTimeout bounds a gate that names no timeout of its own.
const DefaultTimeout = 15 * time.Minute

// Gate is one check: a shell command and when it runs.
type Gate struct {
	// Name is what people read: "go test".
	Name string
	// Command is a line for `sh -c`, run in the root of the tree.
	Command string
	When    When
	Timeout time.Duration
	// Detected tells that no person asked for this gate; it was found in the
	// repository.
	Detected bool
}

// WithDefaults fills what a person left out.
func (g Gate) WithDefaults() Gate {
	if g.Name == "" {
		g.Name = g.Command
	}
	if g.When == "" {
		g.When = Task
	}
	if g.Timeout == 0 {
		g.Timeout = DefaultTimeout
	}
	return g
}

// Files reads a file at the root of a tree; ok is false where there is none.
type Files func(name string) (content []byte, ok bool)

var makeTest = regexp.MustCompile(`(?m)^test[ \t]*:([^=]|$)`)

// Detect finds the checks a repository brings along: `go vet` and `go test`
// for a Go module, `make test` where a Makefile has that target, the test
// script of a package.json. A Makefile's target wins over the others: it is
// what the maintainers chose.
func Detect(files Files) []Gate {
	var gates []Gate
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
		if src, ok := files(name); ok && makeTest.Match(src) {
			return []Gate{detected("make test", "make test")}
		}
	}
	if _, ok := files("go.mod"); ok {
		gates = append(gates,
			detected("go vet", "go vet ./..."),
			detected("go test", "go test ./..."))
	}
	if src, ok := files("package.json"); ok && hasTestScript(src) {
		gates = append(gates, detected("npm test", "npm test"))
	}
	return gates
}

func detected(name, command string) Gate {
	return Gate{Name: name, Command: command, Detected: true}.WithDefaults()
}

// hasTestScript says whether package.json has a test script of its own;
// `npm init` writes one that only fails, and that one does not count.
func hasTestScript(src []byte) bool {
	var pkg struct {
		Scripts map[string]string `json:"scripts"`
	}
	if err := json.Unmarshal(src, &pkg); err != nil {
		return false
	}
	script := pkg.Scripts["test"]
	return script != "" && !strings.Contains(script, "no test specified")
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
	Command  string
	Tree     string
	Passed   bool
	ExitCode int
	// Reason is why it ended when not by itself: "wall_timeout", "signal: killed".
	Reason   string
	Duration time.Duration
	// Output is the tail of what it printed.
	Output string
}

// Key is what a result may be remembered by: the same command on the same tree
// in the same image gives the same answer.
func Key(tree, command, image string) string {
	return tree + "\x00" + image + "\x00" + command
}

// Remediation limits: enough lines to act on, few enough to read.
const (
	remediationLines = 80
	remediationBytes = 8 << 10
)

// Remediation is what the next attempt is told about a failed gate: the
// command, how it ended, and the failing lines of its output, not all of it.
func Remediation(r Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The check %q (%s) failed", r.Gate, r.Command)
	switch r.Reason {
	case "", "exited":
		fmt.Fprintf(&b, " with exit code %d.", r.ExitCode)
	case "wall_timeout":
		fmt.Fprintf(&b, ": it ran out of time after %s.", r.Duration.Round(time.Second))
	default:
		fmt.Fprintf(&b, ": %s.", r.Reason)
	}
	if excerpt := Excerpt(r.Output); excerpt != "" {
		b.WriteString(" It printed:\n\n")
		b.WriteString(excerpt)
	}
	return b.String()
}

// Lines that say what failed, in the words of common tools.
var telling = regexp.MustCompile(`(?i)(\berror\b|\bfail(ed|ure|ing)?\b|--- FAIL|\bpanic\b|\bfatal\b|undefined|not found|expected|\bgot\b|\bwant\b|assert|exception|traceback|:\d+:\d+: |\.go:\d+)`)

// Excerpt keeps the lines of a log that tell what failed, with one line of
// context around each, and its last lines; what was left out is marked.
func Excerpt(log string) string {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(log, "\r\n", "\n"), "\n"), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return ""
	}
	keep := make([]bool, len(lines))
	if len(lines) <= remediationLines {
		for i := range keep {
			keep[i] = true
		}
	} else {
		left := remediationLines
		for i := len(lines) - 1; i >= len(lines)-20 && left > 0; i-- {
			keep[i] = true
			left--
		}
		for i := 0; i < len(lines) && left > 0; i++ {
			if !telling.MatchString(lines[i]) {
				continue
			}
			for j := max(0, i-1); j <= min(len(lines)-1, i+1) && left > 0; j++ {
				if !keep[j] {
					keep[j] = true
					left--
				}
			}
		}
	}
	var b strings.Builder
	skipped := false
	for i, line := range lines {
		if !keep[i] {
			skipped = true
			continue
		}
		if skipped {
			b.WriteString("[…]\n")
			skipped = false
		}
		if len(line) > 400 {
			line = strings.ToValidUTF8(line[:400], "") + "…"
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	out := strings.TrimRight(b.String(), "\n")
	if len(out) > remediationBytes {
		out = "[…]\n" + strings.ToValidUTF8(out[len(out)-remediationBytes:], "")
	}
	return out
}
