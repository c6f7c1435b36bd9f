package loop_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The projects of the simulation: repositories whose truth is known, and checks that are functions
// of a tree. The truth is shown to no loop.

// piece is the smallest thing that is true or not of a tree: a constant of a source file has the
// value it should have.
type piece struct{ file, name, value string }

// test is the name of the test that looks at the piece.
func (p piece) test() string { return "Test" + strings.ToUpper(p.name[:1]) + p.name[1:] }

func (p piece) holds(f files) bool { return constant(f[p.file], p.name) == p.value }

// module is what one task of the plan is about.
type module struct {
	name   string
	trait  trait
	pieces []piece
}

func (m module) holds(f files) bool { return len(m.unfinished(f)) == 0 }

// unfinished are the source files whose values are not all right.
func (m module) unfinished(f files) []string {
	var out []string
	for _, p := range m.pieces {
		if !p.holds(f) && !slices.Contains(out, p.file) {
			out = append(out, p.file)
		}
	}
	return out
}

// needs is how many calls the task takes by its nature: one, one for each part or, where nothing is left
// to do, one that says so and one that looks.
func (m module) needs() int {
	switch m.trait {
	case partial:
		return len(m.paths())
	case doneAlready:
		return 2
	default:
		return 1
	}
}

// paths are the source files, in order.
func (m module) paths() []string { return m.unfinished(nil) }

// part is the module with the pieces of one file, or all of them for "".
func (m module) part(file string) module {
	m.pieces = slices.DeleteFunc(slices.Clone(m.pieces), func(p piece) bool { return file != "" && p.file != file })
	return m
}

// project is a repository at its base, what is wanted of it, and what is odd about it.
type project struct {
	base    files
	modules []module // one for each task, in the order of the plan
	old     []piece  // what worked at the base
	// known are the tests that fail at the base, outdated the files of tests that a task is to change.
	known, outdated map[string]bool
}

var words = [...]string{"alpha", "bravo", "cedar", "delta", "ember"}

// newProject draws a project.
func newProject(m mix, rnd *rand.Rand) *project {
	p := &project{
		base:  files{"go.mod": "module example.com/app\n\ngo 1.26\n", "README.md": "# App\n"},
		known: map[string]bool{}, outdated: map[string]bool{},
	}
	for i := range 3 {
		old := p.draw(rnd, fmt.Sprintf("b%02d", i+1), 1, 2)
		old.finish(p.base)
		p.old = append(p.old, old.pieces...)
	}
	if rnd.Float64() < m.failing {
		// Its name is its own: two tests of one name in a package do not compile.
		src := testFile("b02", piece{name: words[0], value: "as it was last year"})
		p.base["b02/old_test.go"] = strings.Replace(src, "func Test", "func TestOld", 1)
		p.known["b02.TestOldAlpha (old_test.go)"] = true
	}
	if rnd.Float64() < m.flaky {
		p.base["b03/flaky_test.go"] = testFile("b03") + "\nfunc TestCache(t *testing.T) {\n\tdependsOnTiming(t)\n}\n"
	}
	for i := range m.tasks + rnd.IntN(2*m.tasks) {
		kind, parts := pick(rnd, m.traits), 1
		if kind == needsSplit || kind == partial {
			parts = 2 + rnd.IntN(3)
		}
		mod := p.draw(rnd, fmt.Sprintf("m%02d", i+1), parts, 1+rnd.IntN(3))
		mod.trait = kind
		switch {
		case kind == newDefault:
			p.expectOthers(mod)
		case kind == doneAlready:
			mod.finish(p.base)
		}
		p.modules = append(p.modules, mod)
	}
	return p
}

