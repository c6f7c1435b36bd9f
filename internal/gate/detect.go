package gate

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// Root is the top directory of a tree, as detection sees it.
type Root struct {
	// Names lists what is in it; names of directories end in "/".
	Names []string
	// Read gives a file's content; ok is false where there is no plain file.
	Read func(name string) (content []byte, ok bool)
}

func (r Root) has(name string) bool { return slices.Contains(r.Names, name) }

func (r Root) text(name string) string {
	if !r.has(name) {
		return ""
	}
	src, _ := r.Read(name)
	return string(src)
}

// Prepare is how a tree gets its dependencies, once for all trees with the same
// inputs. The zero value prepares nothing.
type Prepare struct {
	// Command is a line for `sh -c`, run in the root of the tree. Where it
	// fails the gate runs all the same: the image may have what is needed.
	Command string
	// Inputs are the files the outcome depends on, separated by spaces.
	Inputs string
	// Keep is the directory it makes.
	Keep string
}

// tool is a check that a repository brings along.
type tool struct {
	// ecosystem is of what it is a part. Of the tools of one kind in one the first counts.
	ecosystem string
	kind      Kind
	// name is "" where it is the command. {pm} in a command is the package manager of Node,
	// and {exec} what runs a program of a Gemfile.
	name, command string
	// needs must all be met; see [Root.meets].
	needs []string
}

const (
	makefiles    = "GNUmakefile makefile Makefile"
	native       = "build-ralph" // a folder that is gone with the copy of the tree
	requirements = "requirements.txt requirements-dev.txt dev-requirements.txt requirements-test.txt " +
		"test-requirements.txt"
	pythonProject = "setup.py Pipfile pyproject.toml setup.cfg tox.ini " + requirements
	pythonTests   = "tests/ test/ test_*.py *_test.py"
	pytest        = "pytest.ini conftest.py pyproject.toml~pytest setup.cfg~pytest tox.ini~pytest Pipfile~pytest " +
		"*requirements*.txt~pytest"
)

// Clippy is the name of the detected gate that Rust's linter is.
const Clippy = "cargo clippy"

var tools = []tool{
	// go vet compiles every package with its tests, which is what it is for here; with -v go
	// test says which tests ran.
	{"go", Typecheck, "go vet", "go vet ./...", []string{"go.mod"}},
	{"go", Test, "go test", "go test -v ./...", []string{"go.mod"}},
	{
		"go", Lint, "golangci-lint", "golangci-lint run",
		[]string{"go.mod", ".golangci.y*ml .golangci.toml .golangci.json"},
	},

	{"node", Test, "", "{pm} test", []string{"package.json#test"}},
	{"node", Typecheck, "", "{pm} run typecheck", []string{"package.json#typecheck"}},
	{"node", Typecheck, "", "{pm} run type-check", []string{"package.json#type-check"}},
	{"node", Typecheck, "", "{pm} run check-types", []string{"package.json#check-types"}},
	{"node", Typecheck, "", "{pm} run tsc", []string{"package.json#tsc"}},
	{"node", Lint, "", "{pm} run lint", []string{"package.json#lint"}},
	{"node", Build, "", "{pm} run build", []string{"package.json#build"}},

	{"python", Test, "pytest", "python3 -m pytest", []string{pythonProject, pythonTests, pytest}},
	{"python", Test, "", "tox", []string{`tox.ini~\[testenv`}},
	{"python", Test, "unittest", "python3 -m unittest discover -s tests", []string{pythonProject, "tests/"}},
	{"python", Test, "unittest", "python3 -m unittest discover", []string{pythonProject, pythonTests}},
	{
		"python", Typecheck, "mypy", "python3 -m mypy .",
		[]string{`pyproject.toml~\[tool\.mypy setup.cfg~\[mypy mypy.ini .mypy.ini`},
	},
	{"python", Lint, "ruff", "ruff check .", []string{`pyproject.toml~\[tool\.ruff ruff.toml .ruff.toml`}},
	{"python", Lint, "flake8", "python3 -m flake8", []string{`.flake8 setup.cfg~\[flake8 tox.ini~\[flake8`}},

	{"rust", Test, "", "cargo test --workspace", []string{`Cargo.toml~\[workspace\]`}},
	{"rust", Test, "", "cargo test", []string{"Cargo.toml"}},
	{"rust", Lint, Clippy, "cargo clippy --all-targets", []string{"Cargo.toml"}},

	{"jvm", Test, "./mvnw test", "./mvnw -B -ntp test", []string{"pom.xml", "mvnw"}},
	{"jvm", Test, "mvn test", "mvn -B -ntp test", []string{"pom.xml"}},
	{
		"jvm", Test, "./gradlew test", "./gradlew --console=plain test",
		[]string{"build.gradle build.gradle.kts", "gradlew"},
	},
	{"jvm", Test, "gradle test", "gradle --console=plain test", []string{"build.gradle build.gradle.kts"}},

	{"ruby", Test, "rspec", "{exec}rspec", []string{"spec/", ".rspec Gemfile~rspec"}},
	{
		"ruby", Test, "rake test", "{exec}rake test",
		[]string{`Rakefile~TestTask\.new|(?m:^\s*task[\x20(]+:?["']?test\b)`},
	},
	{"ruby", Lint, "rubocop", "{exec}rubocop", []string{"Gemfile Rakefile .rspec", ".rubocop.yml"}},

	{"php", Test, "", "composer test", []string{"composer.json#test"}},
	{"php", Test, "phpunit", "vendor/bin/phpunit", []string{"composer.json", "phpunit.xml phpunit.xml.dist"}},
	{
		"php", Typecheck, "phpstan", "vendor/bin/phpstan analyse --no-progress",
		[]string{"composer.json", "phpstan.neon phpstan.neon.dist"},
	},
	{"php", Lint, "", "composer lint", []string{"composer.json#lint"}},

	{"dotnet", Test, "", "dotnet test", []string{"*.sln *.slnx *.csproj *.fsproj *.vbproj"}},

	{
		"c", Test, "ctest",
		"cmake -S . -B " + native + " && cmake --build " + native + " && ctest --test-dir " + native +
			" --output-on-failure",
		[]string{`CMakeLists.txt~(?mi)^\s*(?:enable_testing\s*\(|include\s*\(\s*CTest\b)`},
	},
	{"c", Build, "cmake", "cmake -S . -B " + native + " && cmake --build " + native, []string{"CMakeLists.txt"}},
	{
		"c", Test, "meson test", "meson setup " + native + " && meson test -C " + native + " --print-errorlogs",
		[]string{"meson.build"},
	},
	{"c", Build, "", "make", []string{makefiles, "*.c *.cc *.cpp *.cxx"}},
}

