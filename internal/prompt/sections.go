package prompt

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

//go:embed sections.tmpl
var sectionsText string

// sections is parsed when the first prompt is written.
var sections = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("sections").Funcs(template.FuncMap{
		"bullets": bullets, "numbered": numbered, "joined": joined, "lines": lines,
	}).Parse(sectionsText))
})

// page is an input as the template of the sections reads it.
type page struct{ Input }

// What the call is for.

func (p page) Plans() bool    { return p.Job == JobPlan }
func (p page) Builds() bool   { return p.Job == JobBuild }
func (p page) Splits() bool   { return p.Job == JobSplit }
func (p page) Reviews() bool  { return p.Job == JobReview }
func (p page) Verifies() bool { return p.Job == JobVerify }

// Section is a section of the progress file.
func (p page) Section(name string) string {
	if p.Progress == nil {
		return ""
	}
	return p.Progress.Section(name)
}

// maxListed bounds the names of a listing; sections.tmpl bounds its bytes.
const maxListed = 100

// Project tells what lies at the top of a tree, whose names anybody may have chosen; those
// of folders end in "/". It spares each fresh agent its first look around.
func Project(names []string) string {
	var told []string
	for _, entry := range names {
		if entry != ".ralph/" {
			told = append(told, entry)
		}
	}
	told = lines(told[:min(len(told), maxListed)])
	return strings.Join(told, "  ")
}

// ProjectText is the project with the commands that check it; a build is told them as its
// checks.
func (p page) ProjectText() string {
	if p.Project == "" || p.Builds() || len(p.GateCommands) == 0 {
		return p.Project
	}
	return p.Project + "\nCommands that check it: " + strings.Join(lines(p.GateCommands), "; ")
}

func (p page) tasks() []run.Task {
	if p.Progress == nil {
		return nil
	}
	return p.Progress.Tasks()
}

// Done is how many of Total tasks are.
func (p page) Done() int {
	done, _ := progress.Counts(p.tasks())
	return done
}

// Total is how many tasks there are.
func (p page) Total() int {
	_, total := progress.Counts(p.tasks())
	return total
}

// nearby is how many tasks before and after the one at hand are recited.
const nearby = 12

// Standing recites the plan: where the work stands keeps a long prompt from drifting.
func (p page) Standing() string {
	tasks := p.tasks()
	at := max(slices.IndexFunc(tasks, func(t run.Task) bool { return t.ID != "" && t.ID == p.Task.ID }), 0)
	from, to := max(at-nearby, 0), min(at+nearby+1, len(tasks))
	var b strings.Builder
	if from > 0 {
		fmt.Fprintf(&b, "… %d before\n", from)
	}
	for i, t := range tasks[from:to] {
		mark := ""
		if from+i == at && p.Task.ID != "" {
			mark = "   <- this one"
		}
		fmt.Fprintf(&b, "%s: %s %s%s\n", status(t.Status), t.ID, name(t.Title), mark)
	}
	if to < len(tasks) {
		fmt.Fprintf(&b, "… %d after\n", len(tasks)-to)
	}
	return b.String()
}

// status is a task's state as a word: boxes in a prompt get copied into files.
func status(s run.TaskStatus) string {
	switch s {
	case run.TaskDone:
		return "done"
	case run.TaskBlocked:
		return "blocked"
	case run.TaskSkipped:
		return "skipped"
	case run.TaskOpen, run.TaskInProgress, run.TaskInReview:
		return "open"
	default:
		return string(s)
	}
}

// TaskText is all that is known of the task.
func (p page) TaskText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", p.Task.ID, p.Task.Title)
	if p.Task.Group != "" {
		fmt.Fprintf(&b, "Part of: %s\n", p.Task.Group)
	}
	for _, a := range p.Task.Accept {
		fmt.Fprintf(&b, "Accept: %s\n", a)
	}
	verify := "Verify"
	if p.Builds() {
		verify = "Verify (the host runs this after you end; it must succeed)"
	}
	for _, c := range p.Task.Checks {
		fmt.Fprintf(&b, "%s: %s\n", verify, c)
	}
	if len(p.Task.Files) > 0 {
		fmt.Fprintf(&b, "Files: %s\n", strings.Join(p.Task.Files, ", "))
	}
	for _, step := range p.Task.Steps {
		fmt.Fprintf(&b, "Do: %s\n", step)
	}
	if p.Task.Verify {
		b.WriteString("This task is a check and should not need code changes.\n")
	}
	return b.String()
}

// MayBeSpent says what is left, where somebody set a limit.
func (p page) MayBeSpent() string {
	var parts []string
	if p.Left.Attempts > 0 && p.Builds() {
		parts = append(parts, strs.Count(p.Left.Attempts, "attempt")+" at this task, this one included")
	}
	if p.Left.Iterations > 0 {
		parts = append(parts, strs.Count(p.Left.Iterations, "iteration"))
	}
	if p.Left.Time > 0 {
		parts = append(parts, fmt.Sprintf("%s for this call", p.Left.Time.Round(time.Second)))
	}
	if p.Left.USD > 0 {
		parts = append(parts, fmt.Sprintf("US$ %.2f", p.Left.USD))
	}
	return strings.Join(parts, "; ")
}

// TriedText is a line for each earlier attempt.
func (p page) TriedText() string {
	var b strings.Builder
	for _, a := range p.Tried {
		fmt.Fprintf(&b, "Iteration %d", a.Iteration)
		for _, part := range []struct{ label, text string }{{"tried", a.Tried}, {"result", a.Result}, {"next", a.Next}} {
			if text := name(part.text); text != "" {
				fmt.Fprintf(&b, " | %s: %s", part.label, text)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
