package gate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

// TestWhatJudges: tests, and each file by which a runner was once switched off, or another
// program run in its place.
func TestWhatJudges(t *testing.T) {
	t.Parallel()
	gates := []gate.Gate{{Command: "python3 check.py --all && ./verify"}}
	for _, tt := range []struct {
		test, decides bool
		names         string
	}{
		{true, false, `a_test.go pkg/sub/a_test.go tests/helper.py test_a.py src/a.test.tsx spec/a_spec.rb
			src/test/java/A.java src/FooTest.php Foo.Tests/A.cs pkg/testdata/want.golden src/__snapshots__/a.snap`},
		{true, true, "tests/conftest.py"},
		{false, true, `Makefile sub/Makefile GNUmakefile build/x.mk build/x.inc justfile Taskfile.yml Rakefile tox.ini
			noxfile.py .npmrc web/.npmrc .yarnrc.yml pnpm-workspace.yaml package.json jest.config.js vitest.config.ts
			.mocharc.yml .rspec go.mod internal/go.mod go.work vendor/modules.txt .cargo/config.toml Cargo.toml
			rust-toolchain.toml .config/nextest.toml global.json mvnw .mvn/maven.config
			gradle/wrapper/gradle-wrapper.properties .env .env.test pytest.ini pyproject.toml x.egg-info/entry_points.txt
			conftest.py pluggy.py pytest.py pytest/__init__.py .venv/bin/python3 node_modules/.bin/mocha vendor/bin/phpunit
			scripts/lib.sh scripts/check.py deep/in/run.sh .github/workflows/ci.yml check.py verify`},
		{false, false, "main.go src/contest.py src/latest.go docs/testing.md README.md src/lib.rs check.pyc"},
	} {
		for name := range strings.FieldsSeq(tt.names) {
			if test, decides := gate.IsTest(name), gate.Decides(name, gates); test != tt.test || decides != tt.decides {
				t.Errorf("%s: test %t, decides %t; want %t, %t", name, test, decides, tt.test, tt.decides)
			}
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
