package loop_test

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// The agents of the simulation. One sees its prompt, the work tree and the progress file in it, and
// nothing else; what it is able to do is drawn.

// fault is what may go wrong with one call, which draws at most one.
type fault string

const (
	noOp         fault = "no_op"          // changes nothing and claims success
	wrong        fault = "wrong"          // a value wrong, or code that does not compile
	half         fault = "half"           // a part of the task, ticked
	pretends     fault = "pretends"       // changes something else, and ticks the task
	earlyDone    fault = "early_done"     // does nothing and announces that all is complete
	ticksAll     fault = "ticks_all"      // does its task and ticks all others, too
	forges       fault = "forges"         // does its task, rewrites status and log, drops a task
	breaksTest   fault = "breaks_test"    // does its task and breaks something that worked
	deletesTest  fault = "deletes_test"   // a value wrong, and the tests that would tell are gone
	weakensTest  fault = "weakens_test"   // a value wrong, and the tests expect that
	crashes      fault = "crashes"        // dies in the middle of its work
	hangs        fault = "hangs"          // does a part, then falls silent
	rateLimited  fault = "rate_limited"   // meets the provider's limit, which holds for a while
	corrupts     fault = "corrupts"       // does its task and ruins progress.md
	wronglyThere fault = "wrongly_there"  // changes nothing: it was there already, at this line
	neverClaims  fault = "never_claims"   // does its task and claims nothing
	providerLast fault = "provider_error" // ends well with an error of the provider as its last words

	emptyPlan   fault = "empty_plan"   // of a planner: no task, and the words that the plan is written
	touchesCode fault = "touches_code" // a plan and, unasked, code, some of it wrong
	reopensGood fault = "reopens_good" // of a reviewer: asks for what is solved to be mended
	passesAll   fault = "passes_all"   // reads nothing, finds nothing
	endless     fault = "endless"      // asks for more work, whatever it finds
	objects     fault = "objects"      // of a verifier: says of what is done that it is not
	noAnswer    fault = "no_answer"    // answers nothing
	agrees      fault = "agrees"       // looks at nothing and agrees, with a place that shows nothing
)

// trait is what a task asks of an agent. It holds for each call at the task.
type trait string

const (
	plain       trait = ""
	needsSplit  trait = "needs_split"  // too big for one call; its parts, as tasks of their own, are not
	needsError  trait = "needs_error"  // the same wrong change until the prompt has the failing line
	partial     trait = "partial"      // honest work of 2 to 4 calls, each of which says what is left
	doneAlready trait = "done_already" // nothing is left to do, from the start
	newDefault  trait = "new_default"  // a value is to be another than it was, and so is its test
	renames     trait = "renames"      // the tests of what is done get other names
	newRunner   trait = "new_runner"   // the tests are run in another way from now on
	hopeless    trait = "hopeless"     // no call solves it
	needsHelp   trait = "asks"         // no call solves it, and each says what only a person can give
)

func (t trait) solvable() bool { return t != hopeless && t != needsHelp }

// call is one agent call.
type call struct {
	*simulation
	name            string
	fault           fault
	job, id, title  string
	prompt, list    string // list is the path of the progress file
	aims            []module
	end             loop.AgentStatus
	claimed, inPart bool
	before          int // right values when it began
}

var (
	modeLine  = regexp.MustCompile(`(?m)^Mode: (\w+)$`)
	taskLine  = regexp.MustCompile(`(?m)^Task: (\S+) (.*)$`)
	places    = regexp.MustCompile(`\b(m\d{2})(?:/(\w+\.go))?\b`)
	openTask  = regexp.MustCompile(`(?m)^\s*- \[ \] (T\d+) .*\n`)
	question  = regexp.MustCompile(`(?m)^\d+\. (.+)$`)
	wantValue = regexp.MustCompile(`^(\S+\.go): (\w+) is "([^"]*)"$`)
)

