package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/inline"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// dryRun says what the run would be. Titles may hold anything, so nothing of them reaches the
// terminal as more than a line of text.
func (c *runCmd) dryRun(ctx context.Context, io stdio, opts inline.Options) error {
	p, err := inline.Look(ctx, opts)
	if err != nil {
		return err
	}
	s := p.State
	box := c.Sandbox
	if box == agent.SandboxDocker {
		box += " " + cmp.Or(s.Image, opts.Defaults.Image)
	}
	type entry = map[string]string
	tasks, checks, setup := []entry{}, []entry{}, []string{}
	if s.Setup != nil {
		setup = s.Setup.Commands
	}
	var commands, titles []string
	for _, g := range s.Checks() {
		checks, commands = append(checks, entry{"name": g.Name, "command": g.Command}), append(commands, g.Command)
	}
	for _, t := range p.Order {
		if s.Mode != run.ModePlan {
			tasks, titles = append(tasks, entry{"id": t.ID, "title": t.Title}), append(titles, t.ID+" "+t.Title)
		}
	}
	if c.JSON {
		return printJSON(io.out, map[string]any{
			"dry_run": true, "plan": s.Subject.Name, "resumes": p.Resumed, "branch": s.Branch, "new_branch": p.NewBranch,
			"base_branch": p.BaseBranch, "base": s.Base, "commits": !s.NoCommit, "progress_path": s.ProgressPath, "tasks": tasks,
			"setup": setup, "checks": checks, "agent": s.Agent, "model": s.Model, "sandbox": box, "limits": limitsInWords(s.Limits),
			"notes": p.Notes,
		})
	}
	fmt.Fprintln(io.out, "Dry run: this is what would happen. Nothing was changed and no agent was called.")
	table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	rows := func(key string, lines ...string) {
		for _, line := range lines {
			fmt.Fprintf(table, "%s\t%s\n", key, run.PrintableLine(strs.OneLine(line)))
			key = ""
		}
	}
	if len(commands) == 0 {
		commands = []string{"none"}
	}
	done, total := progress.Counts(p.Tasks)
	switch {
	case len(titles) > 0:
	case total > 0:
		titles = []string{fmt.Sprintf("none would be worked on: %d of %d are done", done, total)}
	case s.Mode == run.ModeBuild:
		titles = []string{"none, so there is nothing to build"}
	default:
		titles = []string{"none yet: an agent writes them first"}
	}
	rows("plan", s.Subject.Name)
	rows("branch", branchInWords(p))
	rows("notes", p.Notes...)
	rows("progress", s.ProgressPath)
	rows("agent", strings.TrimSpace(s.Agent+" "+s.Model))
	rows("sandbox", box)
	rows("limits", limitsInWords(s.Limits))
	rows("set-up", setup...)
	rows("checks", commands...)
	rows("tasks", titles...)
	return table.Flush()
}

func limitsInWords(l run.Limits) string {
	s := fmt.Sprintf("%d agent calls, %d attempts at a task that fail alike (%d calls at most), %s a call, %s of silence, "+
		"%s in all", l.MaxIterations, l.TaskAttempts, 2*l.TaskAttempts+2, span(l.IterationTimeout), span(l.IdleTimeout), span(l.RunTimeout))
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

// branchInWords says which branch would be worked on.
func branchInWords(p inline.Preview) string {
	s := p.State.Branch
	switch {
	case p.NewBranch:
		s += fmt.Sprintf(", made from %s at %.10s", p.BaseBranch, p.State.Base)
	case p.Resumed:
		s += ", where an interrupted run continues"
	case p.CheckedOut:
		s += ", which is checked out"
	default:
		s += ", which exists"
	}
	if p.State.NoCommit {
		s += "; nothing is committed"
	}
	return s
}
