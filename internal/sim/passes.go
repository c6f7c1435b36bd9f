package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// PlanFault is what may go wrong with a call that writes the plan.
type PlanFault string

// The faults of a planner. The call itself may have one of [Faults] as well.
const (
	// PlanNothing writes no task, and says that the plan is made.
	PlanNothing PlanFault = "empty_plan"
	// PlanTooLarge puts three modules into one task, which no call can do at once.
	PlanTooLarge PlanFault = "too_large"
	// PlanTouchesCode writes the plan and, unasked, code, some of it wrong.
	PlanTouchesCode PlanFault = "touches_code"
)

// PlanFaults lists the faults of planners, in the order in which they are drawn.
func PlanFaults() []PlanFault { return []PlanFault{PlanNothing, PlanTooLarge, PlanTouchesCode} }

// ReviewFault is what may go wrong with a call that reviews all of the work.
type ReviewFault string

// The faults of a reviewer.
const (
	// ReviewReopensGood asks for a task that is solved already to be mended.
	ReviewReopensGood ReviewFault = "reopens_good"
	// ReviewPassesAll reads nothing and finds nothing.
	ReviewPassesAll ReviewFault = "passes_all"
	// ReviewEndless asks for as many tasks as there are modules, whatever they are
	// like.
	ReviewEndless ReviewFault = "endless"
)

// ReviewFaults lists the faults of reviewers, in the order in which they are drawn.
func ReviewFaults() []ReviewFault {
	return []ReviewFault{ReviewReopensGood, ReviewPassesAll, ReviewEndless}
}

// prose is the issue of a run that begins with planning: what is wanted, in no list.
func (p *project) prose() string {
	var b strings.Builder
	b.WriteString("The values below are wanted. Each has its test already.\n")
	for _, m := range p.modules {
		fmt.Fprintf(&b, "\nThe module %s is to be put right.", m.name)
		for _, x := range m.pieces {
			fmt.Fprintf(&b, " In %s the constant %s is %q.", x.file, x.name, x.value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// maxWanted is how many modules a task that is too large has.
const maxWanted = 3

var wantedModule = regexp.MustCompile(`The module (m\d{2}) is to be put right`)

// plan writes the tasks for what the prompt says is wanted.
func (a *agent) plan(c *call, out *answer) {
	fault := pick(c.rnd, PlanFaults(), a.mix.Planner)
	if fault != "" && out.fault == FaultNone {
		out.fault = Fault(fault)
	}
	var wanted []module
	for _, m := range wantedModule.FindAllStringSubmatch(c.prompt, -1) {
		if mod, ok := a.project.module(m[1]); ok &&
			!slices.ContainsFunc(wanted, func(w module) bool { return w.name == mod.name }) {
			wanted = append(wanted, mod)
		}
	}
	var tasks []run.Task
	size := 1
	if fault == PlanTooLarge {
		size = maxWanted
	}
	for some := range slices.Chunk(wanted, size) {
		t := run.Task{Status: run.TaskOpen}
		var names []string
		for _, m := range some {
			names = append(names, m.name)
			for _, x := range m.pieces {
				t.Accept = append(t.Accept, fmt.Sprintf("%s: %s is %q", x.file, x.name, x.value))
			}
		}
		t.Title = "Make " + strings.Join(names, " and ") + " right"
		tasks = append(tasks, t)
	}
	out.final = fmt.Sprintf("Wrote %d tasks.", len(tasks))
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
	case FaultNoOp, FaultEarlyDone, FaultWronglyThere, FaultNeverClaims, Fault(PlanNothing):
		out.final = "The plan is written."
		return
	case Fault(PlanTouchesCode):
		for i, m := range wanted {
			for _, x := range m.pieces {
				setPiece(c.tree.files, x, []string{x.value, "planned"}[i%2])
			}
		}
	}
	c.addTasks(tasks)
}

// misjudges plays the fault of a reviewer, if there is one.
func (a *agent) misjudges(c *call, out *answer) bool {
	fault := pick(c.rnd, ReviewFaults(), a.mix.Reviewer)
	if fault == "" {
		return false
	}
	out.fault = Fault(fault)
	var tasks []run.Task
	ask := func(m module) {
		tasks = append(tasks, run.Task{
			Title: "Mend " + m.name, Status: run.TaskOpen, Accept: []string{"its values are those of the plan"},
		})
	}
	switch fault {
	case ReviewReopensGood:
		for _, m := range a.project.modules {
			if m.held(c.tree.files) {
				ask(m)
				break
			}
		}
	case ReviewPassesAll:
	case ReviewEndless:
		for _, m := range a.project.modules {
			ask(m)
		}
	}
	c.addTasks(tasks)
	out.final = fmt.Sprintf("%d things to mend.", len(tasks))
	return true
}

// taught is what another run noted: one of the same project whose branch was thrown away,
// or, half of the time, one of a project like it, whose modules have the same names and
// want other values.
func taught(ctx context.Context, p *project, m Mix, rnd *rand.Rand) (string, error) {
	of := p
	if rnd.IntN(2) == 0 {
		of = newProject(m, rnd)
	}
	earlier, err := drive(ctx, of, m, "earlier", rnd.Uint64(), "")
	return earlier.notes, err
}
