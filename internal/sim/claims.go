package sim

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// claim ends a call that takes its task to be done: with the box ticked, with the
// closing line, or with both. The prompt of a plain loop asks for the box only.
func (c *call) claim(task assignment, out *answer, words string) {
	const boxOnly, lineOnly = 0, 1
	way := c.rnd.IntN(3)
	if task.id == "" || way != lineOnly {
		c.edit(func(s string) string { return tickBox(s, task.id, task.title) })
	}
	out.final, out.claimed = words, true
	if way != boxOnly {
		out.final += "\n\nRALPH_RESULT: done"
	}
}

// admit ends a call that failed or lacks something: in plain words, and half of the
// time with the closing line as well.
func (c *call) admit(out *answer, kind, words string) {
	out.final = words
	if c.rnd.IntN(2) == 0 {
		out.final += fmt.Sprintf("\n\nRALPH_RESULT: %s: %s", kind, words)
	}
}

// goesOn ends a call that did a part of its task and says what is left.
func (c *call) goesOn(out *answer, left []string) {
	out.partial = true
	out.final = "A part of it is done, and the code builds.\n\nRALPH_RESULT: partial: left are " + strings.Join(left, ", ")
}

// tooMuch ends a call at a task that is more than a call can do: it says that it goes
// on, that it is too large, or nothing, because its turns were used up.
func (c *call) tooMuch(out *answer, left []string) {
	out.final, out.partial = "", false
	switch c.rnd.IntN(3) {
	case 0:
		c.goesOn(out, left)
	case 1:
		out.final = "This is more than fits into one session; the first part is done.\n\n" +
			"RALPH_RESULT: failed: the task is too large and has to be split"
	default:
		out.ending, out.detail = endedGaveUp, "reached the maximum number of turns"
	}
}

// unfinished are the files of an aim whose values are not all right.
func (x aim) unfinished(f files) []string {
	var out []string
	for _, p := range x.pieces {
		if !p.held(f) && !slices.Contains(out, p.file) {
			out = append(out, p.file)
		}
	}
	return out
}

// step does the next file of a task that needs several calls, and says whether that
// was the last one.
func (c *call) step(x aim, out *answer) bool {
	if left := x.unfinished(c.tree.files); len(left) > 0 {
		for _, p := range x.pieces {
			if p.file == left[0] {
				setPiece(c.tree.files, p, p.value)
			}
		}
	}
	left := x.unfinished(c.tree.files)
	if len(left) > 0 {
		c.goesOn(out, left)
	}
	return len(left) == 0
}

// right counts the values of a call's aims that are as they should be.
func right(f files, aims []aim) (n int, all bool) {
	all = len(aims) > 0
	for _, x := range aims {
		for _, p := range x.pieces {
			if p.held(f) {
				n++
			} else {
				all = false
			}
		}
	}
	return n, all
}

// place is where the value of a piece stands: a file with a line, that of the file's
// beginning where it does not.
func place(f files, p piece) string {
	n := 0
	for line := range strings.Lines(f[p.file]) {
		if n++; strings.HasPrefix(line, "const "+p.name+" = ") {
			return fmt.Sprintf("%s:%d", p.file, n)
		}
	}
	return p.file + ":1"
}

// VerifyFault is what may go wrong with a call that looks whether a task is done.
type VerifyFault string

// The faults of a verifier. The call itself may have one of [Faults] as well.
const (
	// VerifyObjects says of a task that is done that it is not.
	VerifyObjects VerifyFault = "objects"
	// VerifyNoAnswer says something that answers nothing.
	VerifyNoAnswer VerifyFault = "no_answer"
	// VerifyAgrees looks at nothing and agrees, with a place that shows nothing.
	VerifyAgrees VerifyFault = "agrees"
)

// VerifyFaults lists the faults of verifiers, in the order in which they are drawn.
func VerifyFaults() []VerifyFault { return []VerifyFault{VerifyObjects, VerifyNoAnswer, VerifyAgrees} }

var (
	criterion = regexp.MustCompile(`(?m)^\d+\. (.+)$`)
	wantValue = regexp.MustCompile(`^(\S+\.go): (\w+) is "([^"]*)"$`)
)

// verify looks whether a task is done, criterion by criterion.
func (a *agent) verify(c *call, task assignment, out *answer) {
	out.planned = true // it changes nothing, and shows nothing of the agent's own
	aims := a.aims(c, task.title)
	if len(aims) > 0 {
		out.focus = aims[0].module.name
	}
	fault := pick(c.rnd, VerifyFaults(), a.mix.Verifier)
	if fault != "" && out.fault == FaultNone {
		out.fault = Fault(fault)
	}
	switch out.fault {
	case FaultCrashes, FaultProviderError:
		out.ending, out.detail = endedCrashed, "signal: segmentation fault"
		return
	case FaultHangs:
		out.ending = endedSilent
		return
	case FaultNoOp, FaultEarlyDone, FaultWronglyThere, FaultNeverClaims, Fault(VerifyNoAnswer):
		out.final = "I have looked at the task. It seems fine."
		return
	}
	var b strings.Builder
	missing := ""
	_, asked, _ := strings.Cut(c.prompt, "\n## What to answer\n")
	for i, m := range criterion.FindAllStringSubmatch(asked, -1) {
		where, lacks := a.judge(c, aims, m[1])
		switch out.fault {
		case Fault(VerifyObjects):
			lacks = "the value is not used anywhere"
		case Fault(VerifyAgrees):
			where, lacks = "README.md:1", ""
		}
		if lacks == "" {
			fmt.Fprintf(&b, "%d. yes: %s\n", i+1, where)
		} else {
			missing = cmp.Or(missing, lacks)
			fmt.Fprintf(&b, "%d. no: %s\n", i+1, lacks)
		}
	}
	if missing == "" {
		b.WriteString("\nRALPH_VERIFY: agreed")
	} else {
		b.WriteString("\nRALPH_VERIFY: not agreed: " + missing)
	}
	out.final = b.String()
}

// judge looks at one criterion: where the tree meets it, or what it lacks. One that
// names no value is met where the values of the task are right or, where the task
// names none, where the check of the end passes.
func (a *agent) judge(c *call, aims []aim, text string) (where, lacks string) {
	f := c.tree.files
	if m := wantValue.FindStringSubmatch(text); m != nil {
		p := piece{file: m[1], name: m[2], value: m[3]}
		if !p.held(f) {
			return "", fmt.Sprintf("%s: %s is not %q", p.file, p.name, p.value)
		}
		return place(f, p), ""
	}
	for _, x := range aims {
		for _, p := range x.pieces {
			if !p.held(f) {
				return "", fmt.Sprintf("%s: %s is not %q", p.file, p.name, p.value)
			}
			where = cmp.Or(where, place(f, p))
		}
	}
	if where == "" {
		where = "ran `" + acceptCommand + "`: accepted"
	}
	return where, ""
}

// besides are the modules whose values a call at these aims brings along.
func (a *agent) besides(aims []aim) []module {
	var out []module
	for _, m := range a.project.modules {
		if m.with != "" && slices.ContainsFunc(aims, func(x aim) bool { return x.module.name == m.with }) {
			out = append(out, m)
		}
	}
	return out
}

// mine says whether a file belongs to the modules of these aims.
func mine(aims []aim, file string) bool {
	return slices.ContainsFunc(aims, func(x aim) bool { return path.Dir(file) == x.module.name })
}
