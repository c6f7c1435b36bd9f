package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/strs"
)

const (
	maxGates      = 20
	maxGateName   = 80
	maxGateRun    = 4096
	maxGateLength = 6 * time.Hour
)

// Gate is a check as a file asks for it: a command that must exit 0 for a task,
// or the run, to count as done.
type Gate struct {
	// Name is what people see; the command itself where none was given.
	Name string
	// Run is given to a shell in the root of the work tree.
	Run  string
	Kind gate.Kind
	// Advisory gates are reported; the others hold a task back until they pass.
	Advisory bool
	When     gate.When
	Timeout  time.Duration
}

// Gate is the same in the terms of the loop.
func (g Gate) Gate() gate.Gate {
	return gate.Gate{Name: g.Name, Kind: g.Kind, Command: g.Run, When: g.When, Timeout: g.Timeout, Advisory: g.Advisory}
}

type gateFile struct {
	Name     string   `yaml:"name"`
	Run      string   `yaml:"run"`
	Kind     string   `yaml:"kind"`
	Blocking *bool    `yaml:"blocking"`
	When     string   `yaml:"when"`
	Timeout  duration `yaml:"timeout"`
}

// reporter collects problems; path is a YAML path like "$.gates[0].run".
type reporter func(path, format string, args ...any)

// gates checks what a file says and fills in defaults.
func gates(files []gateFile, report reporter) []Gate {
	if len(files) > maxGates {
		report("$.gates", "%d gates; at most %d are allowed", len(files), maxGates)
		return nil
	}
	seen := make(map[string]bool, len(files))
	var out []Gate
	for i, f := range files {
		at := func(key string) string { return fmt.Sprintf("$.gates[%d].%s", i, key) }
		g := Gate{
			Name: strings.TrimSpace(f.Name), Run: strings.TrimSpace(f.Run),
			Kind: gate.Kind(f.Kind), Advisory: f.Blocking != nil && !*f.Blocking,
			When: gate.When(f.When), Timeout: time.Duration(f.Timeout),
		}
		switch {
		case g.Run == "":
			report(at("run"), "a gate needs a command, like: run: go test ./...")
		case len(g.Run) > maxGateRun:
			report(at("run"), "the command has %d bytes; at most %d are allowed", len(g.Run), maxGateRun)
		case strings.ContainsRune(g.Run, 0):
			report(at("run"), "the command holds a NUL character")
		}
		if g.Name == "" {
			g.Name = clipTo(strs.OneLine(g.Run), maxGateName)
		}
		switch {
		case utf8.RuneCountInString(g.Name) > maxGateName:
			report(at("name"), "at most %d characters are allowed", maxGateName)
		case !printable(g.Name):
			report(at("name"), "only printable characters on one line are allowed")
		case g.Name != "" && seen[g.Name]:
			report(at("name"), "two gates are named %q; give each its own name", clip(g.Name))
		}
		seen[g.Name] = true
		if g.Kind == "" {
			g.Kind = gate.Check
		} else if !slices.Contains(gate.Kinds(), g.Kind) {
			report(at("kind"), "%q is not a kind; use test, lint, typecheck, build, secret or check", clip(f.Kind))
		}
		switch g.When {
		case gate.Task, gate.Final:
		case "":
			g.When = gate.Task
		default:
			report(at("when"), "%q is not valid; use task or final", clip(f.When))
		}
		switch {
		case g.Timeout == 0:
			g.Timeout = gate.DefaultTimeout
		case g.Timeout < time.Second || g.Timeout > maxGateLength:
			report(at("timeout"), "must be between 1s and %s", short(maxGateLength))
		}
		out = append(out, g)
	}
	return out
}

func printable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func clipTo(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// short writes a duration without its zero parts: 6h, not 6h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
