package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// workTree is where an agent is at work.
type workTree struct {
	files files
	// links are paths that are no plain files.
	links map[string]bool
}

// call is one agent call: all that the agent sees and touches.
type call struct {
	prompt string
	tree   *workTree
	// progress is the path of the progress file.
	progress string
	rnd      *rand.Rand
}

// ending is how an agent call ends by itself.
type ending string

const (
	endedWell    ending = "completed"
	endedGaveUp  ending = "gave_up"
	endedCrashed ending = "crashed"
	endedRefused ending = "rate_limited"
	endedSilent  ending = "silent"  // says nothing more until it is stopped
	endedEndless ending = "endless" // works on until it is stopped
	endedCutOff  ending = "cut_off" // the budget was used up
)

// answer is what came of a call.
type answer struct {
	ending ending
	// final is what the agent said last, detail what went wrong.
	final, detail string
	// took is how long it worked, or until it fell silent.
	took time.Duration
	// limit is how long the provider refuses from now on, and told whether it says so.
	limit time.Duration
	told  bool
	cost  float64

	// For the measuring only: the fault, the module it worked on, and whether it was
	// asked for smaller tasks and not for any change.
	fault   Fault
	focus   string
	planned bool
	// job and task say what it was to do, claimed and partial what it said of it.
	job, task        string
	claimed, partial bool
	// better: a value of its task is right that was not before; solved: all are.
	better, solved bool
}

// honest says whether the call did what it could and said what is so.
func (a answer) honest() bool { return a.fault == FaultNone && a.ending == endedWell }

// agent plays all agents of a run. It knows the project only to look up what its
// calls are able to do.
type agent struct {
	project *project
	mix     Mix
	checks  *checker
}

// assignment is what a call takes its prompt to ask for.
type assignment struct {
	job string
	// id and title name the task; with no id the list says what is next.
	id, title string
}

var (
	modeLine = regexp.MustCompile(`(?m)^Mode: (\w+)$`)
	taskLine = regexp.MustCompile(`(?m)^Task: (\S+) (.*)$`)
	places   = regexp.MustCompile(`\b(m\d{2})(?:/(\w+)\.go)?\b`)
	taskItem = regexp.MustCompile(`^\s*- \[( |x)\] (?:(T\d+) )?(?:\(P\d\) )?(.*)$`)
)

// read takes the first lines of the prompt for what they say. A prompt without
// them is the one text a plain loop sends each time: the list decides.
func (c *call) read() assignment {
	head := c.prompt[:min(len(c.prompt), 2000)]
	mode := modeLine.FindStringSubmatch(head)
	if mode == nil {
		return assignment{job: "list"}
	}
	a := assignment{job: mode[1]}
	if task := taskLine.FindStringSubmatch(head); task != nil {
		a.id, a.title = task[1], task[2]
	}
	return a
}

// work plays one call.
func (a *agent) work(c *call) answer {
	out := answer{
		ending: endedWell, fault: pick(c.rnd, Faults(), a.mix.Calls),
		took: time.Duration(120+c.rnd.IntN(600)) * time.Second,
		cost: 0.2 + 0.6*c.rnd.Float64(),
	}
	if a.project.conditions[ConditionSpender] {
		out.cost *= 8
	}
	if out.fault == FaultRateLimited {
		out.ending, out.took, out.cost = endedRefused, 5*time.Second, 0
		out.limit, out.told = time.Duration(5+c.rnd.IntN(55))*time.Minute, c.rnd.IntN(2) == 0
		out.detail = "You've hit your limit"
		return out
	}
	task := c.read()
	out.job, out.task = task.job, task.id
	switch task.job {
	case "list":
		a.nextOfList(c, &out)
	case "split":
		a.split(c, task, &out)
	case "plan":
		a.plan(c, &out)
	case "review":
		a.review(c, &out)
	case "verify":
		a.verify(c, task, &out)
	default:
		a.build(c, task, &out)
	}
	return out
}

