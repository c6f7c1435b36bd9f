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
	"github.com/org/ralph-action/internal/inline"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// preview is what `bot run --dry-run` says, and prints with --json.
type preview struct {
	DryRun bool   `json:"dry_run"`
	Plan   string `json:"plan"`
	// Resumes: an interrupted run would continue.
	Resumes   bool   `json:"resumes"`
	Branch    string `json:"branch"`
	NewBranch bool   `json:"new_branch"`
	// BaseBranch is the branch that the work begins from, "" where that has no name or
	// is Branch itself, and Base the commit.
	BaseBranch   string         `json:"base_branch"`
	Base         string         `json:"base"`
	Commits      bool           `json:"commits"`
	ProgressPath string         `json:"progress_path"`
	Tasks        []previewTask  `json:"tasks"`
	Setup        []string       `json:"setup,omitempty"`
	Checks       []previewCheck `json:"checks"`
	Agent        string         `json:"agent"`
	Model        string         `json:"model"`
	Sandbox      string         `json:"sandbox"`
	Limits       string         `json:"limits"`
	// Notes is what the run would say first.
	Notes []string `json:"notes,omitempty"`
}

// previewTask is a task that would be worked, in that order.
type previewTask struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

// previewCheck is a check that would run.
type previewCheck struct {
	Name    string `json:"name"`
	Command string `json:"command"`
}

// dryRun says what the run would be.
func (c *runCmd) dryRun(ctx context.Context, io stdio, opts inline.Options) error {
	p, err := inline.Look(ctx, opts)
	if err != nil {
		return err
	}
	s := p.State
	box := c.Sandbox
	if box == agent.SandboxDocker {
		box += " " + cmp.Or(s.Image, opts.Image, opts.Defaults.Image)
	}
	out := preview{
		DryRun: true, Plan: s.Subject.Name, Resumes: p.Resumed, Branch: s.Branch, NewBranch: p.NewBranch,
		BaseBranch: p.BaseBranch, Base: s.Base, Commits: !s.NoCommit, ProgressPath: s.ProgressPath,
		Tasks: []previewTask{}, Checks: []previewCheck{}, Agent: s.Agent, Model: s.Model, Sandbox: box, Notes: p.Notes,
		Limits: limitsInWords(s.Limits),
	}
	if s.Setup != nil {
		out.Setup = s.Setup.Commands
	}
	for _, g := range s.Checks() {
		out.Checks = append(out.Checks, previewCheck{Name: g.Name, Command: g.Command})
	}
	if s.Mode != run.ModePlan {
		for _, t := range p.Order {
			out.Tasks = append(out.Tasks, previewTask{ID: t.ID, Title: t.Title})
		}
	}
	if c.JSON {
		return printJSON(io.out, out)
	}
	return out.write(io.out, p)
}

func limitsInWords(l run.Limits) string {
	s := fmt.Sprintf("%d agent calls, %d attempts at a task, %s a call, %s of silence, %s in all",
		l.MaxIterations, l.TaskAttempts, span(l.IterationTimeout), span(l.IdleTimeout), span(l.RunTimeout))
	if l.BudgetUSD > 0 {
		s += fmt.Sprintf(", $%.2f", l.BudgetUSD)
	} else {
		s += ", no budget"
	}
	if l.TaskBudgetUSD > 0 {
		s += fmt.Sprintf(", $%.2f a task", l.TaskBudgetUSD)
	}
	return s
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

// write says it to a person. Titles may hold anything, so nothing of them reaches the
// terminal as more than a line of text.
func (out preview) write(w io.Writer, p inline.Preview) error {
	fmt.Fprintln(w, "Dry run: this is what would happen. Nothing was changed and no agent was called.")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows := func(key string, lines ...string) {
		for _, line := range lines {
			fmt.Fprintf(table, "%s\t%s\n", key, run.PrintableLine(strs.OneLine(line)))
			key = ""
		}
	}
	rows("plan", out.Plan)
	rows("branch", out.where(p))
	rows("notes", out.Notes...)
	rows("progress", out.ProgressPath)
	rows("agent", strings.TrimSpace(out.Agent+" "+out.Model))
	rows("sandbox", out.Sandbox)
	rows("limits", out.Limits)
	rows("set-up", out.Setup...)
	checks := []string{}
	for _, c := range out.Checks {
		checks = append(checks, c.Command)
	}
	if len(checks) == 0 {
		checks = append(checks, "none")
	}
	rows("checks", checks...)
	for i, t := range out.Tasks {
		rows(strings.Repeat("tasks", max(1-i, 0)), t.ID+" "+t.Title)
	}
	done, total := progress.Counts(p.Tasks)
	switch {
	case len(out.Tasks) > 0:
	case total > 0:
		rows("tasks", fmt.Sprintf("none would be worked on: %d of %d are done", done, total))
	case p.State.Mode == run.ModeBuild:
		rows("tasks", "none, so there is nothing to build")
	default:
		rows("tasks", "none yet: an agent writes them first")
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write what would happen: %w", err)
	}
	return nil
}

// where says which branch would be worked on.
func (out preview) where(p inline.Preview) string {
	s := out.Branch
	switch {
	case out.NewBranch:
		s += fmt.Sprintf(", made from %s at %.10s", out.BaseBranch, out.Base)
	case out.Resumes:
		s += ", where an interrupted run continues"
	case p.CheckedOut:
		s += ", which is checked out"
	default:
		s += ", which exists"
	}
	if !out.Commits {
		s += "; nothing is committed"
	}
	return s
}