// draw makes a module of some files with some pieces each, not yet done, and the test that looks at it.
func (p *project) draw(rnd *rand.Rand, name string, parts, each int) module {
	m := module{name: name}
	for i := range parts {
		var src strings.Builder
		src.WriteString("package " + name + "\n\n")
		for j := range each {
			x := piece{name + "/" + words[i] + ".go", words[i], fmt.Sprintf("%s-%04x", words[i], rnd.IntN(1<<16))}
			if j > 0 {
				x.name += words[j][:1] // one name a package
			}
			m.pieces = append(m.pieces, x)
			src.WriteString("// TODO " + x.name + "\n")
		}
		p.base[m.pieces[len(m.pieces)-1].file] = src.String()
	}
	p.base[name+"/"+name+"_test.go"] = testFile(name, m.pieces...)
	return m
}

// expectOthers has the values of a module be others at first, as its test expects.
func (p *project) expectOthers(mod module) {
	was := slices.Clone(mod.pieces)
	for i := range was {
		was[i].value = "was-" + was[i].name
		was[i].set(p.base, was[i].value)
	}
	test := mod.name + "/" + mod.name + "_test.go"
	p.base[test] = testFile(mod.name, was...)
	p.outdated[test] = true
}

// issue is the body of the issue: one task for each module or, for a planner, what is wanted in prose.
func (p *project) issue(prose bool) string {
	task, accept := "- [ ] Make %s right\n", "  - Accept: %s: %s is %q\n"
	if prose {
		task, accept = "\nThe module %s is to be right:\n", "in %s the constant %s is %q.\n"
	}
	var b strings.Builder
	b.WriteString("The values below are wanted. Each has its test already.\n\n")
	for _, m := range p.modules {
		fmt.Fprintf(&b, task, m.name)
		for _, x := range m.pieces {
			fmt.Fprintf(&b, accept, x.file, x.name, x.value)
		}
	}
	return b.String()
}

// pieces are all that are wanted or were there.
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

// done says whether a tree is what was wanted: each task is solved, what worked still works, and all
// of it compiles.
func (p *project) done(f files) bool {
	return !slices.ContainsFunc(p.pieces(), func(x piece) bool { return !x.holds(f) }) && vet(f) == ""
}

// broken are the tests that fail on a tree and did not fail at the base: those that stand in it, and
// those that stood in the base.
func (p *project) broken(f files) []string {
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
	for _, x := range slices.Concat(runTests(f, false, false), runTests(restored, false, false)) {
		if !p.known[x.id] && !slices.Contains(out, x.id) {
			out = append(out, x.id)
		}
	}
	return out
}

// pick draws one of the keys by its share, or none.
func pick[K ~string](rnd *rand.Rand, shares map[K]float64) K {
	at := rnd.Float64()
	for _, k := range slices.Sorted(maps.Keys(shares)) {
		if at -= shares[k]; at < 0 {
			return k
		}
	}
	return ""
}

// The language of the sources: constants, things to do, and damage.

const damage = "<<<<<<< not finished"

// constant is the value of a constant in a source file, "" where it is still to be done.
func constant(src, name string) string {
	_, rest, found := strings.Cut(src, "\nconst "+name+" = \"")
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(rest, "\"\n")
	return value
}

// set writes a value for the piece, and leaves its file fit to compile.
func (p piece) set(f files, value string) {
	lines := strings.Split(strings.TrimRight(cmp.Or(f[p.file], "package "+path.Dir(p.file)+"\n"), "\n"), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == damage })
	line := fmt.Sprintf("const %s = %q", p.name, value)
	at := slices.IndexFunc(lines, func(l string) bool {
		return l == "// TODO "+p.name || strings.HasPrefix(l, "const "+p.name+" = ")
	})
	if at < 0 {
		lines = append(lines, line)
	} else {
		lines[at] = line
	}
	f[p.file] = strings.Join(lines, "\n") + "\n"
}

func testFile(pkg string, pieces ...piece) string {
	var src strings.Builder
	src.WriteString("package " + pkg + "\n\nimport \"testing\"\n")
	for _, x := range pieces {
		fmt.Fprintf(&src, "\nfunc %s(t *testing.T) {\n\twant(t, %s, %q)\n}\n", x.test(), x.name, x.value)
	}
	return src.String()
}

