package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
)

// files is a tree: path to content.
type files map[string]string

// piece is the smallest thing that is true or not of a tree: a constant of a
// source file has the value it should have.
type piece struct {
	file, name, value string
}

// test is the name of the test that looks at the piece.
func (p piece) test() string { return "Test" + strings.ToUpper(p.name[:1]) + p.name[1:] }

// held says whether the piece is true of a tree.
func (p piece) held(f files) bool {
	got, ok := value(f[p.file], p.name)
	return ok && got == p.value
}

// module is what one task of the plan is about.
type module struct {
	name   string
	trait  Trait
	pieces []piece
	// with is the module whose task brings the values of this one along, "" for none.
	with string
}

// needs is how many calls the task takes by its nature: one, one for each part that
// a call does, or, where nothing is left to do, one that says so and one that looks.
func (m module) needs() int {
	switch m.trait {
	case TraitPartial:
		return len(m.paths())
	case TraitAlready:
		return 2
	case TraitPlain, TraitNeedsSplit, TraitNeedsError, TraitLoops, TraitHopeless, TraitAsks, TraitBlocked, TraitDefault,
		TraitRenames, TraitRunner:
	}
	return 1
}

func (m module) held(f files) bool {
	return !slices.ContainsFunc(m.pieces, func(p piece) bool { return !p.held(f) })
}

// paths are the source files of the module, in order.
func (m module) paths() []string {
	var out []string
	for _, p := range m.pieces {
		if !slices.Contains(out, p.file) {
			out = append(out, p.file)
		}
	}
	return out
}

// project is a repository at its base, what is wanted of it, and what is odd
// about it.
type project struct {
	base    files
	modules []module // one for each task, in the order of the plan
	old     []piece  // what worked at the base
	// knownFailing are the tests that fail at the base.
	knownFailing map[string]bool
	// outdated are the files of tests at the base that a task is to change.
	outdated   map[string]bool
	conditions map[Condition]bool
	budget     float64
}

// issue is the body of the issue: one task for each module, or what is wanted in
// prose where the run is to plan.
func (p *project) issue() string {
	if p.conditions[ConditionPlanned] {
		return p.prose()
	}
	var b strings.Builder
	b.WriteString("The values below are wanted. Each has its test already.\n\n")
	for _, m := range p.modules {
		fmt.Fprintf(&b, "- [ ] Make %s right\n", m.name)
		for _, x := range m.pieces {
			fmt.Fprintf(&b, "  - Accept: %s: %s is %q\n", x.file, x.name, x.value)
		}
	}
	return b.String()
}

// pieces are all pieces that are wanted or were there.
func (p *project) pieces() []piece {
	all := slices.Clone(p.old)
	for _, m := range p.modules {
		all = append(all, m.pieces...)
	}
	return all
}

func (p *project) module(name string) (module, bool) {
	i := slices.IndexFunc(p.modules, func(m module) bool { return m.name == name })
	if i < 0 {
		return module{}, false
	}
	return p.modules[i], true
}

// done says whether a tree is what was wanted: each task is solved, what worked
// still works, and all of it compiles.
func (p *project) done(f files) bool {
	return !slices.ContainsFunc(p.pieces(), func(x piece) bool { return !x.held(f) }) && vet(f) == ""
}

var words = [...]string{"alpha", "bravo", "cedar", "delta", "ember", "flint", "grove", "haven"}

