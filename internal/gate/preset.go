package gate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// presetMark begins the command of a gate that stands for the tools of a trade, such
// as preset:vulnerabilities.
const presetMark = "preset:"

// preset is what one of them stands for in each ecosystem.
type preset struct {
	name string
	// needs are the files that one of its tools works on, for people.
	needs string
	tools func(Root) []presetTool
}

// presetTool is the command of one ecosystem.
type presetTool struct {
	name, command string
	prepare       Prepare
}

var presets = []preset{
	{
		name:  "dead-code",
		needs: "go.mod, a package.json that has knip, Python or Cargo.toml",
		tools: func(r Root) []presetTool { return slices.Concat(deadGo(r), deadNode(r), deadPython(r), deadRust(r)) },
	},
	{
		name: "vulnerabilities",
		needs: "go.mod, a lock file of npm, pnpm or yarn, requirements.txt, pyproject.toml, Cargo.toml, Gemfile.lock " +
			"or composer.lock",
		tools: vulnerable,
	},
}

// Presets are the commands of all of them.
func Presets() []string {
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = presetMark + p.name
	}
	return names
}

// CheckPreset says what is wrong with a command that names a preset which does not
// exist. All other commands are fine.
func CheckPreset(command string) error {
	name, ok := strings.CutPrefix(command, presetMark)
	if !ok || findPreset(name) != nil {
		return nil
	}
	return &run.UserError{
		Message: fmt.Sprintf("there is no gate %q", cutText(command, maxName)), Hint: "use " + strings.Join(Presets(), " or "),
	}
}

func findPreset(name string) *preset {
	i := slices.IndexFunc(presets, func(p preset) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return &presets[i]
}

// HasPresets says whether any of the gates stands for others.
func HasPresets(gates []Gate) bool {
	return slices.ContainsFunc(gates, func(g Gate) bool { return strings.HasPrefix(g.Command, presetMark) })
}

// Resolve puts in the place of each gate that names a preset what it stands for in a
// repository. It tells of those that stand for nothing there.
func Resolve(gates []Gate, r Root) (resolved []Gate, told []Finding) {
	for _, g := range gates {
		name, ok := strings.CutPrefix(g.Command, presetMark)
		p := findPreset(name)
		if !ok || p == nil {
			resolved = append(resolved, g)
			continue
		}
		tools := p.tools(r)
		if len(tools) == 0 {
			told = append(told, Finding{
				Rule: "gate_preset", Text: fmt.Sprintf("the gate %s checks nothing here: it needs %s", g.Command, p.needs),
			})
		}
		title := g.Name
		if title == g.Command {
			title = p.name
		}
		for _, tool := range tools {
			one := g
			one.Name, one.Command, one.Prepare = title, tool.command, tool.prepare
			if len(tools) > 1 {
				one.Name += " (" + tool.name + ")"
			}
			if g.Kind == Check { // it runs no tests, so changed tests are no reason to run it again
				one.Kind = Lint
			}
			resolved = append(resolved, one)
		}
	}
	return resolved, told
}

func vulnerable(r Root) []presetTool {
	var tools []presetTool
	if r.has("go.mod") {
		tools = append(tools, presetTool{name: "govulncheck", command: "govulncheck ./..."})
	}
	var pkg packageJSON
	if json.Unmarshal([]byte(r.text("package.json")), &pkg) == nil {
		manager, p := packageManager(r, pkg)
		command := manager + " audit"
		if strings.Contains(p.Command, "--immutable") {
			command = "yarn npm audit --all --recursive"
		}
		if p.Command != "" { // only a lock file says which versions are used
			tools = append(tools, presetTool{name: manager, command: command})
		}
	}
	switch {
	case r.has("requirements.txt"):
		tools = append(tools, presetTool{name: "pip-audit", command: "pip-audit -r requirements.txt"})
	case r.has("pyproject.toml"):
		tools = append(tools, presetTool{name: "pip-audit", command: "pip-audit ."})
	}
	for _, other := range []struct{ file, name, command string }{
		{"Cargo.toml", "cargo audit", "cargo audit"},
		{"Gemfile.lock", "bundler-audit", "bundle-audit check --update"},
		{"composer.lock", "composer", "composer audit"},
	} {
		if r.has(other.file) {
			tools = append(tools, presetTool{name: other.name, command: other.command})
		}
	}
	return tools
}

// deadGo has deadcode fail where it finds something: by itself it exits with 0.
func deadGo(r Root) []presetTool {
	if !r.has("go.mod") {
		return nil
	}
	return []presetTool{{
		name:    "deadcode",
		command: `found=$(deadcode -test ./...) && { printf '%s\n' "$found"; test -z "$found"; }`,
	}}
}

func deadNode(r Root) []presetTool {
	var pkg packageJSON
	if json.Unmarshal([]byte(r.text("package.json")), &pkg) != nil || !slices.Contains(pkg.packages(), "knip") {
		return nil
	}
	manager, p := packageManager(r, pkg)
	command := map[string]string{"npm": "npx --no-install knip", "pnpm": "pnpm exec knip", "yarn": "yarn run knip"}[manager]
	return []presetTool{{name: "knip", command: command, prepare: p}}
}

func deadPython(r Root) []presetTool {
	project := r.text("pyproject.toml")
	switch {
	case strings.Contains(project, "[tool.vulture"):
		return []presetTool{{name: "vulture", command: "vulture"}}
	case project != "" || r.has("setup.py") || r.has("requirements.txt"):
		return []presetTool{{name: "vulture", command: "vulture . --exclude .venv,node_modules"}}
	}
	return nil
}

// deadRust needs no tool of its own: the compiler knows what is never used.
func deadRust(r Root) []presetTool {
	if !r.has("Cargo.toml") {
		return nil
	}
	return []presetTool{{name: "rustc", command: `RUSTFLAGS="-D dead_code" cargo check --workspace --all-targets`}}
}
