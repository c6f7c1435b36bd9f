package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// plainFile is where the plain loop's agents keep their list.
const plainFile = "plan_PROGRESS.md"

// plainPrompt is the one prompt of a plain Ralph loop: the same each time.
const plainPrompt = `Read the plan and plan_PROGRESS.md; write the list of tasks if there is none.
Do the most important task that is open, and only that one. Look first whether it is done already.
Run the tests. Tick its box, and note what you learned. If something blocks it, note that and go on to the next.
When every box is ticked, set the status to RALPH_DONE.
`

// Times of the plain loop.
const (
	// plainPause is what such loops sleep between two calls.
	plainPause = 2 * time.Second
	// plainWall is the one limit on a call.
	plainWall = 30 * time.Minute
)

// plain runs the project through a plain Ralph loop, as snarktank/ralph and
// portableralph do it: the same prompt again and again until a completion marker
// stands in the output or in the progress file, or the iterations are used up.
// The marker is believed; an agent's error is passed over; what is there after a
// call is committed; no check is run.
func plain(ctx context.Context, p *project, m Mix, rnd *rand.Rand) (outcome, error) {
	a := &agent{project: p, mix: m, checks: newChecker()}
	w := &workTree{files: cloneFiles(p.base), links: map[string]bool{}}
	meter := newMeter(p, a.checks)
	var clock time.Duration
	var limitedUntil time.Duration
	limit := m.Limits.limits().MaxIterations
	out := outcome{end: run.EndMaxIterations}
	for range limit {
		if err := ctx.Err(); err != nil {
			return outcome{}, fmt.Errorf("run plain Ralph: %w", err)
		}
		before := meter.before(w.files)
		c := &call{prompt: plainPrompt, tree: w, progress: plainFile, rnd: rnd}
		ans := answer{ending: endedRefused, took: 5 * time.Second}
		if clock >= limitedUntil {
			ans = a.work(c)
		}
		switch ans.ending {
		case endedSilent, endedEndless:
			ans.took = plainWall
		case endedRefused:
			limitedUntil = max(limitedUntil, clock+ans.limit)
		case endedWell, endedGaveUp, endedCrashed, endedCutOff:
		}
		clock += ans.took + plainPause
		meter.called(ans, before, w.files)
		meter.landed(w.files)
		if strings.Contains(ans.final, "<promise>COMPLETE</promise>") ||
			strings.Contains(w.files[plainFile], progress.StatusDone) {
			out.end = run.EndRalphDone
			break
		}
	}
	meter.finish(&out, w.files, clock)
	return out, nil
}

// nextOfList is a call of a plain loop: it takes the first open task of the list
// that no call before has called blocked.
func (a *agent) nextOfList(c *call, out *answer) {
	if src, ok := c.tree.files[c.progress]; !ok || c.tree.links[c.progress] || !taskItem.MatchString(firstTask(src)) {
		delete(c.tree.links, c.progress)
		c.tree.files[c.progress] = a.newList(c)
	}
	var open, blocked []string
	for line := range strings.Lines(c.tree.files[c.progress]) {
		m := taskItem.FindStringSubmatch(strings.TrimRight(line, "\n"))
		switch {
		case m == nil || m[1] == "x":
		case strings.HasSuffix(m[3], blockedNote):
			blocked = append(blocked, m[3])
		default:
			open = append(open, m[3])
		}
	}
	title := ""
	switch {
	case len(open) > 0:
		title = open[0]
	case len(blocked) > 0:
		title = blocked[c.rnd.IntN(len(blocked))]
	}
	if title != "" {
		a.build(c, assignment{job: "build", title: title}, out)
	}
	done := !slices.ContainsFunc(strings.Split(c.tree.files[c.progress], "\n"), func(l string) bool {
		m := taskItem.FindStringSubmatch(l)
		return m != nil && m[1] == " "
	})
	switch {
	case done && out.ending == endedWell && (out.fault == FaultNone || title == ""):
		c.edit(markDone)
	case out.fault == FaultNone && !out.partial && !done &&
		strings.Contains(c.tree.files[c.progress], "- [ ] "+title+"\n") && c.rnd.IntN(3) == 0:
		c.edit(func(s string) string {
			return strings.Replace(s, "- [ ] "+title+"\n", "- [ ] "+title+blockedNote+"\n", 1)
		})
	}
}

const blockedNote = " (blocked)"

// firstTask is the first line of a list that is a task.
func firstTask(src string) string {
	for line := range strings.Lines(src) {
		if line = strings.TrimRight(line, "\n"); taskItem.MatchString(line) {
			return line
		}
	}
	return "-"
}

// newList writes the list from the plan, with a tick where the work is found to be
// there.
func (a *agent) newList(c *call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Progress: plan\n\n## Status\n\n%s\n\n## Task List\n\n", progress.StatusInProgress)
	for _, m := range a.project.modules {
		box := " "
		if m.held(c.tree.files) {
			box = "x"
		}
		fmt.Fprintf(&b, "- [%s] Make %s right\n", box, m.name)
	}
	b.WriteString("\n## Learnings\n\n## Notes\n")
	return b.String()
}
