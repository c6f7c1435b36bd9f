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

// glob says whether a name matches the pattern (path.Match).
func (r Root) glob(pattern string) bool {
	return slices.ContainsFunc(r.Names, func(name string) bool {
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	})
}

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

// Detect finds the checks a repository brings along. What a Makefile, a
// justfile or a Taskfile calls test is what the maintainers chose: it stands
// for all others. Without one the files of each ecosystem decide. Linters that
// nobody asked for are advisory.
func Detect(r Root) []Gate {
	gates := runners(r)
	if kinds(gates)[Test] {
		return gates
	}
	have := kinds(gates)
	for _, ecosystem := range []func(Root) []Gate{
		golang, node, python, rust, jvm, ruby, php, dotnet, native,
	} {
		for _, g := range ecosystem(r) {
			if !have[g.Kind] {
				gates = append(gates, g)
			}
		}
	}
	return gates
}

func kinds(gates []Gate) map[Kind]bool {
	have := map[Kind]bool{}
	for _, g := range gates {
		have[g.Kind] = true
	}
	return have
}

// found is a detected gate; its name is its command where that is short.
func found(kind Kind, name, command string) Gate {
	return Gate{Name: name, Kind: kind, Command: command, Detected: true, Advisory: kind == Lint}.WithDefaults()
}

// same is a detected gate whose name is its command.
func same(kind Kind, command string) Gate { return found(kind, command, command) }

func prepared(p Prepare, gates ...Gate) []Gate {
	for i := range gates {
		gates[i].Prepare = p
	}
	return gates
}

// runners finds the targets of task runners.
func runners(r Root) []Gate {
	targets := map[string]bool{}
	command := "make"
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
		if src := r.text(name); src != "" {
			for target, does := range makeTargets(src, runnerTargets[:]) {
				targets[target] = does != ""
			}
			break // make itself reads the first it finds
		}
	}
	if !anyOf(targets) {
		command, targets = "just", justRecipes(r)
	}
	if !anyOf(targets) {
		command, targets = "task", taskfileTasks(r)
	}
	var gates []Gate
	for _, want := range []struct {
		kind  Kind
		names []string
	}{
		{Test, []string{"test", "check"}},
		{Lint, []string{"lint"}},
		{Typecheck, []string{"typecheck"}},
	} {
		for _, name := range want.names {
			if targets[name] {
				gates = append(gates, same(want.kind, command+" "+name))
				break
			}
		}
	}
	return gates
}

// runnerTargets are the names that checks have with task runners.
var runnerTargets = [...]string{"test", "check", "lint", "typecheck"}

func anyOf(targets map[string]bool) bool {
	return slices.ContainsFunc(runnerTargets[:], func(name string) bool { return targets[name] })
}

var makeVariable = strs.Lazy(`^\s*(?:export\s+|override\s+|private\s+)*[\w.-]+\s*(?:[:+?!]|::)?=`)

