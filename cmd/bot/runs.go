package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/inline"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
	"github.com/org/ralph-action/internal/tui"
)

// remembered is what is known of the runs in the checkout around the working
// directory.
type remembered struct {
	git  *gitrepo.Git
	runs []inline.Past
}

func openRuns(ctx bound) (h remembered, err error) {
	if h.git, err = gitrepo.New(""); err != nil {
		return h, err
	}
	data, err := dataDir()
	if err != nil {
		return h, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return h, fmt.Errorf("find the working directory: %w", err)
	}
	h.runs, err = inline.Runs(ctx, h.git, dir, data)
	return h, err
}

// findRun opens what is known of runs and finds one there.
func findRun(ctx bound, id string) (remembered, inline.Past, error) {
	h, err := openRuns(ctx)
	if err != nil {
		return h, inline.Past{}, err
	}
	p, err := h.find(id)
	return h, p, err
}

// find gives the run of that plan or branch, or with that id, or with the only id that
// begins so; the last run for "".
func (h remembered) find(name string) (inline.Past, error) {
	var found []inline.Past
	for _, p := range h.runs {
		slug, _ := run.BranchSlug(p.State.Branch)
		switch id := string(p.State.Run); {
		case name != "" && slices.Contains([]string{id, planName(p.State), p.State.Branch, slug}, name):
			return p, nil
		case strings.HasPrefix(id, name):
			found = append(found, p)
		}
	}
	switch {
	case len(h.runs) == 0:
		return inline.Past{}, &run.UserError{
			Message: "no run is remembered in this repository", Hint: "start one with " + calledAs() + " run PLAN.md",
		}
	case len(found) == 0:
		return inline.Past{}, &run.UserError{
			Message: fmt.Sprintf("no run %q is remembered in this repository", name),
			Hint:    calledAs() + " runs lists them: the last one of each plan",
		}
	case name != "" && len(found) > 1:
		return inline.Past{}, &run.UserError{
			Message: fmt.Sprintf("%d runs begin with %q", len(found), name), Hint: calledAs() + " runs lists them",
		}
	}
	return found[len(found)-1], nil
}

// again is the command that goes on with a run.
func again(s loop.State) string {
	command := calledAs() + " run " + quoted(planName(s))
	if planName(s) == s.ProgressPath && landed(s) > 0 { // the file is on the branch alone
		command = "git switch " + quoted(s.Branch) + " && " + command
	}
	return command
}

// planName is what a person names to run a plan again.
func planName(s loop.State) string {
	if strings.HasPrefix(s.Subject.Key, "words:") {
		return s.ProgressPath
	}
	return s.Subject.PlanFile
}

// standing says how a run is going, or how it ended.
func standing(s loop.State) string {
	if !s.Phase.Terminal() && s.Phase != run.PhasePaused {
		return "unfinished"
	}
	return cmp.Or(string(s.End), string(s.Phase))
}

// runsCmd is `bot runs`.
type runsCmd struct {
	Config string `help:"A server's configuration: list its runs instead." placeholder:"FILE" type:"path"`
	JSON   bool   `name:"json" help:"Print one JSON document."`
}

// runLine is a run in `bot runs --json`.
type runLine struct {
	ID     run.ID    `json:"id"`
	Plan   string    `json:"plan"`
	Branch string    `json:"branch"`
	Began  time.Time `json:"began"`
	End    string    `json:"end"`
	Done   int       `json:"tasks_done"`
	Total  int       `json:"tasks_total"`
}

// Run lists the last run of each plan.
func (c *runsCmd) Run(ctx bound, io stdio) error {
	if c.Config != "" {
		return printServerRuns(ctx, io, c.Config, c.JSON)
	}
	h, err := openRuns(ctx)
	if err != nil {
		return err
	}
	lines := make([]runLine, 0, len(h.runs))
	for _, p := range h.runs {
		done, total := progress.Counts(tasksOf(p.State))
		lines = append(lines, runLine{
			ID: p.State.Run, Plan: planName(p.State), Branch: p.State.Branch, Began: p.Began, End: standing(p.State),
			Done: done, Total: total,
		})
	}
	if c.JSON {
		return printJSON(io.out, lines)
	}
	rows := [][]string{{"RUN", "BEGAN", "TASKS", "END", "BRANCH", "PLAN"}}
	for _, l := range lines {
		rows = append(rows, []string{
			string(l.ID), minuteOf(l.Began), fmt.Sprintf("%d of %d", l.Done, l.Total), l.End, l.Branch, l.Plan,
		})
	}
	return printTable(io.out, "No runs yet.", rows)
}

