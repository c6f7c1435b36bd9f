package gate_test

import (
	"strings"
	"testing"

	. "github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

// TestAlteredRunners: what decides what checks run does not change unasked, however far
// from the name of the check; and honest additions are no change.
func TestAlteredRunners(t *testing.T) {
	t.Parallel()
	const mk = "GO ?= go\n\n.PHONY: test\ntest: unit\n\nunit:\n\t$(GO) test ./...\n"
	edit := func(old, now string) string { return strings.Replace(mk, old, now, 1) }
	const just = "test:\n    go test ./...\n"
	for _, tt := range []struct {
		name, path, old, now string
		gone                 bool
		fine                 bool
	}{
		{name: "prerequisite's recipe", path: "Makefile", old: mk, now: edit("$(GO) test ./...", "@true")},
		{name: "variable of the recipe", path: "Makefile", old: mk, now: edit("GO ?= go", "GO = true")},
		{name: "variable set once more", path: "Makefile", old: mk, now: mk + "GO = true\n"},
		{name: "flags from a variable", path: "Makefile", old: mk, now: mk + "GOFLAGS = -run=^$\n"},
		{name: "included file", path: "Makefile", old: mk, now: mk + "include build/x.inc\n"},
		{name: "target-specific variable", path: "Makefile", old: mk, now: mk + "test unit: GO = true\n"},
		{name: "later rule", path: "Makefile", old: mk, now: mk + "unit: ; @true\n"},
		{name: "rule for all", path: "Makefile", old: mk, now: mk + "%:\n\t@true\n"},
		{name: "swallowed command", path: "Makefile", old: mk, now: edit("\t$(GO)", "\t@true \\\n\t$(GO)")},
		{name: "swallowed variable", path: "Makefile", old: mk, now: "# tools \\\n" + mk},
		{name: "swallowed rule", path: "Makefile", old: mk, now: edit("test: unit", "MORE = \\\ntest: unit")},
		{name: "commands moved to another target", path: "Makefile", old: mk, now: edit("unit:\n", "unit:\n\nother:\n")},
		{name: "Makefile gone", path: "Makefile", old: mk, gone: true},
		{name: "included makefile", path: "build/rules.mk", old: mk, now: edit("$(GO) test", "$(GO) vet")},
		{name: "justfile", path: "justfile", old: just, now: "test:\n    true\n"},
		{name: "shell of a justfile", path: "justfile", old: just, now: "set shell := ['true']\n" + just},
		{
			name: "Taskfile", path: "Taskfile.yml", old: "tasks:\n  test:\n    cmds: [go test ./...]\n",
			now: "tasks:\n  test:\n    cmds: ['true']\n",
		},
		{name: "Rakefile", path: "Rakefile", old: "Rake::TestTask.new\n", now: "task :test\n"},
		{name: "Rakefile that clears", path: "Rakefile", old: "Rake::TestTask.new\n", now: "Rake::TestTask.new\nRake::Task[:test].clear\n"},
		{name: "tox.ini", path: "tox.ini", old: "[testenv]\ncommands = pytest\n", now: "[testenv]\ncommands = true\n"},
		{name: "noxfile.py", path: "noxfile.py", old: "s.run('pytest')\n", now: "s.run('true')\n"},
		{name: "module for pytest", path: "pytest.py", now: "raise SystemExit\n"},
		{name: "Python of its own", path: ".venv/bin/python3", now: "#!/bin/sh\n"},
		{name: "runner of its own", path: "node_modules/.bin/mocha", now: "#!/bin/sh\n"},
		{name: "runner of its own for PHP", path: "vendor/bin/phpunit", now: "#!/bin/sh\n"},

		{name: "new target", path: "Makefile", old: mk, now: mk + "\n.PHONY: docs\nOUT = public\ndocs: pages\n\tmkdocs -d $(OUT)\n", fine: true},
		{name: "one command more", path: "Makefile", old: mk, now: mk + "\t$(GO) vet ./...\n", fine: true},
		{name: "comments and space", path: "Makefile", old: mk, now: "# Checks\n\n" + mk, fine: true},
		{name: "new Makefile", path: "Makefile", now: mk, fine: true},
		{name: "new recipe", path: "justfile", old: just, now: just + "\nlint:\n    go vet ./...\n", fine: true},
	} {
		d := FileDiff{Path: tt.path, New: []byte(tt.now)}
		if tt.old != "" {
			d.Old = []byte(tt.old)
		}
		if tt.gone {
			d.New = nil
		}
		found := FindWeakened(t.Context(), []FileDiff{d})
		if blamed := Blames(run.Task{Title: "Make Add faster"}, found, nil, false); (len(blamed) == 0) != tt.fine {
			t.Errorf("%s: blamed %+v, want none: %v", tt.name, blamed, tt.fine)
		}
		asked := run.Task{Title: "Change the commands of " + strings.ToLower(tt.path)}
		if blamed := Blames(asked, found, nil, false); len(blamed) > 0 {
			t.Errorf("%s: blamed %+v though the task names it", tt.name, blamed)
		}
		if !Inspects(tt.path) {
			t.Errorf("%s is not watched", tt.path)
		}
	}
}
