package plan

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// unchecked says that lines which ask for a check name no command.
func (p *Plan) unchecked() {
	first, n := "", 0
	for _, t := range p.Tasks {
		for _, a := range t.Accept {
			if strings.HasPrefix(a, "Verify: ") {
				n++
				first = cmp.Or(first, a)
			}
		}
	}
	if n > 0 && len(p.Findings) < maxFindings {
		p.Findings = append(p.Findings, fmt.Sprintf("%s without a command in backticks, “%s” the first: the agent is told, and nothing is run.",
			strs.Count(n, "Verify line"), strs.Cut(run.PrintableLine(first), 100)))
	}
}

// unread names by line what somebody may have meant and is not read.
func (p *Plan) unread(lines []progress.Unread) {
	for _, u := range lines {
		if u.Box {
			p.Unread++
		}
		if len(p.Findings) < maxFindings {
			p.Findings = append(p.Findings,
				fmt.Sprintf("Line %d, “%s”, %s.", u.Line, strs.Cut(run.PrintableLine(u.Text), 100), u.Why))
		}
	}
}