// newProject draws a project.
func newProject(m Mix, rnd *rand.Rand) *project {
	p := &project{
		base:         files{"go.mod": "module example.com/app\n\ngo 1.26\n", "README.md": "# App\n\nAn application.\n"},
		knownFailing: map[string]bool{}, outdated: map[string]bool{}, conditions: map[Condition]bool{}, budget: m.Limits.BudgetUSD,
	}
	all := Conditions()
	first := slices.Index(all, ConditionPlanned)
	for _, c := range all[:first] {
		p.conditions[c] = rnd.Float64() < m.Conditions[c]
	}
	for i := range 3 {
		old := p.draw(rnd, fmt.Sprintf("b%02d", i+1), 1, 2)
		for _, x := range old.pieces {
			setPiece(p.base, x, x.value)
		}
		p.old = append(p.old, old.pieces...)
	}
	if p.conditions[ConditionFailingTest] {
		// Its name is its own: two tests of one name in a package do not compile.
		src := testFile("b02", piece{file: "b02/" + words[0] + ".go", name: words[0], value: "as it was last year"})
		p.base["b02/old_test.go"] = strings.Replace(src, "func Test", "func TestOld", 1)
		p.knownFailing["b02.TestOld"+strings.ToUpper(words[0][:1])+words[0][1:]+" (old_test.go)"] = true
	}
	if p.conditions[ConditionFlakyTest] {
		p.base["b03/flaky_test.go"] = "package b03\n\nimport \"testing\"\n\nfunc TestCache(t *testing.T) " +
			"{\n\tdependsOnTiming(t)\n}\n"
	}
	n := m.MinTasks + rnd.IntN(m.MaxTasks-m.MinTasks+1)
	for i := range n {
		trait := pick(rnd, Traits(), m.Tasks)
		parts := 1
		switch trait {
		case TraitNeedsSplit:
			parts = 2 + rnd.IntN(3)
		case TraitPartial:
			parts = 2 + rnd.IntN(4)
		case TraitPlain, TraitNeedsError, TraitLoops, TraitHopeless, TraitAsks, TraitAlready, TraitBlocked, TraitDefault,
			TraitRenames, TraitRunner:
		}
		mod := p.draw(rnd, fmt.Sprintf("m%02d", i+1), parts, 1+rnd.IntN(3))
		mod.trait = trait
		switch trait {
		case TraitAlready:
			p.bring(rnd, &mod)
		case TraitDefault:
			p.begin(mod)
		}
		p.modules = append(p.modules, mod)
	}
	if p.conditions[ConditionSpender] {
		p.budget = max(1, float64(n))
	}
	// Drawn last, and only where the mix has them: a mix without them gives the
	// projects that it gave before there were any.
	for _, c := range all[first:] {
		p.conditions[c] = m.Conditions[c] > 0 && rnd.Float64() < m.Conditions[c]
	}
	return p
}

// bring has the values of a module be there when its task begins: from the start or,
// half of the time, since the task before, where any call can do that one.
func (p *project) bring(rnd *rand.Rand, mod *module) {
	before := len(p.modules) - 1
	if rnd.IntN(2) == 0 && before >= 0 && p.modules[before].trait == TraitPlain {
		mod.with = p.modules[before].name
		return
	}
	for _, x := range mod.pieces {
		setPiece(p.base, x, x.value)
	}
}

// begin has the values of a module be others at first, as its test expects.
func (p *project) begin(mod module) {
	was := slices.Clone(mod.pieces)
	for i := range was {
		was[i].value = "was-" + was[i].name
		setPiece(p.base, was[i], was[i].value)
	}
	test := mod.name + "/" + mod.name + "_test.go"
	p.base[test] = testFile(mod.name, was...)
	p.outdated[test] = true
}

// draw makes a module of some files with some pieces each, not yet done, and the
// test that looks at it.
func (p *project) draw(rnd *rand.Rand, name string, parts, each int) module {
	m := module{name: name}
	for i := range parts {
		file := name + "/" + words[i] + ".go"
		var src strings.Builder
		src.WriteString("package " + name + "\n\n")
		for j := range each {
			x := piece{file: file, name: words[i], value: fmt.Sprintf("%s-%04x", words[i], rnd.IntN(1<<16))}
			if j > 0 {
				x.name += words[j][:1] // one name a package
			}
			m.pieces = append(m.pieces, x)
			src.WriteString("// TODO " + x.name + "\n")
		}
		p.base[file] = src.String()
	}
	p.base[name+"/"+name+"_test.go"] = testFile(name, m.pieces...)
	return m
}