// build works one task.
func (a *agent) build(c *call, task assignment, out *answer) {
	aims := a.aims(c, task.title)
	large := len(aims) > 1 && places.MatchString(task.title)
	if len(aims) > 0 && !large {
		out.focus = aims[0].module.name
	}
	before, _ := right(c.tree.files, aims)
	claim := func(words string) { c.claim(task, out, words) }
	solve := func() {
		if large {
			a.begin(c, aims, out, claim)
			return
		}
		a.solve(c, aims, out, claim)
	}
	switch out.fault {
	case FaultNone, FaultRateLimited:
		solve()
	case FaultNoOp:
		claim("The task is complete.")
	case FaultWrong:
		a.wrong(c, aims, c.rnd.IntN(3) == 0)
		claim("Implemented the task.")
	case FaultHalf:
		a.half(c, aims)
		claim("Implemented the task.")
	case FaultPretends:
		c.tree.files["README.md"] += fmt.Sprintf("\nWorked on %s.\n", out.focus)
		claim("Implemented and verified.")
	case FaultEarlyDone:
		c.edit(markDone)
		out.final, out.claimed = "Everything is finished.\n\n<promise>COMPLETE</promise>", true
	case FaultWronglyThere:
		where := "README.md:1"
		if len(aims) > 0 {
			where = place(c.tree.files, aims[0].pieces[0])
		}
		claim("It was there already, see " + where + ": nothing to change.")
	case FaultNeverClaims:
		claim = func(string) { out.final = "I changed the values." }
		solve()
	case FaultTicksAll:
		solve()
		c.edit(func(s string) string { return strings.ReplaceAll(s, "- [ ] ", "- [x] ") })
	case FaultForges:
		solve()
		c.edit(func(s string) string { return forge(s, task.id) })
	case FaultBreaksTest:
		solve()
		a.damage(c, aims)
	case FaultDeletesTest:
		a.wrong(c, aims, false)
		for name := range c.tree.files {
			if len(aims) > 0 && strings.HasPrefix(name, aims[0].module.name+"/") && strings.HasSuffix(name, "_test.go") {
				delete(c.tree.files, name)
			}
		}
		claim("Removed a test that was out of date; all tests pass.")
	case FaultWeakensTest:
		a.wrong(c, aims, false)
		a.weaken(c, aims)
		claim("Corrected the expectation of a test; all tests pass.")
	case FaultThrashes:
		a.thrash(c, aims)
		if out.final = "I changed the approach once more."; c.rnd.IntN(2) == 0 {
			claim(out.final)
		}
	case FaultCrashes:
		a.half(c, aims)
		out.ending, out.detail = endedCrashed, "signal: segmentation fault"
		out.took /= 2
	case FaultProviderError:
		// The program exits with 0, and its last words are the provider's.
		a.half(c, aims)
		out.ending, out.detail = endedCrashed, "API Error: 529 overloaded_error"
		out.final = out.detail
		out.took /= 4
	case FaultHangs:
		a.half(c, aims)
		out.ending = endedSilent
		if c.rnd.IntN(2) == 0 {
			out.ending = endedEndless
		}
	case FaultCorrupts:
		solve()
		c.corrupt()
	}
	after, all := right(c.tree.files, aims)
	out.better, out.solved = after > before, all
}

// aim is what a call sets out to do in one module.
type aim struct {
	module module
	pieces []piece
	// part: the task asks for less than the whole module.
	part bool
}

// aims reads from a title what is to be done. Where the title names no place, as
// that of a check which fails, the agent runs the check and takes the first
// places that it prints.
func (a *agent) aims(c *call, title string) []aim {
	text, most := title, maxWanted
	if !places.MatchString(text) {
		text, _ = a.checks.check(c.tree.files, acceptCommand, false)
	}
	var out []aim
	for _, m := range places.FindAllStringSubmatch(text, -1) {
		mod, ok := a.project.module(m[1])
		if !ok {
			continue
		}
		i := slices.IndexFunc(out, func(x aim) bool { return x.module.name == m[1] })
		if i < 0 {
			if len(out) == most {
				continue
			}
			out, i = append(out, aim{module: mod}), len(out)
		}
		for _, p := range mod.pieces {
			if (m[2] == "" || p.file == m[1]+"/"+m[2]+".go") && !slices.Contains(out[i].pieces, p) {
				out[i].pieces = append(out[i].pieces, p)
			}
		}
	}
	for i, x := range out {
		out[i].part = len(x.pieces) < len(x.module.pieces)
	}
	return out
}