// work plays one call.
func (s *simulation) answer(_ *world, _ loop.State, a loop.AgentStart) loop.AgentStatus {
	c := &call{simulation: s, name: a.Name, prompt: a.Prompt, list: a.ProgressPath, fault: pick(s.rnd, s.mix.calls)}
	s.calls, s.last, s.fresh = s.calls+1, c, a.Name
	delete(s.links, c.list)
	if c.end.Outcome = loop.AgentCompleted; c.fault == rateLimited || s.now.Before(s.limited) {
		if s.took = 5 * time.Second; !s.now.Before(s.limited) {
			s.limited, s.told = s.now.Add(time.Duration(5+s.rnd.IntN(55))*time.Minute), s.rnd.IntN(2) == 0
		}
		if c.end.Outcome, c.end.Detail = loop.AgentRateLimited, "You've hit your limit"; s.told {
			c.end.RetryAt = s.limited
		}
		return c.end
	}
	s.took = time.Duration(120+s.rnd.IntN(600)) * time.Second
	head := c.prompt[:min(len(c.prompt), 2000)]
	if m := modeLine.FindStringSubmatch(head); m != nil {
		c.job = m[1]
	}
	if m := taskLine.FindStringSubmatch(head); m != nil {
		c.id, c.title = m[1], m[2]
	}
	c.aim()
	c.before, _ = c.right()
	if c.job != "build" && c.fault == "" {
		c.fault = pick(s.rnd, s.mix.jobs[c.job])
	}
	switch {
	case c.fault == crashes || c.fault == providerLast:
		c.half()
		c.end.Outcome, c.end.Detail = loop.AgentBroken, "signal: segmentation fault"
		if c.fault == providerLast {
			c.end.Detail = "API Error: 529 overloaded_error"
			c.end.Final = c.end.Detail
		}
	case c.fault == hangs:
		c.half()
		c.end.Outcome, c.end.Detail, s.took = loop.AgentTimedOut, "it said nothing for "+a.Idle.String(), s.took+a.Idle
	case c.job == "split":
		c.split()
	case c.job == "plan":
		c.plan()
	case c.job == "review":
		c.review()
	case c.job == "verify":
		c.verify()
	default:
		c.build()
	}
	for _, x := range c.aims {
		if c.job == "build" && !x.trait.solvable() && c.fault != crashes && c.fault != providerLast {
			s.at[x.name]++
		}
	}
	if _, solved := c.right(); solved && c.claimed && c.honest() && len(s.broken(s.work)) == 0 {
		s.rightly[c.id] = true
	}
	c.end.Usage = run.Usage{CostUSD: 0.2, Turns: 1}
	return c.end
}

// aim reads from the title what is to be done. Where that names no place, as that of a check which
// fails, the agent runs the check and takes the first places that it prints.
func (c *call) aim() {
	text := c.title
	if !places.MatchString(text) && c.job == "build" {
		text, _ = check(c.work, acceptCommand, false)
	}
	for _, m := range places.FindAllStringSubmatch(text, -1) {
		mod, ok := c.module(m[1])
		if !ok || len(c.aims) == 3 || slices.ContainsFunc(c.aims, func(x module) bool { return x.name == m[1] }) {
			continue
		}
		if m[2] != "" && text == c.title {
			mod = mod.part(m[1] + "/" + m[2])
		}
		c.aims = append(c.aims, mod)
	}
}

// right counts the values of the call's aims that are as they should be.
func (c *call) right() (n int, all bool) {
	all = len(c.aims) > 0
	for _, x := range c.aims {
		for _, p := range x.pieces {
			if p.holds(c.work) {
				n++
			} else {
				all = false
			}
		}
	}
	return n, all
}

// build works one task.
func (c *call) build() {
	switch c.fault {
	case noOp:
		c.claim("The task is complete.")
	case wrong:
		c.guess("mistaken")
		if len(c.aims) > 0 && c.rnd.IntN(3) == 0 {
			c.work[c.aims[0].pieces[0].file] += damage + "\n"
		}
		c.claim("Implemented the task.")
	case half:
		c.half()
		c.claim("Implemented the task.")
	case pretends:
		c.work["README.md"] += "\nWorked on " + c.title + ".\n"
		c.claim("Implemented and verified.")
	case earlyDone:
		c.edit(func(s string) string { return strings.Replace(s, progress.StatusInProgress, progress.StatusDone, 1) })
		c.end.Final, c.claimed = "Everything is finished.\n\n<promise>COMPLETE</promise>", true
	case wronglyThere:
		where := "README.md:1"
		if len(c.aims) > 0 {
			where = place(c.work, c.aims[0].pieces[0])
		}
		c.claim("It was there already, see " + where + ": nothing to change.")
	case deletesTest:
		c.guess("mistaken")
		maps.DeleteFunc(c.work, func(name, _ string) bool { return c.ownTest(name) })
		c.claim("Removed a test that was out of date; all tests pass.")
	case weakensTest:
		c.guess("mistaken")
		for name, src := range c.work {
			if c.ownTest(name) {
				p := c.aims[0].pieces[0]
				c.work[name] = strings.ReplaceAll(src, fmt.Sprintf("(t, %s, %q)", p.name, p.value),
					fmt.Sprintf("(t, %s, %q)", p.name, "mistaken"))
			}
		}
		c.claim("Corrected the expectation of a test; all tests pass.")
	default:
		c.solve()
		c.spoil()
	}
}