func testFile(pkg string, pieces ...piece) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n\nimport \"testing\"\n", pkg)
	for _, x := range pieces {
		fmt.Fprintf(&b, "\nfunc %s(t *testing.T) {\n\twant(t, %s, %q)\n}\n", x.test(), x.name, x.value)
	}
	return b.String()
}

// pick draws one of the keys by its share, or none.
func pick[K ~string](rnd *rand.Rand, keys []K, shares map[K]float64) K {
	at := rnd.Float64()
	for _, k := range keys {
		if at -= shares[k]; at < 0 {
			return k
		}
	}
	return ""
}

// --- the language of the sources: constants, things to do, and damage --------

const broken = "<<<<<<< not finished"

// value is the value of a constant in a source file.
func value(src, name string) (string, bool) {
	prefix := "const " + name + " = "
	for line := range strings.Lines(src) {
		if rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), prefix); ok {
			return strings.Trim(rest, `"`), true
		}
	}
	return "", false
}

// setPiece writes a value for a piece, and leaves its file fit to compile.
func setPiece(f files, x piece, value string) {
	line := fmt.Sprintf("const %s = %q", x.name, value)
	src, ok := f[x.file]
	if !ok {
		src = "package " + path.Dir(x.file) + "\n\n"
	}
	lines := strings.Split(strings.TrimRight(src, "\n"), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == broken })
	at := slices.IndexFunc(lines, func(l string) bool {
		return l == "// TODO "+x.name || strings.HasPrefix(l, "const "+x.name+" = ")
	})
	if at < 0 {
		lines = append(lines, line)
	} else {
		lines[at] = line
	}
	f[x.file] = strings.Join(lines, "\n") + "\n"
}

// --- the checks: functions of a tree ----------------------------------------

// The commands of the checks. vet and test run on each proposal, accept at the
// end: it looks at all that is wanted, begun or not, and prints words of its own
// rather than names of tests. So nothing of it counts as known from the base.
const (
	vetCommand    = "go vet ./..."
	testCommand   = "go test ./..."
	acceptCommand = "make accept"
)

// vet is what the compiler says, "" where it is content.
func vet(f files) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if !strings.HasSuffix(name, ".go") || !strings.Contains(f[name], broken) {
			continue
		}
		line := 1 + strings.Count(f[name][:strings.Index(f[name], broken)], "\n")
		fmt.Fprintf(&b, "vet: ./%s:%d:1: syntax error: non-declaration statement outside function body\n", name, line)
	}
	return b.String()
}

// failure is a test that failed.
type failure struct {
	// id names the test: package and function, and the file where it is not the
	// package's own.
	id   string
	pkg  string
	test string
	// at is the line that found it, what is what it says.
	at, what string
}

var (
	testFunc = regexp.MustCompile(`^func (Test\w+)\(`)
	wantCall = regexp.MustCompile(`^\twant\(t, (\w+), "([^"]*)"\)`)
)

// testCase is one test as it stands in a test file.
type testCase struct {
	name, of, want string
	line           int
	flaky          bool
}

// parseTests reads the tests of a test file.
func parseTests(src string) []testCase {
	var out []testCase
	name, n := "", 0
	for line := range strings.Lines(src) {
		n++
		if m := testFunc.FindStringSubmatch(line); m != nil {
			name = m[1]
		} else if m := wantCall.FindStringSubmatch(line); m != nil && name != "" {
			out = append(out, testCase{name: name, of: m[1], want: m[2], line: n})
		} else if strings.HasPrefix(line, "\tdependsOnTiming(") && name != "" {
			out = append(out, testCase{name: name, line: n, flaky: true})
		}
	}
	return out
}

// checker runs tests and remembers what it has parsed.
type checker struct{ parsed map[string][]testCase }

func newChecker() *checker { return &checker{parsed: map[string][]testCase{}} }