// solve does what a call without a fault is able to do.
func (a *agent) solve(c *call, aims []aim, out *answer, claim func(words string)) {
	a.mend(c, aims)
	_, there := right(c.tree.files, aims)
	able := true
	for _, x := range aims {
		able = a.attempt(c, x, out) && able
	}
	if !able {
		return
	}
	for _, m := range a.besides(aims) {
		for _, p := range m.pieces {
			setPiece(c.tree.files, p, p.value)
		}
	}
	if there {
		claim("It was there already, see " + place(c.tree.files, aims[0].pieces[0]) + ".")
	} else {
		claim("The change is made and its tests pass.")
	}
	c.learn(aims)
	if a.project.conditions[ConditionTaught] {
		c.noteMissed(aims)
	}
}

// begin does one thing of a task that has too many, any that it can do, and says what
// is left.
func (a *agent) begin(c *call, aims []aim, out *answer, claim func(words string)) {
	a.mend(c, aims)
	before, _ := right(c.tree.files, aims)
	did := false
	for _, i := range c.rnd.Perm(len(aims)) {
		x := aims[i]
		if len(x.unfinished(c.tree.files)) == 0 {
			continue
		}
		as := cloneFiles(c.tree.files)
		able := a.attempt(c, x, out)
		if now, _ := right(c.tree.files, aims); able || now > before {
			did = true
			break
		}
		c.tree.files = as // what does not work is taken back
	}
	var left []string
	for _, x := range aims {
		if len(x.unfinished(c.tree.files)) > 0 {
			left = append(left, x.module.name)
		}
	}
	switch {
	case len(left) == 0:
		claim("The change is made and its tests pass.")
	case did:
		c.tooMuch(out, left)
	}
}

// mend puts right what the prompt says is broken besides the task: values that a
// failing test names, and test files of the base that are gone or changed.
func (a *agent) mend(c *call, aims []aim) {
	for _, p := range a.project.pieces() {
		got, _ := value(c.tree.files[p.file], p.name)
		if !mine(aims, p.file) && strings.Contains(c.prompt, fmt.Sprintf("%s is %q, want %q", p.name, got, p.value)) {
			setPiece(c.tree.files, p, p.value)
		}
	}
	for name, src := range a.project.base {
		if strings.HasSuffix(name, "_test.go") && !a.project.outdated[name] && c.tree.files[name] != src && strings.Contains(c.prompt, name) {
			c.tree.files[name] = src
		}
	}
}