// spoil does what faulty calls do that have done their task.
func (c *call) spoil() {
	switch c.fault {
	case neverClaims:
		c.end.Final = "I changed the values."
	case ticksAll:
		c.edit(func(s string) string { return strings.ReplaceAll(s, "- [ ] ", "- [x] ") })
	case forges:
		c.edit(func(s string) string {
			for _, m := range openTask.FindAllStringSubmatch(s, -1) {
				if m[1] != c.id {
					s = strings.Replace(s, m[0], "", 1)
					break
				}
			}
			return strings.Replace(s, progress.StatusInProgress, "VERIFIED_BY_HOST", 1) +
				"| 99 | 2026-01-01 00:00:00Z | 1s | all | verified |\n"
		})
	case breaksTest:
		works := slices.DeleteFunc(c.pieces(), func(p piece) bool { return c.mine(p.file) || !p.holds(c.work) })
		if len(works) > 0 {
			works[c.rnd.IntN(len(works))].set(c.work, "changed in passing")
		}
	case corrupts:
		c.corrupt()
	default:
	}
}

// solve does what a call without a fault is able to do.
func (c *call) solve() {
	c.mend()
	_, there := c.right()
	for _, x := range c.aims {
		if !c.attempt(x) {
			return
		}
	}
	if there {
		c.claim("It was there already, see " + place(c.work, c.aims[0].pieces[0]) + ".")
		return
	}
	c.claim("The change is made and its tests pass.")
	c.edit(func(s string) string {
		return strings.Replace(s, "## Learnings\n", "## Learnings\n\n- Its test names the value.\n", 1)
	})
}

// attempt works at one module by its trait, and says whether it takes itself to be done.
func (c *call) attempt(x module) bool {
	first, own := x.pieces[0], x.name+"/"+x.name+"_test.go"
	switch x.trait {
	case hopeless:
		if c.rnd.IntN(2) == 0 {
			first.set(c.work, "stuck")
		}
		return c.admit("failed", "The test still fails; I do not know why.")
	case needsHelp:
		return c.admit("blocked", "I need the key of the staging system, which only a person can give.")
	case partial:
		if left := x.unfinished(c.work); len(left) > 0 {
			x.part(left[0]).finish(c.work)
		}
		if left := x.unfinished(c.work); len(left) > 0 {
			c.goOn(left)
			return false
		}
		return true
	case needsSplit:
		if len(x.unfinished(c.work)) == 0 || len(x.paths()) == 1 {
			break
		}
		// It begins everything and finishes the first file only.
		for _, p := range x.pieces {
			p.set(c.work, "to be decided")
		}
		x.part(first.file).finish(c.work)
		c.tooMuch(x.unfinished(c.work))
		return false
	case needsError:
		for _, p := range x.pieces {
			if value := "guess"; !p.holds(c.work) {
				if strings.Contains(c.prompt, fmt.Sprintf("%s is %q, want %q", p.name, value, p.value)) {
					value = p.value
				}
				p.set(c.work, value)
			}
		}
		return true // as far as it knows
	case doneAlready:
		if x.holds(c.work) {
			return true
		}
	case newDefault:
		c.work[own] = testFile(x.name, x.pieces...)
	case renames:
		if src, ok := c.work[own]; ok {
			delete(c.work, own)
			c.work[x.name+"/named_test.go"] = strings.ReplaceAll(src, "func Test", "func TestOf")
		}
	case newRunner:
		c.work["Makefile"] = "test:\n\tgotestsum ./... # since " + x.name + "\n"
	case plain:
	}
	x.finish(c.work)
	if c.rnd.IntN(2) == 0 {
		c.work[x.name+"/more_test.go"] = strings.ReplaceAll(testFile(x.name, first), "func Test", "func TestMore")
	}
	return true
}