// lock is how the dependencies of an ecosystem get there; the first whose needs are met counts.
type lock struct {
	ecosystem, needs string
	prepare          Prepare
}

var locks = []lock{
	{"npm", "package-lock.json", Prepare{
		"npm ci --no-audit --no-fund", "package.json package-lock.json", "node_modules",
	}},
	{"pnpm", "pnpm-lock.yaml", Prepare{
		"pnpm install --frozen-lockfile", "package.json pnpm-lock.yaml", "node_modules",
	}},
	{"yarn", `yarn.lock~#\x20yarn\x20lockfile\x20v1`, Prepare{
		"yarn install --frozen-lockfile", "package.json yarn.lock", "node_modules",
	}},
	{"yarn", "yarn.lock", Prepare{"yarn install --immutable", "package.json yarn.lock", "node_modules"}},
	{"python", "uv.lock", Prepare{"uv sync --frozen --all-groups --all-extras", "pyproject.toml uv.lock", ".venv"}},
	{"python", "poetry.lock", Prepare{
		"POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction --all-extras", "pyproject.toml poetry.lock",
		".venv",
	}},
	{"python", "Pipfile.lock", Prepare{"PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev", "Pipfile Pipfile.lock", ".venv"}},
	{"python", requirements, Prepare{
		"python3 -m venv --system-site-packages .venv && .venv/bin/pip install -q", "", ".venv",
	}},
	{"ruby", "Gemfile", Prepare{
		"bundle config set --local path vendor/bundle && bundle install --quiet", "Gemfile Gemfile.lock",
		"vendor/bundle",
	}},
	{"php", "composer.json", Prepare{
		"composer install --no-interaction --no-progress", "composer.json composer.lock", "vendor",
	}},
}

// meets says whether the root has one of some things, separated by spaces: a name or pattern
// (path.Match), a file with a text that an expression matches (file~expression), or with a script
// of that name (file#script).
func (r Root) meets(any string) bool {
	return slices.ContainsFunc(strings.Fields(any), func(one string) bool {
		if file, script, ok := strings.Cut(one, "#"); ok && !strings.Contains(file, "~") {
			return r.script(file, script)
		}
		pattern, text, inside := strings.Cut(one, "~")
		return slices.ContainsFunc(r.Names, func(name string) bool {
			ok, err := path.Match(pattern, name)
			return ok && err == nil && (!inside || regexp.MustCompile(text).MatchString(r.text(name)))
		})
	})
}

// script says whether a package.json or composer.json has a script. `npm init` writes one for
// tests that only fails; that does not count.
func (r Root) script(file, name string) bool {
	var p struct {
		Scripts map[string]any `json:"scripts"`
	}
	if json.Unmarshal([]byte(r.text(file)), &p) != nil {
		return false
	}
	script, isText := p.Scripts[name].(string)
	if isText {
		return script != "" && !strings.Contains(script, "no test specified")
	}
	return p.Scripts[name] != nil
}