// makeTargets gives those of the named targets that a Makefile has, and what each of
// them does: its prerequisites and its recipe. Variables, and targets that only set
// one, are left out; a target that does nothing is "". Time and memory are linear in
// the length of src, times the number of names.
func makeTargets(src string, names []string) map[string]string {
	does := map[string]*strings.Builder{}
	var current []*strings.Builder
	for line := range strings.SplitSeq(strings.ReplaceAll(src, "\\\n", " "), "\n") {
		if strings.HasPrefix(line, "\t") {
			for _, b := range current {
				b.WriteString(strings.TrimSpace(line) + "\n")
			}
			continue
		}
		line, _, _ = strings.Cut(strings.TrimRight(line, "\r"), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		left, right, ok := strings.Cut(line, ":")
		if !ok || strings.Contains(left, "=") || strings.HasPrefix(right, "=") || strings.HasPrefix(right, ":=") {
			if !strings.HasPrefix(line, " ") {
				current = nil
			}
			continue
		}
		current = nil
		right = strings.TrimPrefix(right, ":")
		if strings.Contains(right, "=") && makeVariable().MatchString(right) {
			continue
		}
		body := ruleBody(right)
		for name := range strings.FieldsSeq(left) {
			if !slices.Contains(names, name) {
				continue
			}
			if does[name] == nil {
				does[name] = &strings.Builder{}
			}
			// A name that a rule has twice is one target, and its recipe runs once.
			if b := does[name]; !slices.Contains(current, b) {
				b.WriteString(body)
				current = append(current, b)
			}
		}
	}
	targets := map[string]string{}
	for name, b := range does {
		targets[name] = b.String()
	}
	return targets
}

// ruleBody is what the line of a rule says after the colon: the prerequisites and, after
// a semicolon, the start of the recipe.
func ruleBody(right string) string {
	deps, inline, _ := strings.Cut(right, ";")
	body := strings.TrimSpace(deps)
	if inline = strings.TrimSpace(inline); inline != "" {
		body += "\n" + inline
	}
	if body != "" {
		body += "\n"
	}
	return body
}

var (
	justRecipe = strs.Lazy(`^@?([A-Za-z_][\w-]*)[^\n:=]*:(?:[^=]|$)`)
	taskName   = strs.Lazy(`^  "?([A-Za-z_][\w-]*)"?:`)
)

func justRecipes(r Root) map[string]bool {
	targets := map[string]bool{}
	for _, name := range []string{"justfile", "Justfile", ".justfile"} {
		nameLines(targets, r.text(name), justRecipe)
	}
	return targets
}

func taskfileTasks(r Root) map[string]bool {
	targets := map[string]bool{}
	for _, name := range []string{"Taskfile.yml", "Taskfile.yaml"} {
		_, tasks, ok := strings.Cut("\n"+r.text(name), "\ntasks:")
		if ok {
			nameLines(targets, tasks, taskName)
		}
	}
	return targets
}

// nameLines notes which of runnerTargets a line of src names, as the first group of
// re.
func nameLines(targets map[string]bool, src string, re func() *regexp.Regexp) {
	for line := range strings.Lines(src) {
		start := strings.TrimLeft(line, ` @"`) // most lines are about something else, and need no expression
		if !slices.ContainsFunc(runnerTargets[:], func(name string) bool { return strings.HasPrefix(start, name) }) {
			continue
		}
		if m := re().FindStringSubmatch(line); m != nil && slices.Contains(runnerTargets[:], m[1]) {
			targets[m[1]] = true
		}
	}
}

func golang(r Root) []Gate {
	if !r.has("go.mod") {
		return nil
	}
	gates := []Gate{
		// It compiles every package with its tests, which is what it is for here.
		same(Typecheck, "go vet ./..."),
		// With -v it says which tests ran.
		same(Test, "go test -v ./..."),
	}
	gates[0].Name, gates[1].Name = "go vet", "go test"
	if r.glob(".golangci.y*ml") || r.has(".golangci.toml") || r.has(".golangci.json") {
		gates = append(gates, found(Lint, "golangci-lint", "golangci-lint run"))
	}
	return gates
}

// packageJSON is what matters of a package.json.
type packageJSON struct {
	Scripts        map[string]string `json:"scripts"`
	PackageManager string            `json:"packageManager"`
}

// node reads the scripts of package.json. `npm init` writes a test script that
// only fails; that one does not count.
func node(r Root) []Gate {
	var pkg packageJSON
	if json.Unmarshal([]byte(r.text("package.json")), &pkg) != nil {
		return nil
	}
	manager, p := packageManager(r, pkg)
	var gates []Gate
	for _, want := range []struct {
		kind  Kind
		names []string
	}{
		{Test, []string{"test"}},
		{Typecheck, []string{"typecheck", "type-check", "check-types", "tsc"}},
		{Lint, []string{"lint"}},
		{Build, []string{"build"}},
	} {
		for _, name := range want.names {
			script := pkg.Scripts[name]
			if script == "" || strings.Contains(script, "no test specified") {
				continue
			}
			command := manager + " run " + name
			if name == "test" {
				command = manager + " test"
			}
			gates = append(gates, same(want.kind, command))
			break
		}
	}
	return prepared(p, gates...)
}

func packageManager(r Root, pkg packageJSON) (string, Prepare) {
	p := Prepare{Keep: "node_modules"}
	manager, _, _ := strings.Cut(pkg.PackageManager, "@")
	switch {
	case manager == "pnpm" || manager == "yarn" || manager == "npm":
	case r.has("pnpm-lock.yaml"):
		manager = "pnpm"
	case r.has("yarn.lock"):
		manager = "yarn"
	default:
		manager = "npm"
	}
	lock := map[string]string{"pnpm": "pnpm-lock.yaml", "yarn": "yarn.lock", "npm": "package-lock.json"}[manager]
	if !r.has(lock) {
		return manager, Prepare{}
	}
	p.Inputs = "package.json " + lock
	switch {
	case manager == "npm":
		p.Command = "npm ci --no-audit --no-fund"
	case manager == "pnpm":
		p.Command = "pnpm install --frozen-lockfile"
	case strings.Contains(r.text(lock), "# yarn lockfile v1"):
		p.Command = "yarn install --frozen-lockfile"
	default:
		p.Command = "yarn install --immutable"
	}
	return manager, p
}

func rust(r Root) []Gate {
	src := r.text("Cargo.toml")
	if src == "" {
		return nil
	}
	test := "cargo test"
	if strings.Contains(src, "[workspace]") {
		test += " --workspace"
	}
	return []Gate{same(Test, test), found(Lint, Clippy, "cargo clippy --all-targets")}
}

// Clippy is the name of the detected gate that Rust's linter is.
const Clippy = "cargo clippy"

func jvm(r Root) []Gate {
	switch {
	case r.has("pom.xml"):
		command := "mvn"
		if r.has("mvnw") {
			command = "./mvnw"
		}
		return []Gate{found(Test, command+" test", command+" -B -ntp test")}
	case r.has("build.gradle") || r.has("build.gradle.kts"):
		command := "gradle"
		if r.has("gradlew") {
			command = "./gradlew"
		}
		return []Gate{found(Test, command+" test", command+" --console=plain test")}
	default:
		return nil
	}
}

var rakeTest = strs.Lazy(`(?m)TestTask\.new|^\s*task[ (]+:?["']?test\b`)

func ruby(r Root) []Gate {
	gemfile := r.text("Gemfile")
	if gemfile == "" && !r.has("Rakefile") && !r.has(".rspec") {
		return nil
	}
	exec := ""
	var p Prepare
	if gemfile != "" {
		exec = "bundle exec "
		p = Prepare{
			Command: "bundle config set --local path vendor/bundle && bundle install --quiet", Inputs: "Gemfile Gemfile.lock",
			Keep: "vendor/bundle",
		}
	}
	var gates []Gate
	switch {
	case r.has("spec/") && (r.has(".rspec") || strings.Contains(gemfile, "rspec")):
		gates = append(gates, found(Test, "rspec", exec+"rspec"))
	case rakeTest().MatchString(r.text("Rakefile")):
		gates = append(gates, found(Test, "rake test", exec+"rake test"))
	}
	if r.has(".rubocop.yml") {
		gates = append(gates, found(Lint, "rubocop", exec+"rubocop"))
	}
	return prepared(p, gates...)
}

func php(r Root) []Gate {
	var composer struct {
		Scripts map[string]any `json:"scripts"`
	}
	src := r.text("composer.json")
	if src == "" || json.Unmarshal([]byte(src), &composer) != nil {
		return nil
	}
	var gates []Gate
	switch {
	case composer.Scripts["test"] != nil:
		gates = append(gates, same(Test, "composer test"))
	case r.has("phpunit.xml") || r.has("phpunit.xml.dist"):
		gates = append(gates, found(Test, "phpunit", "vendor/bin/phpunit"))
	}
	if r.has("phpstan.neon") || r.has("phpstan.neon.dist") {
		gates = append(gates, found(Typecheck, "phpstan", "vendor/bin/phpstan analyse --no-progress"))
	}
	if composer.Scripts["lint"] != nil {
		gates = append(gates, same(Lint, "composer lint"))
	}
	return prepared(Prepare{
		Command: "composer install --no-interaction --no-progress", Inputs: "composer.json composer.lock", Keep: "vendor",
	}, gates...)
}

func dotnet(r Root) []Gate {
	if slices.ContainsFunc([]string{"*.sln", "*.slnx", "*.csproj", "*.fsproj", "*.vbproj"}, r.glob) {
		return []Gate{same(Test, "dotnet test")}
	}
	return nil
}

var cmakeTests = strs.Lazy(`(?mi)^\s*(?:enable_testing\s*\(|include\s*\(\s*CTest\b)`)

// native is C and C++. Builds go to a folder of their own, which is gone with
// the copy of the tree.
func native(r Root) []Gate {
	const dir = "build-ralph"
	switch cmake := r.text("CMakeLists.txt"); {
	case cmake != "":
		build := "cmake -S . -B " + dir + " && cmake --build " + dir
		if cmakeTests().MatchString(cmake) {
			return []Gate{found(Test, "ctest", build+" && ctest --test-dir "+dir+" --output-on-failure")}
		}
		return []Gate{found(Build, "cmake", build)}
	case r.has("meson.build"):
		return []Gate{found(Test, "meson test", "meson setup "+dir+" && meson test -C "+dir+" --print-errorlogs")}
	case r.has("Makefile") || r.has("makefile") || r.has("GNUmakefile"):
		if r.glob("*.c") || r.glob("*.cc") || r.glob("*.cpp") || r.glob("*.cxx") {
			return []Gate{same(Build, "make")}
		}
	}
	return nil
}