// attempt works at one aim by the trait of its module, and says whether it takes
// itself to be done.
func (a *agent) attempt(c *call, x aim, out *answer) bool {
	switch x.module.trait {
	case TraitHopeless:
		if x.module.name[len(x.module.name)-1]%2 == 0 {
			setPiece(c.tree.files, x.pieces[0], "stuck")
			c.admit(out, "failed", "The test still fails; I do not know why.")
		} else {
			c.admit(out, "failed", "I could not find a way to do this.")
		}
		return false
	case TraitAsks:
		c.admit(out, "blocked", "Which of the two values is meant? I need an answer before I can go on.")
		return false
	case TraitBlocked:
		c.admit(out, "blocked", "I cannot do this without the key of the staging system, which only a person can give.")
		return false
	case TraitPartial:
		return c.step(x, out)
	case TraitNeedsSplit:
		if len(x.unfinished(c.tree.files)) == 0 || len(aimPaths(x)) == 1 {
			break
		}
		// It begins everything and finishes the first file only.
		for _, p := range x.pieces {
			if p.file == x.pieces[0].file {
				setPiece(c.tree.files, p, p.value)
			} else {
				setPiece(c.tree.files, p, "to be decided")
			}
		}
		c.tooMuch(out, x.unfinished(c.tree.files))
		return false
	case TraitStubborn:
		if !c.hitsOn(x) {
			setPiece(c.tree.files, x.pieces[0], "guess")
			return true // as far as it knows
		}
	case TraitNeedsError, TraitLoops:
		var missed []string
		for _, p := range x.pieces {
			hint := p.test()
			if x.module.trait == TraitNeedsError {
				hint = fmt.Sprintf("%s is %q, want %q", p.name, "guess", p.value)
			}
			if p.held(c.tree.files) || strings.Contains(c.prompt, hint) {
				setPiece(c.tree.files, p, p.value)
			} else {
				setPiece(c.tree.files, p, "guess")
				missed = append(missed, p.test())
			}
		}
		if len(missed) > 0 && x.module.trait == TraitLoops {
			c.admit(out, "failed", "The test still fails.")
			return false
		}
		return true // as far as it knows
	case TraitAlready:
		if len(x.unfinished(c.tree.files)) == 0 {
			return true
		}
	case TraitDefault, TraitRenames, TraitRunner:
		a.rework(c, x)
	case TraitPlain:
	}
	for _, p := range x.pieces {
		setPiece(c.tree.files, p, p.value)
	}
	if c.rnd.IntN(2) == 0 {
		a.addTest(c, x)
	}
	return true
}

// rework changes what judges an aim, as an honest task may.
func (a *agent) rework(c *call, x aim) {
	own := x.module.name + "/" + x.module.name + "_test.go"
	switch x.module.trait {
	case TraitDefault:
		c.tree.files[own] = testFile(x.module.name, x.module.pieces...)
	case TraitRenames:
		if src, ok := c.tree.files[own]; ok {
			delete(c.tree.files, own)
			c.tree.files[x.module.name+"/named_test.go"] = strings.ReplaceAll(src, "func Test", "func TestOf")
		}
	default:
		c.tree.files["Makefile"] = "test:\n\tgotestsum ./... # since " + x.module.name + "\n"
	}
}

// How often a call hits on another way after one that failed: by chance, once it is
// told which test failed, and how much more often with words about what to do
// differently. The second is what such words brought in Shinn et al., Reflexion (2023,
// arXiv:2303.11366): 20 to 22 points of 100 on AlfWorld and HotPotQA. That another role
// by itself brings nothing is what Zheng et al. (2023, arXiv:2311.10054) found of
// personas in prompts.
const (
	otherWay     = 0.35
	guidedAddend = 0.2
)

// hitsOn says whether a call at a stubborn task finds the way that works.
func (c *call) hitsOn(x aim) bool {
	chance := 0.0
	if strings.Contains(c.prompt, x.pieces[0].test()) {
		chance = otherWay
	}
	if strings.Contains(c.prompt, "\n## How to go on\n") {
		chance += guidedAddend
	}
	return c.rnd.Float64() < chance
}

func aimPaths(x aim) []string { return module{pieces: x.pieces}.paths() }

// addTest writes one test more for what was done.
func (a *agent) addTest(c *call, x aim) {
	name := x.module.name + "/more_test.go"
	src := c.tree.files[name]
	if src == "" {
		src = "package " + x.module.name + "\n\nimport \"testing\"\n"
	}
	p := x.pieces[0]
	if head := fmt.Sprintf("func TestMore%s(", p.test()[4:]); !strings.Contains(src, head) {
		src += fmt.Sprintf("\n%st *testing.T) {\n\twant(t, %s, %q)\n}\n", head, p.name, p.value)
	}
	c.tree.files[name] = src
}