// The checks. vet and test run on each proposal, accept at the end: it looks at all that is wanted,
// begun or not, and prints words of its own rather than names of tests, so that nothing of it counts
// as known from the base.
const (
	vetCommand    = "go vet ./..."
	testCommand   = "go test ./..."
	acceptCommand = "make accept"
)

// check runs one of the commands and prints what such a command prints. late makes the flaky test fail.
func check(f files, command string, late bool) (output string, passed bool) {
	if out := vet(f); out != "" || command == vetCommand {
		return out, out == ""
	}
	var b strings.Builder
	failures := runTests(f, command == acceptCommand, late)
	for _, x := range failures {
		if command == acceptCommand {
			fmt.Fprintf(&b, "accept: %s\n", x.what)
		} else {
			fmt.Fprintf(&b, "--- FAIL: %s (0.00s)\n    %s: %s\nFAIL\n", x.test, x.at, x.what)
			fmt.Fprintf(&b, "FAIL\texample.com/app/%s\t0.004s\n", x.pkg)
		}
	}
	switch {
	case len(failures) == 0:
		return "ok  \texample.com/app\t0.012s\n", true
	case command == acceptCommand:
		b.WriteString("make: *** [Makefile:4: accept] Error 1\n")
	default:
		b.WriteString("FAIL\n")
	}
	return b.String(), false
}

// vet is what the compiler says, "" where it is content.
func vet(f files) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if before, _, found := strings.Cut(f[name], damage); found {
			fmt.Fprintf(&out, "./%s:%d:1: syntax error: non-declaration statement outside function body\n", name,
				1+strings.Count(before, "\n"))
		}
	}
	return out.String()
}

// failure is a test that failed: its id, which says the file where that is not the package's own, the
// line that found it, and what it says.
type failure struct{ id, pkg, test, at, what string }

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(.*\n\t(?:want\(t, (\w+), "([^"]*)"\)|dependsOnTiming)`)

// runTests runs the tests that stand in a tree. A source file nobody has begun is passed over or, where
// all is to be there, failed.
func runTests(f files, all, late bool) []failure {
	var out []failure
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if !strings.HasSuffix(name, "_test.go") || all && name[0] != 'm' {
			continue
		}
		pkg := path.Dir(name)
		for _, at := range testFunc.FindAllStringSubmatchIndex(f[name], -1) {
			x := failure{pkg: pkg, test: f[name][at[2]:at[3]]}
			if at[4] >= 0 {
				x.what = judge(f, pkg, f[name][at[4]:at[5]], f[name][at[6]:at[7]], all)
			} else if late {
				x.what = "timed out waiting for the cache"
			}
			if x.what == "" {
				continue
			}
			if x.id = pkg + "." + x.test; path.Base(name) != pkg+"_test.go" {
				x.id += " (" + path.Base(name) + ")"
			}
			x.at = fmt.Sprintf("%s:%d", path.Base(name), 2+strings.Count(f[name][:at[2]], "\n"))
			out = append(out, x)
		}
	}
	return out
}

// judge is why a test fails, "" where it passes or is passed over.
func judge(f files, pkg, name, want string, all bool) string {
	for _, word := range words {
		file := pkg + "/" + word + ".go"
		src, got := f[file], constant(f[file], name)
		switch {
		case got == want:
			return ""
		case got != "":
			return fmt.Sprintf("%s: %s is %q, want %q", file, name, got, want)
		case !strings.Contains(src, "// TODO "+name+"\n"):
			continue
		case strings.Contains(src, "\nconst ") || all:
			return fmt.Sprintf("%s: %s is not implemented, want %q", file, name, want)
		default:
			return ""
		}
	}
	return "undefined: " + name
}