// minuteOf is a time as lists show it.
func minuteOf(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// printTable prints rows, of which the first has the heads, or none where there are no
// others.
func printTable(out io.Writer, none string, rows [][]string) error {
	if len(rows) == 1 {
		_, err := fmt.Fprintln(out, none)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = run.PrintableLine(cell)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// writeFacts writes what is known of a run, each by its name, and an empty line.
func writeFacts(b *strings.Builder, facts [][2]string) {
	for _, f := range facts {
		fmt.Fprintf(b, "%-7s %s\n", f[0], run.PrintableLine(f[1]))
	}
	b.WriteString("\n")
}

// writeTask writes how a task stands, and why.
func writeTask(b *strings.Builder, status run.TaskStatus, title, why string) {
	fmt.Fprintf(b, "%s %s\n", tui.Mark(status), run.PrintableLine(title))
	if why != "" {
		fmt.Fprintf(b, "      %s\n", run.PrintableLine(why))
	}
}

// tasksOf are the tasks of a run; none where there is no plan yet.
func tasksOf(s loop.State) []run.Task {
	doc, err := progress.Parse([]byte(s.Progress))
	if err != nil {
		return nil
	}
	return doc.Tasks()
}

// showRunCmd is `bot show`.
type showRunCmd struct {
	RunID  string `arg:"" optional:"" name:"run" help:"The run's ID or how it begins, its plan or its branch. Default: the last run."`
	Config string `help:"A server's configuration: show a run of it." placeholder:"FILE" type:"path"`
	JSON   bool   `name:"json" help:"Print JSON; for a server's run."`
}

// Run shows one run.
func (c *showRunCmd) Run(ctx bound, io stdio) error {
	if c.Config != "" {
		return printServerRun(ctx, io, c.Config, c.RunID, c.JSON)
	}
	if c.JSON {
		return &run.UserError{Message: "--json shows a server's run", Hint: "pass its configuration with --config"}
	}
	h, p, err := findRun(ctx, c.RunID)
	if err != nil {
		return err
	}
	after := newEnding(ctx, h.git, p.Top, p.State)
	after.again, after.build = again(p.State), again(p.State)+" build"
	var b strings.Builder
	showRun(&b, p)
	b.WriteString("\n" + listed(after.next(p.State)))
	_, err = fmt.Fprint(io.out, b.String())
	return err
}

// showRun tells how a run stands: what is on its branch, each task, and what failed last.
func showRun(b *strings.Builder, p inline.Past) {
	s := p.State
	end := standing(s)
	if s.End != "" {
		end = s.Proof().Sentence(s.End)
		if s.EndDetail != "" && s.End != run.EndCancelled { // which says it already
			end += ": " + s.EndDetail
		}
	}
	writeFacts(b, [][2]string{
		{"run", string(s.Run)}, {"plan", planName(s)}, {"branch", s.Branch},
		{"began", minuteOf(p.Began)}, {"end", end},
		{"calls", strs.Count(s.Iterations(), "iteration") + cost(s.Usage.CostUSD)},
	})
	notes := map[string]string{}
	for _, it := range s.History {
		if !it.Landed && it.Note != "" {
			notes[it.TaskID] = it.Note
		}
	}
	for _, t := range tasksOf(s) {
		why := ""
		if t.Status != run.TaskDone {
			why = cmp.Or(t.Reason, notes[t.ID])
		}
		writeTask(b, t.Status, t.ID+" "+t.Title, why)
	}
	for _, c := range s.Commits {
		if c.OID != "" {
			fmt.Fprintf(b, "%.10s %s\n", c.OID, run.PrintableLine(c.Subject))
		}
	}
}
