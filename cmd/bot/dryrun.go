package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/inline"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// looked is what `bot run --dry-run --json` prints.
type looked struct {
	DryRun bool   `json:"dry_run"`
	Plan   string `json:"plan"`
	// Resumes: a run that was cut off would go on.
	Resumes   bool   `json:"resumes"`
	Branch    string `json:"branch"`
	NewBranch bool   `json:"new_branch"`
	// BaseBranch is the branch that the work begins from, "" where that has no name or
	// is Branch itself, and Base the commit.
	BaseBranch string `json:"base_branch"`
	Base       string `json:"base"`
	Commits    bool   `json:"commits"`
	// Push: the branch would be pushed if something was committed.
	Push         bool   `json:"push"`
	ProgressPath string `json:"progress_path"`
	// Plans: an agent writes the tasks first.
	Plans  bool          `json:"plans"`
	Tasks  []lookedTask  `json:"tasks"`
	Done   int           `json:"done"`
	Total  int           `json:"total"`
	Setup  []string      `json:"setup,omitempty"`
	Checks []lookedCheck `json:"checks"`
	Agent  string        `json:"agent"`
	Model  string        `json:"model"`
	Box    string        `json:"sandbox"`
	Image  string        `json:"image,omitempty"`
	Limits lookedLimits  `json:"limits"`
	// Notes is what the run would say first.
	Notes []string `json:"notes,omitempty"`

	planOnly, checkedOut bool
}

// lookedLimits are the limits of the run, called as in the configuration.
type lookedLimits struct {
	MaxIterations    int      `json:"max_iterations"`
	TaskAttempts     int      `json:"task_attempts"`
	IterationTimeout string   `json:"iteration_timeout"`
	IdleTimeout      string   `json:"idle_timeout"`
	RunTimeout       string   `json:"run_timeout"`
	BudgetUSD        *float64 `json:"budget_usd"`
	TaskBudgetUSD    *float64 `json:"task_budget_usd"`
}

// lookedTask is a task that would be worked, in that order.
type lookedTask struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Priority int    `json:"priority"`
}

// lookedCheck is a check that would run.
type lookedCheck struct {
	Name     string    `json:"name"`
	Command  string    `json:"command"`
	When     gate.When `json:"when"`
	Blocking bool      `json:"blocking"`
	Detected bool      `json:"detected"`
}

// dryRun says what the run would be.
func (c *runCmd) dryRun(ctx context.Context, io stdio, opts inline.Options) error {
	p, err := inline.Look(ctx, opts)
	if err != nil {
		return err
	}
	out := newLooked(p, c.Sandbox)
	out.Image, out.Push = cmp.Or(out.Image, opts.Image, opts.Defaults.Image), c.Push
	if c.Sandbox == agent.SandboxLocal {
		out.Image = ""
	}
	if c.JSON {
		return printJSON(io.out, out)
	}
	return out.write(forPeople(io.out))
}

func newLooked(p inline.Preview, box string) looked {
	s := p.State
	out := looked{
		DryRun: true, Plan: s.Subject.Name, Resumes: p.Resumed, Branch: s.Branch, NewBranch: p.NewBranch,
		BaseBranch: p.BaseBranch, Base: s.Base, Notes: p.Notes, checkedOut: p.CheckedOut,
		Commits: !s.NoCommit, ProgressPath: s.ProgressPath, Plans: len(p.Tasks) == 0 && s.Mode != run.ModeBuild,
		Tasks: []lookedTask{}, Checks: []lookedCheck{}, Agent: s.Agent, Model: s.Model, Box: box, Image: s.Image,
		Limits: lookedLimits{
			MaxIterations: s.Limits.MaxIterations, TaskAttempts: s.Limits.TaskAttempts,
			IterationTimeout: span(s.Limits.IterationTimeout), IdleTimeout: span(s.Limits.IdleTimeout),
			RunTimeout: span(s.Limits.RunTimeout),
			BudgetUSD:  dollars(s.Limits.BudgetUSD), TaskBudgetUSD: dollars(s.Limits.TaskBudgetUSD),
		},
	}
	out.Done, out.Total = progress.Counts(p.Tasks)
	out.planOnly = s.Mode == run.ModePlan
	if !out.planOnly {
		for _, t := range p.Order {
			out.Tasks = append(out.Tasks, lookedTask{ID: t.ID, Title: t.Title, Priority: t.Priority})
		}
	}
	if s.Setup != nil {
		out.Setup = s.Setup.Commands
	}
	for _, g := range s.Checks() {
		out.Checks = append(out.Checks, lookedCheck{
			Name: g.Name, Command: g.Command, When: g.When, Blocking: !g.Advisory, Detected: g.Detected,
		})
	}
	return out
}