func (c *checker) tests(src string) []testCase {
	cases, ok := c.parsed[src]
	if !ok {
		cases = parseTests(src)
		c.parsed[src] = cases
	}
	return cases
}

// run runs the tests of a tree. A source file nobody has begun is skipped, or,
// where all is to be there, failed. late makes the flaky test fail.
func (c *checker) run(f files, all, late bool) []failure {
	var out []failure
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if !strings.HasSuffix(name, "_test.go") || all && name[0] != 'm' {
			continue
		}
		pkg := path.Dir(name)
		for _, t := range c.tests(f[name]) {
			what := ""
			if t.flaky {
				if late {
					what = "timed out waiting for the cache"
				}
			} else {
				what = judgeTest(f, pkg, t, all)
			}
			if what == "" {
				continue
			}
			id := pkg + "." + t.name
			if path.Base(name) != pkg+"_test.go" {
				id += " (" + path.Base(name) + ")"
			}
			out = append(out, failure{
				id: id, pkg: pkg, test: t.name, at: fmt.Sprintf("%s:%d", path.Base(name), t.line), what: what,
			})
		}
	}
	return out
}

// judgeTest is why a test fails, "" where it passes or is skipped.
func judgeTest(f files, pkg string, t testCase, all bool) string {
	for i := range words {
		file := pkg + "/" + words[i] + ".go"
		src, ok := f[file]
		if !ok {
			continue
		}
		got, ok := value(src, t.of)
		switch {
		case ok && got == t.want:
			return ""
		case ok:
			return fmt.Sprintf("%s: %s is %q, want %q", file, t.of, got, t.want)
		case !strings.Contains(src, "// TODO "+t.of+"\n"):
			continue
		case strings.Contains(src, "\nconst ") || all:
			return fmt.Sprintf("%s: %s is not implemented, want %q", file, t.of, t.want)
		default:
			return ""
		}
	}
	return "undefined: " + t.of
}

// check runs one of the commands and prints what such a command prints.
func (c *checker) check(f files, command string, late bool) (output string, passed bool) {
	if command == vetCommand {
		out := vet(f)
		return out, out == ""
	}
	if out := vet(f); out != "" {
		return strings.ReplaceAll(out, "vet: ", "") + "FAIL\texample.com/app [build failed]\nFAIL\n", false
	}
	var b strings.Builder
	if command == acceptCommand {
		failures := c.run(f, true, false)
		for _, x := range failures {
			fmt.Fprintf(&b, "accept: %s\n", x.what)
		}
		if len(failures) > 0 {
			fmt.Fprintf(&b, "%d values are not as they should be\nmake: *** [Makefile:4: accept] Error 1\n", len(failures))
			return b.String(), false
		}
		return "accepted\n", true
	}
	failures := c.run(f, false, late)
	for i, x := range failures {
		fmt.Fprintf(&b, "--- FAIL: %s (0.00s)\n    %s: %s\n", x.test, x.at, x.what)
		if i == len(failures)-1 || failures[i+1].pkg != x.pkg {
			fmt.Fprintf(&b, "FAIL\nFAIL\texample.com/app/%s\t0.004s\n", x.pkg)
		}
	}
	if len(failures) > 0 {
		b.WriteString("FAIL\n")
		return b.String(), false
	}
	return "ok  \texample.com/app\t0.012s\n", true
}

// broke are the tests that fail on a tree and did not fail at the base: those
// that stand in it, and those that stood in the base.
func (c *checker) broke(p *project, f files) []string {
	if vet(f) != "" {
		return []string{"the compiler"}
	}
	restored := maps.Clone(f)
	for name, src := range p.base {
		if strings.HasSuffix(name, "_test.go") && !p.outdated[name] {
			restored[name] = src
		}
	}
	var out []string
	for _, t := range []files{f, restored} {
		for _, x := range c.run(t, false, false) {
			if !p.knownFailing[x.id] && !slices.Contains(out, x.id) {
				out = append(out, x.id)
			}
		}
	}
	return out
}