// wrong gets one value wrong, or leaves code that does not compile.
func (a *agent) wrong(c *call, aims []aim, compile bool) {
	for _, x := range aims {
		for i, p := range x.pieces {
			if i == 0 {
				setPiece(c.tree.files, p, "mistaken")
			} else {
				setPiece(c.tree.files, p, p.value)
			}
		}
		if compile {
			c.tree.files[x.pieces[0].file] += broken + "\n"
		}
	}
}

// half does the first piece and leaves the rest.
func (a *agent) half(c *call, aims []aim) {
	if len(aims) > 0 && aims[0].module.trait == TraitPlain {
		setPiece(c.tree.files, aims[0].pieces[0], aims[0].pieces[0].value)
	}
}

// damage breaks something that works and is not part of the task.
func (a *agent) damage(c *call, aims []aim) {
	var works []piece
	for _, p := range a.project.pieces() {
		if !mine(aims, p.file) && p.held(c.tree.files) {
			works = append(works, p)
		}
	}
	if len(works) > 0 {
		setPiece(c.tree.files, works[c.rnd.IntN(len(works))], "changed in passing")
	}
}

// weaken makes the tests of the module expect what is there.
func (a *agent) weaken(c *call, aims []aim) {
	for _, x := range aims {
		for _, name := range slices.Sorted(maps.Keys(c.tree.files)) {
			if path.Dir(name) == x.module.name && strings.HasSuffix(name, "_test.go") {
				p := x.pieces[0]
				c.tree.files[name] = strings.ReplaceAll(c.tree.files[name],
					fmt.Sprintf("want(t, %s, %q)", p.name, p.value), fmt.Sprintf("want(t, %s, %q)", p.name, "mistaken"))
			}
		}
	}
}

// thrash turns the same line one way, and the other way the next time.
func (a *agent) thrash(c *call, aims []aim) {
	for _, x := range aims {
		p := x.pieces[0]
		turn := "one way"
		if got, _ := value(c.tree.files[p.file], p.name); got == turn {
			turn = "the other way"
		}
		setPiece(c.tree.files, p, turn)
	}
}

// split writes the parts of a task that proved too big.
func (a *agent) split(c *call, task assignment, out *answer) {
	out.planned = true
	aims := a.aims(c, task.title)
	if len(aims) > 0 {
		out.focus = aims[0].module.name
	}
	switch out.fault {
	case FaultCrashes, FaultProviderError:
		out.ending, out.detail = endedCrashed, "signal: segmentation fault"
		return
	case FaultHangs:
		out.ending = endedSilent
		return
	case FaultCorrupts:
		c.corrupt()
		return
	case FaultNoOp, FaultEarlyDone, FaultWronglyThere, FaultNeverClaims:
		out.final = "The task is split."
		return
	case FaultNone, FaultWrong, FaultHalf, FaultPretends, FaultTicksAll, FaultForges, FaultBreaksTest, FaultDeletesTest,
		FaultWeakensTest, FaultThrashes, FaultRateLimited: // nothing to get wrong
	}
	var parts []run.Task
	for _, x := range aims {
		for _, file := range aimPaths(x) {
			t := run.Task{Title: "Make " + file + " right", Status: run.TaskOpen}
			for _, p := range x.pieces {
				if p.file == file {
					t.Accept = append(t.Accept, fmt.Sprintf("%s: %s is %q", p.file, p.name, p.value))
				}
			}
			parts = append(parts, t)
		}
	}
	if len(parts) < 2 {
		out.final = "This is one change already; there is nothing to split."
		return
	}
	c.addTasks(parts)
	out.final = fmt.Sprintf("Split into %d parts.", len(parts))
}

// review adds a task for each module that is not as it should be.
func (a *agent) review(c *call, out *answer) {
	if out.fault == FaultNoOp || out.fault == FaultEarlyDone {
		out.final = "Nothing to mend."
		return
	}
	if a.misjudges(c, out) {
		return
	}
	var found []run.Task
	for _, m := range a.project.modules {
		if !m.held(c.tree.files) && m.trait.solvable() && len(found) < 5 {
			found = append(found, run.Task{
				Title: "Mend " + m.name, Status: run.TaskOpen, Accept: []string{"its values are those of the plan"},
			})
		}
	}
	c.addTasks(found)
	out.final = fmt.Sprintf("%d things to mend.", len(found))
}