// finish sets all values right.
func (m module) finish(f files) {
	for _, p := range m.pieces {
		p.set(f, p.value)
	}
}

// mend puts right what the prompt says is broken besides the task: values that a failing test names,
// and test files of the base that are gone or changed.
func (c *call) mend() {
	for _, p := range c.pieces() {
		told := fmt.Sprintf("%s is %q, want %q", p.name, constant(c.work[p.file], p.name), p.value)
		if !c.mine(p.file) && strings.Contains(c.prompt, told) {
			p.set(c.work, p.value)
		}
	}
	for name, src := range c.base {
		told := strings.HasSuffix(name, "_test.go") && strings.Contains(c.prompt, name)
		if told && !c.outdated[name] && c.work[name] != src {
			c.work[name] = src
		}
	}
}

// mine says whether a file belongs to the modules of the call, ownTest whether it is a test of the first.
func (c *call) mine(file string) bool {
	return slices.ContainsFunc(c.aims, func(x module) bool { return path.Dir(file) == x.name })
}

func (c *call) ownTest(file string) bool {
	return len(c.aims) > 0 && path.Dir(file) == c.aims[0].name && strings.HasSuffix(file, "_test.go")
}

// guess gets the first value of each module wrong, half does the first piece and leaves the rest.
func (c *call) guess(value string) {
	for _, x := range c.aims {
		x.finish(c.work)
		x.pieces[0].set(c.work, value)
	}
}

func (c *call) half() {
	if c.job == "build" && len(c.aims) > 0 && c.aims[0].trait == plain {
		c.aims[0].pieces[0].set(c.work, c.aims[0].pieces[0].value)
	}
}

// claim ends a call that takes its task to be done: with the box ticked, with the closing line, or
// with both.
func (c *call) claim(words string) {
	way := c.rnd.IntN(3)
	if c.end.Final, c.claimed = words, true; way > 0 {
		c.end.Final += "\n\nRALPH_RESULT: done"
	}
	if way < 2 {
		c.edit(func(s string) string { return strings.Replace(s, "- [ ] "+c.id+" ", "- [x] "+c.id+" ", 1) })
	}
}

// admit ends a call that failed or lacks something: in plain words, and half of the time with the
// closing line as well.
func (c *call) admit(kind, words string) bool {
	if c.end.Final = words; c.rnd.IntN(2) == 0 {
		c.end.Final += fmt.Sprintf("\n\nRALPH_RESULT: %s: %s", kind, words)
	}
	return false
}

// goOn ends a call that did a part of its task and says what is left.
func (c *call) goOn(left []string) {
	c.inPart = true
	c.end.Final = "A part of it is done.\n\nRALPH_RESULT: partial: left are " + strings.Join(left, ", ")
}

// tooMuch ends a call at a task that is more than a call can do: it says that it goes on, that it is
// too large, or nothing, because its turns were used up.
func (c *call) tooMuch(left []string) {
	switch c.rnd.IntN(3) {
	case 0:
		c.goOn(left)
	case 1:
		c.end.Final = "The first part is done.\n\nRALPH_RESULT: failed: the task is too large and has to be split"
	default:
		c.end.Outcome, c.end.Detail = loop.AgentGaveUp, "reached the maximum number of turns"
	}
}

// edit changes the progress file, where there is one to be changed.
func (c *call) edit(change func(string) string) {
	if src, ok := c.work[c.list]; ok && !c.links[c.list] {
		c.work[c.list] = change(src)
	}
}

// corrupt ruins the progress file: cut short, binary, gone, or a link.
func (c *call) corrupt() {
	switch src := c.work[c.list]; c.rnd.IntN(4) {
	case 0:
		c.work[c.list] = src[:len(src)/2]
	case 1:
		c.work[c.list] = "\x7fELF\x00\x00\xff\xfe" + src
	case 2:
		delete(c.work, c.list)
	default:
		c.links[c.list] = true
	}
}

// addTasks puts tasks at the end of the list.
func (c *call) addTasks(tasks []run.Task) {
	c.end.Final = fmt.Sprintf("Wrote %d tasks.", len(tasks))
	if c.fault == corrupts {
		c.corrupt()
		return
	}
	c.edit(func(src string) string {
		doc, err := progress.Parse([]byte(src))
		if err != nil || len(tasks) == 0 || doc.SetTasks(append(doc.Tasks(), tasks...)) != nil {
			return src
		}
		return string(doc.Bytes())
	})
}