// Detect finds the checks a repository brings along. What a Makefile, a
// justfile or a Taskfile calls test is what the maintainers chose: it stands
// for all others. Without one the files of each ecosystem decide. Linters that
// nobody asked for are advisory.
func Detect(r Root) []Gate {
	gates := runners(r)
	chosen := map[Kind]bool{}
	for _, g := range gates {
		chosen[g.Kind] = true
	}
	if chosen[Test] {
		return gates
	}
	pm := r.packageManager()
	exec := ""
	if r.text("Gemfile") != "" {
		exec = "bundle exec "
	}
	command := strings.NewReplacer("{pm}", pm, "{exec}", exec)
	have := map[string]bool{}
	for _, t := range tools {
		key := t.ecosystem + " " + string(t.kind)
		if t.ecosystem == "c" { // one build is enough
			key = t.ecosystem
		}
		if have[key] || slices.ContainsFunc(t.needs, func(n string) bool { return !r.meets(n) }) {
			continue
		}
		if have[key] = true; chosen[t.kind] {
			continue
		}
		g := found(t.kind, t.name, command.Replace(t.command))
		g.Prepare = r.prepare(strings.Replace(t.ecosystem, "node", pm, 1))
		gates = append(gates, g)
	}
	return gates
}

// found is a detected gate; its name is its command where it has no other.
func found(kind Kind, name, command string) Gate {
	return Gate{Name: name, Kind: kind, Command: command, Detected: true, Advisory: kind == Lint}.WithDefaults()
}

func (r Root) prepare(ecosystem string) Prepare {
	for _, l := range locks {
		if l.ecosystem != ecosystem || !r.meets(l.needs) {
			continue
		}
		p := l.prepare
		if l.needs == requirements {
			files := slices.DeleteFunc(strings.Fields(requirements), func(name string) bool { return !r.has(name) })
			p.Command, p.Inputs = p.Command+" -r "+strings.Join(files, " -r "), strings.Join(files, " ")
		}
		return p
	}
	return Prepare{}
}

func (r Root) packageManager() string {
	var pkg struct {
		PackageManager string `json:"packageManager"`
	}
	_ = json.Unmarshal([]byte(r.text("package.json")), &pkg) // without it the lock file decides
	manager, _, _ := strings.Cut(pkg.PackageManager, "@")
	switch {
	case manager == "pnpm" || manager == "yarn" || manager == "npm":
		return manager
	case r.has("pnpm-lock.yaml"):
		return "pnpm"
	case r.has("yarn.lock"):
		return "yarn"
	}
	return "npm"
}

// runners finds the targets of task runners.
func runners(r Root) []Gate {
	var gates []Gate
	for _, runner := range []struct {
		command, files string
		targets        func(src string) map[string]bool
	}{
		{"make", makefiles, makeTargets},
		{"just", "justfile Justfile .justfile", justRecipes},
		{"task", "Taskfile.yml Taskfile.yaml", taskfileTasks},
	} {
		var targets map[string]bool
		for name := range strings.FieldsSeq(runner.files) {
			if src := r.text(name); src != "" {
				targets = runner.targets(src)
				break // make itself reads the first it finds
			}
		}
		test := "test"
		if !targets[test] {
			test = "check"
		}
		for _, t := range []struct {
			kind Kind
			name string
		}{{Test, test}, {Lint, "lint"}, {Typecheck, "typecheck"}} {
			if targets[t.name] {
				gates = append(gates, found(t.kind, "", runner.command+" "+t.name))
			}
		}
		if len(gates) > 0 {
			break
		}
	}
	return gates
}

// isTarget says whether a check has that name with task runners.
func isTarget(name string) bool {
	return name == "test" || name == "check" || name == "lint" || name == "typecheck"
}

// makeTargets are the checks among the targets of a Makefile. Variables, targets that only
// set one, and targets that do nothing are left out. Time is linear in the length of src.
func makeTargets(src string) map[string]bool {
	does := map[string]bool{}
	current := map[string]bool{} // those of the rule at hand
	for line := range strings.SplitSeq(strings.ReplaceAll(src, "\\\n", " "), "\n") {
		if strings.HasPrefix(line, "\t") {
			for name := range current {
				does[name] = does[name] || strings.TrimSpace(line) != ""
			}
			continue
		}
		line, _, _ = strings.Cut(strings.TrimRight(line, "\r"), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		clear(current)
		left, right, ok := strings.Cut(line, ":")
		deps, recipe, _ := strings.Cut(right, ";")
		if !ok || strings.Contains(left+deps, "=") { // a variable
			continue
		}
		for name := range strings.FieldsSeq(left) {
			if isTarget(name) {
				current[name] = true
				does[name] = does[name] || strings.Trim(deps+recipe, ": \t") != ""
			}
		}
	}
	return does
}

var (
	justRecipe = strs.Lazy(`^@?([a-z]+)[^\n:=]*:(?:[^=]|$)`)
	taskName   = strs.Lazy(`^  "?([a-z]+)"?:`)
)

func justRecipes(src string) map[string]bool { return namedLines(src, justRecipe()) }

func taskfileTasks(src string) map[string]bool {
	_, tasks, _ := strings.Cut("\n"+src, "\ntasks:")
	return namedLines(tasks, taskName())
}

// namedLines are the checks that lines of src name, as the first group of re.
func namedLines(src string, re *regexp.Regexp) map[string]bool {
	targets := map[string]bool{}
	for line := range strings.Lines(src) {
		if m := re.FindStringSubmatch(line); m != nil && isTarget(m[1]) {
			targets[m[1]] = true
		}
	}
	return targets
}