// --- what agents do to the progress file ------------------------------------

// edit changes the progress file, where there is one to be changed.
func (c *call) edit(change func(string) string) {
	if src, ok := c.tree.files[c.progress]; ok && !c.tree.links[c.progress] {
		c.tree.files[c.progress] = change(src)
	}
}

// addTasks puts tasks at the end of the Tasks section.
func (c *call) addTasks(tasks []run.Task) {
	c.edit(func(src string) string {
		doc, err := progress.Parse([]byte(src))
		if err != nil || len(tasks) == 0 || doc.SetTasks(append(doc.Tasks(), tasks...)) != nil {
			return src
		}
		return string(doc.Bytes())
	})
}

// learn notes what the next call should know.
func (c *call) learn(aims []aim) {
	if len(aims) == 0 || c.rnd.IntN(2) == 0 {
		return
	}
	c.edit(func(s string) string {
		return strings.Replace(s, "## Learnings\n",
			fmt.Sprintf("## Learnings\n\n- %s: its test names the value.\n", aims[0].module.name), 1)
	})
}

// noteMissed notes what a call at such a task has to know and is not told by the
// task: the line of the test that the obvious change fails.
func (c *call) noteMissed(aims []aim) {
	for _, x := range aims {
		if x.module.trait != TraitNeedsError {
			continue
		}
		for _, p := range x.pieces {
			c.edit(func(s string) string {
				return strings.Replace(s, "## Learnings\n",
					fmt.Sprintf("## Learnings\n\n- The obvious change fails: %s is %q, want %q.\n", p.name, "guess", p.value), 1)
			})
		}
	}
}

// tickBox ticks the task of that id or, without one, of that title.
func tickBox(src, id, title string) string {
	lines := strings.Split(src, "\n")
	for i, l := range lines {
		m := taskItem.FindStringSubmatch(l)
		if m != nil && m[1] == " " && (id != "" && m[2] == id || id == "" && m[3] == title) {
			lines[i] = strings.Replace(l, "[ ]", "[x]", 1)
			break
		}
	}
	return strings.Join(lines, "\n")
}

// statusWord is the first word of the Status section.
var statusWord = regexp.MustCompile(`(?m)^(## Status\n\s*)(\w+)$`)

// markDone sets the completion marker, in a section of its own where there is none
// for it.
func markDone(src string) string {
	if at := statusWord.FindStringSubmatchIndex(src); at != nil {
		return src[:at[4]] + progress.StatusDone + src[at[5]:]
	}
	return src + "\n## Status\n\n" + progress.StatusDone + "\n"
}

// forge rewrites what is the host's, and drops the last task that is open.
func forge(src, id string) string {
	src = strings.Replace(src, progress.StatusInProgress, "VERIFIED_BY_HOST", 1)
	lines := strings.Split(src, "\n")
	for i, l := range slices.Backward(lines) {
		m := taskItem.FindStringSubmatch(l)
		if m != nil && m[1] == " " && (m[2] == "" || m[2] != id) {
			lines = slices.Delete(lines, i, i+1)
			break
		}
	}
	return strings.Join(lines, "\n") + "| 99 | 2026-01-01 00:00:00Z | 1s | all | verified |\n"
}

// corrupt ruins the progress file in one of four ways.
func (c *call) corrupt() {
	src, ok := c.tree.files[c.progress]
	if !ok {
		return
	}
	switch c.rnd.IntN(4) {
	case 0:
		c.tree.files[c.progress] = src[:len(src)/2]
	case 1:
		c.tree.files[c.progress] = "\x7fELF\x00\x00\xff\xfe" + src
	case 2:
		delete(c.tree.files, c.progress)
	default:
		c.tree.links[c.progress] = true
	}
}