// dollars is a budget, nil for none.
func dollars(usd float64) *float64 {
	if usd <= 0 {
		return nil
	}
	return &usd
}

// span is a duration as people write it: 30m, not 30m0s.
func span(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = strings.TrimSuffix(s, zero[1:])
		}
	}
	return s
}

// write says it to a person. Titles may hold anything, so nothing of them
// reaches the terminal as more than a line of text.
func (l looked) write(w io.Writer) error {
	fmt.Fprintln(w, "Dry run: this is what would happen. Nothing was changed and no agent was called.")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(key, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", key, run.PrintableLine(fmt.Sprintf(format, args...)))
	}
	row("plan", "%s", l.Plan)
	row("branch", "%s", l.branch())
	if l.Push {
		row("push", "after the run, if something was committed")
	}
	for i, note := range l.Notes {
		row(head("notes", i), "%s", note)
	}
	row("progress", "%s", l.ProgressPath)
	row("agent", "%s", strings.TrimSpace(l.Agent+" "+l.Model))
	row("sandbox", "%s", strings.TrimSpace(l.Box+" "+l.Image))
	row("limits", "%s", l.Limits)
	for i, command := range l.Setup {
		row(head("set-up", i), "%s", command)
	}
	for i, c := range l.Checks {
		row(head("checks", i), "%s", c)
	}
	if len(l.Checks) == 0 {
		row("checks", "none")
	}
	for i, t := range l.Tasks {
		row(head("tasks", i), "%s", strs.OneLine(t.ID+" "+priority(t.Priority)+" "+t.Title))
	}
	switch {
	case len(l.Tasks) > 0:
	case l.Plans:
		row("tasks", "none yet: an agent writes them first")
	case l.planOnly:
		row("tasks", "none would be worked on: %d of %d are done", l.Done, l.Total)
	case l.Total == 0:
		row("tasks", "none, so there is nothing to build")
	default:
		row("tasks", "none is left to work: %d of %d are done", l.Done, l.Total)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write what would happen: %w", err)
	}
	return nil
}

// head names the first row of several.
func head(key string, i int) string {
	if i > 0 {
		return ""
	}
	return key
}

func (l looked) branch() string {
	s := l.Branch
	switch {
	case l.NewBranch:
		s += fmt.Sprintf(", made from %s at %.10s", cmp.Or(l.BaseBranch, "what is checked out"), l.Base)
	case l.Resumes:
		s += ", where an interrupted run continues"
	case l.checkedOut:
		s += ", which is checked out"
	default:
		s += ", which exists"
	}
	if !l.Commits {
		s += "; nothing is committed"
	}
	return s
}

func (l lookedLimits) String() string {
	s := fmt.Sprintf("%d agent calls, %d attempts at a task, %s a call, %s of silence, %s in all",
		l.MaxIterations, l.TaskAttempts, l.IterationTimeout, l.IdleTimeout, l.RunTimeout)
	if l.BudgetUSD != nil {
		s += fmt.Sprintf(", $%.2f", *l.BudgetUSD)
	}
	if l.TaskBudgetUSD != nil {
		s += fmt.Sprintf(", $%.2f a task", *l.TaskBudgetUSD)
	}
	return s
}

// String is the check for a person.
func (c lookedCheck) String() string {
	s := c.Command
	if c.When == gate.Final {
		s += " (at the end)"
	}
	if !c.Blocking {
		s += " (not blocking)"
	}
	return s
}
