package gate_test

import (
	"slices"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

func TestWhatJudges(t *testing.T) {
	t.Parallel()
	gates := []gate.Gate{{Command: "python3 check.py --all && ./verify"}}
	for _, tt := range []struct {
		path          string
		test, decides bool
	}{
		{"a_test.go", true, false},
		{"pkg/sub/a_test.go", true, false},
		{"tests/helper.py", true, false},
		{"test_a.py", true, false},
		{"src/a.test.tsx", true, false},
		{"spec/a_spec.rb", true, false},
		{"src/test/java/A.java", true, false},
		{"src/FooTest.php", true, false},
		{"Foo.Tests/A.cs", true, false},
		{"pkg/testdata/want.golden", true, false},
		{"src/__snapshots__/a.snap", true, false},
		{"tests/conftest.py", true, true},
		{"Makefile", false, true},
		{"sub/Makefile", false, true},
		{"conftest.py", false, true},
		{"package.json", false, true},
		{"vitest.config.ts", false, true},
		{"pytest/__init__.py", false, true},
		{"node_modules/.bin/jest", false, true},
		{"go.work", false, true},
		{".cargo/config.toml", false, true},
		{"scripts/check.py", false, true},
		{"deep/in/run.sh", false, true},
		{".github/workflows/ci.yml", false, true},
		{"check.py", false, true},
		{"verify", false, true},
		{"main.go", false, false},
		{"src/contest.py", false, false},
		{"src/latest.go", false, false},
		{"docs/testing.md", false, false},
		{"README.md", false, false},
		{"src/lib.rs", false, false},
		{"check.pyc", false, false},
	} {
		if test, decides := gate.IsTest(tt.path), gate.Decides(tt.path, gates); test != tt.test || decides != tt.decides {
			t.Errorf("%s: test %t, decides %t; want %t, %t", tt.path, test, decides, tt.test, tt.decides)
		}
	}
}

// TestSwitchesAreJudges: each file by which a runner was once switched off, or another program
// run in its place, is one that judges.
func TestSwitchesAreJudges(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"GNUmakefile", "Makefile", "build/x.mk", "build/x.inc", "justfile", "Taskfile.yml", "Rakefile", "tox.ini",
		"noxfile.py", ".npmrc", "web/.npmrc", ".yarnrc.yml", "pnpm-workspace.yaml", "package.json", "jest.config.js",
		".mocharc.yml", ".rspec",
		"go.mod", "internal/go.mod", "go.work", "vendor/modules.txt", "main_test.go",
		".cargo/config.toml", "Cargo.toml", "rust-toolchain.toml", ".config/nextest.toml", "global.json",
		"mvnw", ".mvn/maven.config", "gradle/wrapper/gradle-wrapper.properties", ".env", ".env.test",
		"pytest.ini", "pyproject.toml", "x.egg-info/entry_points.txt", "tests/test_a.py", "conftest.py", "tests/conftest.py",
		"pluggy.py", "pytest.py", ".venv/bin/python3", "node_modules/.bin/mocha", "vendor/bin/phpunit", "scripts/lib.sh",
	} {
		if !gate.IsTest(name) && !gate.Decides(name, nil) {
			t.Errorf("%s does not judge", name)
		}
	}
}

func TestAsks(t *testing.T) {
	t.Parallel()
	const old = "func TestPort() { want(8080) }\nfunc TestDoor() { want(1) }\n"
	for _, tt := range []struct {
		name, task, now string
		want            bool
	}{
		{"it holds the new value", "Listen on port 9090", "want(9090)", true},
		{"it holds the old value", "Listen on port 8080", "want(9090)", false},
		{"it holds no value", "Tidy up the door", "want(9090)", false},
		{"a word that was there", "Make the port configurable", "want(1)", false},
		{"it names the file", "Rework a_test.go", "want(1)", true},
		{"the new name", "Rename the door to gate", "func TestGate() {}; gate.Open()", true},
		{"it takes tests away", "Remove the tests of the door", "func TestPort() { want(8080) }\n", true},
		{"it takes tests away, and they were changed", "Remove the tests of the door", old + "// more", false},
		{"it takes something else away", "Remove the door", "", false},
		{"it speaks of tests", "Add a flag, with tests", "", false},
		{"a word for any text", "Listen for the signal and this", "for the and this", false},
	} {
		if got := gate.Asks(run.Task{Title: tt.task}, "a_test.go", []byte(old), []byte(tt.now)); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
	accept := run.Task{Title: "x", Accept: []string{"the port is 9090"}}
	if !gate.Asks(accept, "a_test.go", []byte(old), []byte("want(9090)")) {
		t.Error("acceptance criteria are no words of the task")
	}
	got := gate.Unnamed(run.Task{Title: "Let TestPort be right"}, []string{"m TestPort", "m TestDoor"})
	if !slices.Equal(got, []string{"m TestDoor"}) {
		t.Errorf("unnamed: %q", got)
	}
}
