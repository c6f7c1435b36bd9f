package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// maxFindings bounds the sentences about a plan.
const maxFindings = 20

func (p *Plan) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(p.Findings) < maxFindings && !slices.Contains(p.Findings, text) {
		p.Findings = append(p.Findings, text)
	}
}

// quote is a text of the plan in a sentence.
func quote(s string) string { return "“" + strs.Cut(run.PrintableLine(s), 100) + "”" }

// look names what the plan says and nobody can heed: dependencies on no task, lines that somebody
// may have meant as work and that are not read as such, and lines that ask for a check and name
// no command. In a list without ids T1 is the first task, T2 the second, and so on, where one
// names another.
func (p *Plan) look(unread []progress.Unread) {
	if !slices.ContainsFunc(p.Tasks, func(t run.Task) bool { return t.ID != "" }) &&
		slices.ContainsFunc(p.Tasks, func(t run.Task) bool { return len(t.DependsOn) > 0 }) {
		for i := range p.Tasks {
			p.Tasks[i].ID = "T" + strconv.Itoa(i+1)
		}
	}
	known := map[string]bool{}
	for _, t := range p.Tasks {
		known[t.ID] = true
	}
	var unchecked []string
	for _, t := range p.Tasks {
		for _, id := range t.DependsOn {
			if !known[id] {
				p.say("The task %s depends on %s, which is not a task in the plan; the dependency is ignored.", quote(t.Title), quote(id))
			}
		}
		for _, a := range t.Accept {
			if strings.HasPrefix(a, "Verify: ") {
				unchecked = append(unchecked, a)
			}
		}
	}
	for _, u := range unread {
		if u.Box {
			p.Unread++
		}
		p.say("Line %d, %s, %s.", u.Line, quote(u.Text), u.Why)
	}
	if n := len(unchecked); n > 0 {
		p.say("%s without a command in backticks, %s the first: the agent is told, and nothing is run.",
			strs.Count(n, "Verify line"), quote(unchecked[0]))
	}
}