func task(title string, pieces []piece) run.Task {
	t := run.Task{Title: title, Status: run.TaskOpen}
	for _, p := range pieces {
		t.Accept = append(t.Accept, fmt.Sprintf("%s: %s is %q", p.file, p.name, p.value))
	}
	return t
}

// plan writes the tasks for what the prompt says is wanted.
func (c *call) plan() {
	var tasks []run.Task
	for _, m := range c.modules {
		if strings.Contains(c.prompt, "The module "+m.name+" is to be right:") {
			tasks = append(tasks, task("Make "+m.name+" right", m.pieces))
		}
	}
	switch c.fault {
	case emptyPlan, noOp, earlyDone:
		tasks = nil
	case touchesCode:
		for i, p := range c.pieces() {
			p.set(c.work, []string{p.value, "planned"}[i%2])
		}
	default:
	}
	c.addTasks(tasks)
}

// split writes the parts of a task that proved too big.
func (c *call) split() {
	var parts []run.Task
	for _, x := range c.aims {
		for _, file := range x.paths() {
			parts = append(parts, task("Make "+file+" right", x.part(file).pieces))
		}
	}
	if len(parts) < 2 || c.fault == noOp || c.fault == earlyDone {
		c.end.Final = "There is nothing to split."
		return
	}
	c.addTasks(parts)
}

// review adds a task for each module that is not as it should be.
func (c *call) review() {
	var found []run.Task
	for _, m := range c.modules {
		mend := !m.holds(c.work) && m.trait.solvable()
		switch c.fault {
		case noOp, earlyDone, passesAll:
			mend = false
		case reopensGood:
			mend = m.holds(c.work) && len(found) == 0
		case endless:
			mend = true
		default:
		}
		if mend {
			t := task("Mend "+m.name, nil)
			t.Accept = []string{"its values are those of the plan"}
			found = append(found, t)
		}
	}
	c.addTasks(found)
}

// verify looks whether a task is done, criterion by criterion.
func (c *call) verify() {
	if c.fault == noAnswer || c.fault == noOp || c.fault == earlyDone {
		c.end.Final = "I have looked at the task. It seems fine."
		return
	}
	lacks := ""
	_, asked, _ := strings.Cut(c.prompt, "\n## What to answer\n")
	for i, m := range question.FindAllStringSubmatch(asked, -1) {
		where, lack := c.look(m[1])
		switch c.fault {
		case objects:
			lack = "the value is not used anywhere"
		case agrees:
			where, lack = "README.md:1", ""
		default:
		}
		if lack == "" {
			c.end.Final += fmt.Sprintf("%d. yes: %s\n", i+1, where)
		} else {
			lacks = cmp.Or(lacks, lack)
			c.end.Final += fmt.Sprintf("%d. no: %s\n", i+1, lack)
		}
	}
	if lacks == "" {
		c.end.Final += "\nRALPH_VERIFY: agreed"
	} else {
		c.end.Final += "\nRALPH_VERIFY: not agreed: " + lacks
	}
}

// look says where the tree meets a criterion, or what it lacks. One that names no value is met where
// the values of the task are right.
func (c *call) look(text string) (where, lacks string) {
	pieces := []piece{}
	for _, x := range c.aims {
		pieces = append(pieces, x.pieces...)
	}
	if m := wantValue.FindStringSubmatch(text); m != nil {
		pieces = []piece{{m[1], m[2], m[3]}}
	}
	for _, p := range pieces {
		if !p.holds(c.work) {
			return "", fmt.Sprintf("%s: %s is not %q", p.file, p.name, p.value)
		}
		where = cmp.Or(where, place(c.work, p))
	}
	return cmp.Or(where, "ran `"+acceptCommand+"`: accepted"), ""
}

// place is where the value of a piece stands, the beginning of its file where it does not.
func place(f files, p piece) string {
	before, _, found := strings.Cut(f[p.file], "\nconst "+p.name+" = ")
	if !found {
		before = ""
	}
	return fmt.Sprintf("%s:%d", p.file, 2+strings.Count(before, "\n"))
}
