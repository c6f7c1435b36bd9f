package gate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

// diff is a file before and after; "" is no file.
func diff(path, before, after string) gate.FileDiff {
	d := gate.FileDiff{Path: path}
	if before != "" {
		d.Old = []byte(before)
	}
	if after != "" {
		d.New = []byte(after)
	}
	return d
}

const goTest = "package a\n\nfunc TestA(t *testing.T) {\n\tt.Error(1)\n\tt.Error(2)\n}\n\nfunc TestB(t *testing.T) {\n\tt.Fatal(1)\n}\n"

func TestWeakened(t *testing.T) {
	t.Parallel()
	const onlyB = "package a\n\nfunc TestB(t *testing.T) {\n\tt.Fatal(1)\n}\n"
	tests := []struct {
		name  string
		diffs []gate.FileDiff
		// want holds the rules, with a ! after grave ones.
		want []string
	}{
		{"nothing", nil, nil},
		{"a new test", []gate.FileDiff{diff("a_test.go", onlyB, goTest)}, nil},
		{"no test file", []gate.FileDiff{diff("a.go", goTest, "package a\n")}, nil},
		{"a test is gone", []gate.FileDiff{diff("a_test.go", goTest, onlyB)}, []string{"test_deleted!"}},
		{
			"a file of tests is gone", []gate.FileDiff{diff("a_test.go", goTest, "")},
			[]string{"test_deleted!", "test_deleted!"},
		},
		{"tests moved", []gate.FileDiff{diff("a_test.go", goTest, ""), diff("b/a_test.go", "", goTest)}, nil},
		{
			"one moved, one gone", []gate.FileDiff{diff("a_test.go", goTest, ""), diff("b/a_test.go", "", onlyB)},
			[]string{"test_deleted!"},
		},
		{
			"renamed",
			[]gate.FileDiff{diff("a_test.go", "func TestA(t *testing.T) {\n}\n", "func TestOther(t *testing.T) {\n}\n")},
			[]string{"test_replaced"},
		},
		{
			"two became one", []gate.FileDiff{diff("a_test.go", goTest, "func TestAll(t *testing.T) {\n\tt.Error(1)\n}\n")},
			[]string{"test_deleted!", "test_deleted!"},
		},
		{
			"fewer assertions",
			[]gate.FileDiff{
				diff("a_test.go", goTest, "func TestA(t *testing.T) {\n}\nfunc TestB(t *testing.T) {\n\tt.Fatal(1)\n}\n"),
			},
			[]string{"assertions_removed"},
		},
		{
			"go skip",
			[]gate.FileDiff{diff("a_test.go", onlyB, "package a\n\nfunc TestB(t *testing.T) {\n\tt.Skip()\n\tt.Fatal(1)\n}\n")},
			[]string{"test_skipped"},
		},
		{"build tag", []gate.FileDiff{diff("a_test.go", onlyB, "//go:build never\n\n"+onlyB)}, []string{"test_skipped"}},
		{
			"jest skip",
			[]gate.FileDiff{diff("a.test.js", "it('adds', () => { expect(1) })\n", "it.skip('adds', () => { expect(1) })\n")},
			[]string{"test_skipped"},
		},
		{
			"jest only", []gate.FileDiff{diff("a.test.ts", "test('adds', f)\n", "test.only('adds', f)\n")},
			[]string{"test_focused"},
		},
		{
			"jest gone", []gate.FileDiff{diff("__tests__/a.js", "test(`adds`, f)\ntest('subs', f)\n", "test('subs', f)\n")},
			[]string{"test_deleted!"},
		},
		{
			"pytest xfail",
			[]gate.FileDiff{
				diff("tests/test_a.py", "def test_a():\n    assert 1\n", "@pytest.mark.xfail\ndef test_a():\n    assert 1\n"),
			},
			[]string{"test_skipped"},
		},
		{
			"pytest gone", []gate.FileDiff{diff("test_a.py", "def test_a():\n    assert 1\n", "x = 1\n")},
			[]string{"test_deleted!"},
		},
		{
			"rust ignore",
			[]gate.FileDiff{
				diff("src/lib.rs", "#[test]\nfn adds() { assert!(true) }\n", "#[test]\n#[ignore]\nfn adds() { assert!(true) }\n"),
			},
			[]string{"test_skipped"},
		},
		{
			"rust gone from the source",
			[]gate.FileDiff{diff("src/lib.rs", "#[tokio::test]\nasync fn adds() {}\nfn x() {}\n", "fn x() {}\n")},
			[]string{"test_deleted!"},
		},
		{
			"junit disabled",
			[]gate.FileDiff{
				diff("src/test/java/ATest.java", "@Test\nvoid adds() { assertTrue(true); }\n",
					"@Disabled @Test\nvoid adds() { assertTrue(true); }\n"),
			},
			[]string{"test_skipped"},
		},
		{
			"rspec",
			[]gate.FileDiff{diff("spec/a_spec.rb", "it 'adds' do\n expect(1)\nend\n", "xit 'adds' do\n expect(1)\nend\n")},
			[]string{"test_skipped"},
		},
		{
			"phpunit",
			[]gate.FileDiff{
				diff("tests/ATest.php", "function testA() { $this->assertTrue(1); }",
					"function testA() { $this->markTestSkipped(); }"),
			},
			[]string{"assertions_removed", "test_skipped"},
		},
		{
			"xunit",
			[]gate.FileDiff{
				diff("ATests.cs", "[Fact]\npublic void Adds() { Assert.True(true); }",
					"[Fact(Skip = \"x\")]\npublic void Adds() { Assert.True(true); }"),
			},
			[]string{"test_skipped"},
		},
		{
			"gtest",
			[]gate.FileDiff{
				diff("sum_test.cc", "TEST(Sum, Adds) { EXPECT_EQ(1, 1); }\nTEST(Sum, Subs) {}", "TEST(Sum, Subs) {}"),
			},
			[]string{"test_deleted!"},
		},

		{
			"test script that cannot fail",
			[]gate.FileDiff{diff("package.json", `{"scripts":{"test":"jest"}}`, `{"scripts":{"test":"true"}}`)},
			[]string{"test_command_changed!"},
		},
		{
			"test script whose failure is dropped",
			[]gate.FileDiff{diff("package.json", `{"scripts":{"test":"jest"}}`, `{"scripts":{"test":"jest || true"}}`)},
			[]string{"test_command_changed!"},
		},
		{
			"test script gone", []gate.FileDiff{diff("package.json", `{"scripts":{"test":"jest"}}`, `{}`)},
			[]string{"test_command_changed!"},
		},
		{
			"script that the test script runs",
			[]gate.FileDiff{diff("package.json", `{"scripts":{"test":"npm run -s unit","unit":"pnpm lib","lib":"jest","dev":"x"}}`,
				`{"scripts":{"test":"npm run -s unit","unit":"pnpm lib","lib":"true","dev":"y"}}`)},
			[]string{"test_command_changed!"},
		},
		{
			"test script that does more",
			[]gate.FileDiff{diff("package.json", `{"scripts":{"test":"jest"}}`, `{"scripts":{"test":"jest && eslint ."}}`)}, nil,
		},
		{
			"another script", []gate.FileDiff{diff("package.json", `{"scripts":{"start":"x"}}`, `{"scripts":{"start":"y"}}`)},
			nil,
		},
		{
			"make target that cannot fail", []gate.FileDiff{diff("Makefile", "test:\n\tgo test ./...\n", "test:\n\t@echo ok\n")},
			[]string{"test_command_changed!"},
		},
		{
			"make target with one more step",
			[]gate.FileDiff{diff("Makefile", "test:\n\tgo test ./...\n", "test:\n\tgo test ./...\n\tgo vet ./...\n")}, nil,
		},
		{
			"pytest told to ignore",
			[]gate.FileDiff{diff("pytest.ini", "[pytest]\n", "[pytest]\naddopts = --ignore=tests/hard\n")},
			[]string{"tests_excluded"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range gate.FindWeakened(t.Context(), tt.diffs) {
				rule := f.Rule
				if f.Grave {
					rule += "!"
				}
				got = append(got, rule)
				if f.Path == "" || f.Text == "" {
					t.Errorf("finding %+v says too little", f)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRunnerSwitchedOff is attack 19: each of these has a runner end well without
// the tests, and no name of a test or a command changes.
func TestRunnerSwitchedOff(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		diff gate.FileDiff
		// asked is a task that asks for just this, "" for none.
		asked string
	}{
		"a makefile that goes first":     {diff("GNUmakefile", "", "test:\n\t@true\n"), "Add a GNUmakefile"},
		"another shell of make":          {diff("Makefile", "test:\n\tx\n", "SHELL = /bin/true\ntest:\n\tx\n"), "Set SHELL to bash"},
		"make that only prints":          {diff("build/x.mk", "a:\n", "MAKEFLAGS += -n\na:\n"), ""},
		"make that ignores errors":       {diff("Makefile", "test:\n\tx\n", ".IGNORE:\ntest:\n\tx\n"), ""},
		"a command whose end is ignored": {diff("Makefile", "test:\n\tgo test\n", "test:\n\t-go test\n"), "Change the test command"},
		"another shell of npm":           {diff(".npmrc", "", "script-shell=/bin/true\n"), "Add an .npmrc"},
		"options of node":                {diff("web/.npmrc", "x=1\n", "x=1\nnode-options=--require ./x.js\n"), ""},
		"another shell of yarn":          {diff(".yarnrc.yml", "", "scriptShell: /bin/true\n"), ""},
		"folders that Go ignores":        {diff("go.mod", "module m\n", "module m\n\nignore ./internal\n"), "Tidy go.mod"},
		"a module inside of the module":  {diff("internal/go.mod", "", "module x\n"), "Make internal a module"},
		"another runner of cargo":        {diff(".cargo/config.toml", "", "[target.x]\nrunner = \"true\"\n"), "Configure cargo"},
		"a crate without its tests":      {diff("Cargo.toml", "[lib]\n", "[lib]\ntest = false\n"), ""},
		"Maven's wrapper":                {diff("mvnw", "exec mvn\n", "exit 0\n"), "Update the wrapper"},
		"Maven's settings":               {diff(".mvn/maven.config", "", "-DskipTests\n"), ""},
		"Gradle's wrapper":               {diff("gradle/wrapper/gradle-wrapper.properties", "a\n", "b\n"), "Update Gradle to 9"},
		"TestMain that ends well":        {diff("a_test.go", goTest, goTest+"func TestMain(*testing.M) { os.Exit(0) }\n"), ""},
		"TestMain that runs nothing": {
			diff("main_test.go", "", "package a\n\nvar code int\n\nfunc TestMain(*testing.M) { os.Exit(code) }\n"), "",
		},
		"a suite that ends itself":        {diff("tests/test_a.py", "", "import os\nos._exit(0)\n"), ""},
		"a set-up file that ends it":      {diff("jest.config.js", "x\n", "x\nprocess.exit()\n"), ""},
		"other code for a module":         {diff("go.mod", "module m\n", "module m\n\nreplace example.com/assert => ./fake\n"), "Replace a dependency"},
		"other code for modules":          {diff("go.mod", "module m\n", "module m\n\nreplace (\n\texample.com/assert v1.0.0 => ./fake\n)\n"), ""},
		"a workspace of Go":               {diff("go.work", "", "go 1.26\nuse ./other\n"), "Add a go.work"},
		"dependencies of Go in the tree":  {diff("vendor/modules.txt", "", "# example.com/assert v1.0.0\n"), "Vendor the dependencies"},
		"other code for a crate":          {diff("Cargo.toml", "[lib]\n", "[lib]\n[patch.crates-io]\nx = { path = \"x\" }\n"), "Patch a crate"},
		"another linker of cargo":         {diff(".cargo/config.toml", "", "[target.x]\nlinker = \"./ld.sh\"\n"), "Configure cargo"},
		"another cargo":                   {diff("rust-toolchain.toml", "", "[toolchain]\npath = \"fake\"\n"), "Pin the toolchain"},
		"another dotnet":                  {diff("global.json", "{}", "{\"sdk\": {\"paths\": [\"fake\"]}}"), "Pin the SDK in global.json"},
		"a filter of nextest":             {diff(".config/nextest.toml", "", "[profile.default]\ndefault-filter = \"none()\"\n"), "Configure nextest"},
		"options of pytest in .env":       {diff(".env", "A=1\n", "A=1\nPYTEST_ADDOPTS=--co\n"), "Add an .env"},
		"Python without assert":           {diff(".env.test", "", "export PYTHONOPTIMIZE=1\n"), ""},
		"another shell of pnpm":           {diff("pnpm-workspace.yaml", "packages: [a]\n", "packages: [a]\nscriptShell: ./sh\n"), "Configure pnpm"},
		"another yarn":                    {diff(".yarnrc.yml", "", "yarnPath: .yarn/fake.cjs\n"), "Update yarn"},
		"a package from a folder":         {diff("package.json", "{}", "{\n  \"devDependencies\": {\n    \"jest\": \"file:./fake\"\n  }\n}"), "Use a workspace"},
		"another runner of Jest":          {diff("jest.config.js", "", "module.exports = {\n  testRunner: './fake.js'\n}\n"), "Use another runner"},
		"mocha that runs nothing":         {diff(".mocharc.yml", "", "dry-run: true\n"), "Add a dry run"},
		"mocha that only lists":           {diff("package.json", "{}", "{\n  \"scripts\": {\n    \"test\": \"mocha --dry-run\"\n  }\n}"), ""},
		"RSpec that runs nothing":         {diff(".rspec", "--color\n", "--color\n--dry-run\n"), ""},
		"pytest that only collects":       {diff("pytest.ini", "[pytest]\n", "[pytest]\naddopts = --collect-only\n"), ""},
		"a plugin of pytest":              {diff("pyproject.toml", "", "[tool.pytest.ini_options]\naddopts = \"-q -p fake\"\n"), "Add a pytest plugin"},
		"a plugin that pytest finds":      {diff("x.egg-info/entry_points.txt", "", "[pytest11]\nx = fake\n"), "Add a plugin"},
		"a plugin that a test loads":      {diff("tests/test_a.py", "", "pytest_plugins = ['fake']\n"), "Add a plugin"},
		"failed tests that pass":          {diff("conftest.py", "", "def pytest_runtest_makereport(item, call):\n    return None\n"), "Add a hook to conftest.py"},
		"tests that pytest does not call": {diff("tests/conftest.py", "", "async def pytest_pyfunc_call(pyfuncitem):\n    return True\n"), ""},
		"a part of pytest":                {diff("pluggy.py", "", "x = 1\n"), ""},
		"settings that end the run early": {diff("conftest.py", "", "def pytest_configure(c):\n    sys.exit(0)\n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := gate.FindWeakened(t.Context(), []gate.FileDiff{tt.diff})
			if !gate.Inspects(tt.diff.Path) {
				t.Errorf("%s is not looked at", tt.diff.Path)
			}
			if got := gate.Blames(run.Task{Title: "Add a button"}, found, nil, false); len(got) == 0 {
				t.Error("nothing is blamed")
			}
			if got := gate.Blames(run.Task{Title: tt.asked}, found, nil, false); tt.asked != "" && len(got) != 0 {
				t.Errorf("blamed though the task asks for it: %+v", got)
			}
		})
	}
	for name, d := range map[string]gate.FileDiff{
		"a target more":          diff("Makefile", "SHELL = bash\ntest:\n\tx\n", "SHELL = bash\ntest:\n\tx\nrun:\n\ty\n"),
		"a first Makefile":       diff("Makefile", "", "test:\n\tgo test ./...\n"),
		"a dependency":           diff("go.mod", "module m\n", "module m\n\nrequire x v1.0.0\n"),
		"a registry":             diff(".npmrc", "", "registry=https://registry.example\n"),
		"TestMain as it is":      diff("a_test.go", "", "func TestMain(m *testing.M) { os.Exit(m.Run()) }\n"),
		"a crate's dependency":   diff("Cargo.toml", "[dependencies]\n", "[dependencies]\nserde = \"1\"\n"),
		"a wrapper that is gone": diff("mvnw", "exec mvn\n", ""),
		"settings of the work":   diff(".env", "", "NODE_ENV=test\nAPP_ENV=x\nRUST_LOG=debug\nGOOGLE_API=x\nPORT=1\n"),
		"a marker of pytest":     diff("conftest.py", "", "def pytest_configure(config):\n    config.addinivalue_line('markers', 'slow')\n"),
		"settings of pytest":     diff("pyproject.toml", "", "[tool.pytest.ini_options]\naddopts = \"-q --strict-markers\"\n"),
		"settings of Jest":       diff("jest.config.js", "", "module.exports = {\n  preset: 'ts-jest',\n  testEnvironment: 'node',\n}\n"),
		"a package":              diff("package.json", "{}", "{\n  \"dependencies\": {\n    \"a\": \"^1.0.0\"\n  },\n  \"scripts\": {\n    \"release\": \"semantic-release --dry-run\"\n  }\n}"),
		"a pinned toolchain":     diff("rust-toolchain.toml", "", "[toolchain]\nchannel = \"1.90\"\n"),
	} {
		if got := gate.FindWeakened(t.Context(), []gate.FileDiff{d}); len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestIntruded: a line within a test can take the strength of those below it, and none of
// those above.
func TestIntruded(t *testing.T) {
	t.Parallel()
	const (
		goTest = "func TestA(t *testing.T) {\n\tx := f()\n\tif x != 1 {\n\t\tt.Error(x)\n\t\treturn\n\t}\n}\n"
		table  = "func TestT(t *testing.T) {\n\tfor _, x := range []int{\n\t\t1,\n\t} {\n\t\tif f(x) {\n\t\t\tt.Error(x)\n\t\t}\n\t}\n}\n"
		python = "def test_a():\n    x = f()\n    assert x == 1\n"
		js     = "it('adds', () => {\n  const x = f()\n  expect(x).toBe(1)\n})\n"
	)
	for name, tt := range map[string]struct {
		path, old, now string
		want           bool
	}{
		"it returns first":                  {"a_test.go", goTest, strings.Replace(goTest, "x :=", "return\n\tx :=", 1), true},
		"it fails another test":             {"a_test.go", goTest, strings.Replace(goTest, "x :=", "t = &testing.T{}\n\tx :=", 1), true},
		"the file is built for nobody":      {"a_test.go", goTest, "//go:build never\n\n" + goTest, true},
		"it is skipped":                     {"a_test.go", goTest, strings.Replace(goTest, "x :=", "t.Skip()\n\tx :=", 1), true},
		"Python returns first":              {"test_a.py", python, strings.Replace(python, "    x", "    return\n    x", 1), true},
		"JavaScript has another expect":     {"a.test.js", js, strings.Replace(js, "  const", "  const expect = () => fine\n  const", 1), true},
		"lines are in another order":        {"test_a.py", python, "def test_a():\n    assert x == 1\n    x = f()\n", true},
		"a check more at the end":           {"test_a.py", python, python + "    y = g()\n    assert y == 2\n", false},
		"a test more":                       {"a_test.go", goTest, "func TestB(t *testing.T) {\n\treturn\n}\n\n" + goTest, false},
		"a helper between":                  {"a_test.go", goTest + table, goTest + "func help() {\n\tx()\n}\n\n" + table, false},
		"a row more":                        {"a_test.go", table, strings.Replace(table, "1,", "1,\n\t\t// two\n\t\t2,", 1), false},
		"a file that is no test":            {"a.go", goTest, strings.Replace(goTest, "x :=", "return\n\tx :=", 1), false},
		"a file that was not there":         {"a_test.go", "", goTest, false},
		"the space at the end of its lines": {"a_test.go", goTest, strings.ReplaceAll(goTest, "\n", " \n\n"), false},
	} {
		if got := gate.GrowsInside(t.Context(), diff(tt.path, tt.old, tt.now)); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestBlames(t *testing.T) {
	t.Parallel()
	deleted := gate.FindWeakened(t.Context(), []gate.FileDiff{diff("a_test.go", "func TestA(t *testing.T) {\n}\n", "")})
	changed := gate.FindWeakened(t.Context(), []gate.FileDiff{
		diff("package.json", `{"scripts":{"test":"jest"}}`, `{"scripts":{"test":"vitest"}}`),
	})
	tests := []struct {
		name, task string
		findings   []gate.Finding
		known      []string
		sourceGone bool
		want       int
	}{
		{"deleted", "Add a flag", deleted, nil, false, 1},
		{"deleted beside a source file, not asked for", "Add a flag", deleted, nil, true, 1},
		{"asked for", "Remove the tests of the old flag", deleted, nil, false, 0},
		{"asked for by name", "Drop TestA", deleted, nil, false, 0},
		{"goes with what it tested", "Remove the old flag", deleted, nil, true, 0},
		{"removal of something else", "Remove the old flag", deleted, nil, false, 1},
		{"failed before", "Add a flag", deleted, []string{"m TestA"}, false, 0},
		{"another failed before", "Add a flag", deleted, []string{"m TestB"}, false, 1},
		{"command changed", "Add a flag", changed, nil, false, 1},
		{"command was the task", "Switch the test runner to vitest", changed, nil, false, 0},
		{"light findings", "Add a flag", []gate.Finding{{Rule: gate.RuleSkipped}}, nil, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := gate.Blames(run.Task{Title: tt.task}, tt.findings, tt.known, tt.sourceGone); len(got) != tt.want {
				t.Errorf("%d findings are blamed, want %d: %+v", len(got), tt.want, got)
			}
		})
	}
}

func TestUntested(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		diffs []gate.FileDiff
		want  int
	}{
		{"source alone", []gate.FileDiff{diff("a.go", "package a\n", "package a\nvar X = 1\n")}, 1},
		{"source and test", []gate.FileDiff{diff("a.go", "", "package a\n"), diff("a_test.go", "package a\n", goTest)}, 0},
		{
			"test that only lost lines",
			[]gate.FileDiff{diff("a.go", "", "package a\n"), diff("a_test.go", goTest, "package a\n")}, 1,
		},
		{"lines taken away", []gate.FileDiff{diff("a.go", "package a\nvar X = 1\n", "package a\n")}, 0},
		{"comments and empty lines", []gate.FileDiff{diff("a.py", "x = 1\n", "# why\n\nx = 1\n")}, 0},
		{"no source", []gate.FileDiff{diff("README.md", "", "hello\n")}, 0},
		{
			"rust with its test inside",
			[]gate.FileDiff{diff("src/lib.rs", "fn x() {}\n", "fn x() {}\nfn y() {}\n#[test]\nfn t() {}\n")}, 0,
		},
		{"rust without", []gate.FileDiff{diff("src/lib.rs", "fn x() {}\n", "fn x() {}\nfn y() {}\n")}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := gate.FindUntested(t.Context(), tt.diffs); len(got) != tt.want {
				t.Errorf("%d findings, want %d: %+v", len(got), tt.want, got)
			}
		})
	}
}

// FuzzWeakened: hostile files make it neither fail nor find a test gone where
// nothing changed.
func FuzzWeakened(f *testing.F) {
	f.Add("a_test.go", goTest, "package a\n")
	f.Add("package.json", `{"scripts":{"test":"x"}}`, `{"scripts":{"test":1}}`)
	f.Add("Makefile", "test:\n\tx\n", "test: a\\\n")
	f.Fuzz(func(t *testing.T, path, before, after string) {
		gate.FindWeakened(t.Context(), []gate.FileDiff{diff(path, before, after)})
		if got := gate.FindWeakened(t.Context(), []gate.FileDiff{diff(path, before, before)}); before != "" && len(got) > 0 {
			t.Errorf("unchanged, yet %+v", got)
		}
	})
}

func TestAlteredAndVouched(t *testing.T) {
	t.Parallel()
	const old = "package a\n\nimport \"testing\"\n\n// TestPort looks.\nfunc TestPort(t *testing.T) {\n\twant(t, 8080)\n}\n"
	port := func(v string) string { return strings.Replace(old, "8080", v, 1) }
	tests := []struct {
		name, path, now, task string
		sourceGone            bool
		altered, vouched      bool
	}{
		{name: "expects something else", now: port("9090"), task: "Tidy up", altered: true},
		{name: "the task holds the new value", now: port("9090"), task: "Listen on port 9090", altered: true, vouched: true},
		{name: "the task holds the old value only", now: port("9090"), task: "Listen on port 8080", altered: true},
		{name: "the task names the test", now: port("1"), task: "Let TestPort be right", altered: true, vouched: true},
		{name: "the task names the file", now: port("1"), task: "Rework a_test.go", altered: true, vouched: true},
		{name: "the task changes tests", now: port("1"), task: "Update the tests", altered: true, vouched: true},
		{name: "the task adds tests", now: port("1"), task: "Add tests for the parser", altered: true},
		{
			name: "the task takes code away", now: port("1"), task: "Remove the server", sourceGone: true, altered: true,
			vouched: true,
		},
		{name: "a test is added", now: old + "\nfunc TestB(t *testing.T) {}\n", task: "Tidy up"},
		{
			name: "comments, imports and spaces change",
			now:  strings.NewReplacer("looks", "sees", "\"testing\"", "\"os\"", "\t", "    ").Replace(old), task: "Tidy up",
		},
		{name: "a line goes", now: strings.Replace(old, "\twant(t, 8080)\n", "", 1), task: "Tidy up", altered: true},
		{name: "no file of tests", path: "a.go", now: port("9090"), task: "Tidy up"},
		{name: "tests beside code", path: "src/a.rs", now: port("9090"), task: "Tidy up"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := "a_test.go"
			if tt.path != "" {
				path = tt.path
			}
			d := gate.FileDiff{Path: path, Old: []byte(old), New: []byte(tt.now)}
			if got := gate.LosesLines(d); got != tt.altered {
				t.Fatalf("altered: %t, want %t", got, tt.altered)
			}
			if tt.altered {
				if got := gate.AsksToChange(t.Context(), run.Task{Title: tt.task}, d, tt.sourceGone); got != tt.vouched {
					t.Errorf("vouched: %t, want %t", got, tt.vouched)
				}
			}
		})
	}
	for _, d := range []gate.FileDiff{{Path: "a_test.go", New: []byte(old)}, {Path: "a_test.go", Old: []byte(old)}} {
		if gate.LosesLines(d) {
			t.Errorf("a file that is new or gone counts as altered: %+v", d)
		}
	}
}

// TestKnownFailuresOfOtherPlaces: a test of the same name elsewhere is another.
func TestKnownFailuresOfOtherPlaces(t *testing.T) {
	t.Parallel()
	gone := gate.FindWeakened(t.Context(), []gate.FileDiff{
		{Path: "b/b_test.go", Old: []byte("func TestSame(t *testing.T) {}\n"), New: []byte("package b\n")},
	})
	for name, blamed := range map[string]int{
		"example.com/m/b TestSame": 0, "TestSame": 0, "b/b_test.go::TestSame": 0,
		"example.com/m/a TestSame": 1, "example.com/m/b TestOther": 1,
	} {
		if got := len(gate.Blames(run.Task{Title: "Tidy up"}, gone, []string{name}, false)); got != blamed {
			t.Errorf("with %q known to fail: %d findings are blamed, want %d", name, got, blamed)
		}
	}
}
