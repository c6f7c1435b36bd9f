package plan

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// maxFindings bounds the sentences about a plan.
const maxFindings = 20

// dependRE is "Depends on: T1, T2" at the end of a title: a line of its own below
// a task that is no item of a list belongs to the title.
var dependRE = strs.Lazy(`(?i)(?:^|\s)[(\[]?depends on: *(T\d{1,6}(?:(?: *[,;&+] *| +and +| +)T\d{1,6})*)[)\]]?\.?$`)

// idRE is the id of a task.
var idRE = strs.Lazy(`T0*([1-9]\d{0,5})`)

// depend has tasks wait for those that the text names. In a list without ids T1 is
// the first task, T2 the second, and so on. What names no task is said in Findings.
func (p *Plan) depend() {
	for i := range p.Tasks {
		t := &p.Tasks[i]
		if m := dependRE().FindStringSubmatch(t.Title); m != nil {
			for _, id := range idRE().FindAllStringSubmatch(m[1], -1) {
				t.DependsOn = append(slices.Clip(t.DependsOn), "T"+id[1])
			}
		}
	}
	number(p.Tasks)
	known := map[string]bool{}
	for _, t := range p.Tasks {
		known[t.ID] = true
	}
	for _, t := range p.Tasks {
		for _, id := range t.DependsOn {
			if !known[id] {
				p.ignored(t.Title, id)
			}
		}
	}
}

// number gives the tasks of a list without ids the ids that they are named by
// there, where one names another.
func number(tasks []run.Task) {
	if slices.ContainsFunc(tasks, func(t run.Task) bool { return t.ID != "" }) ||
		!slices.ContainsFunc(tasks, func(t run.Task) bool { return len(t.DependsOn) > 0 }) {
		return
	}
	for i := range tasks {
		tasks[i].ID = "T" + strconv.Itoa(i+1)
	}
}

func (p *Plan) ignored(title, on string) {
	text := fmt.Sprintf("The task “%s” depends on “%s”, which is not a task in the plan; the dependency is ignored.",
		strs.Cut(strs.OneLine(title), 100), strs.Cut(strs.OneLine(on), 100))
	if len(p.Findings) < maxFindings && !slices.Contains(p.Findings, text) {
		p.Findings = append(p.Findings, text)
	}
}
