package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/progress/formats"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// progressCmd is `bot progress`.
type progressCmd struct {
	Show showCmd `cmd:"" help:"Show a file's tasks, their status and the learnings."`
}

// taskFile is a task file a person names.
type taskFile struct {
	File string `arg:"" name:"file" help:"progress.md, prd.json, NAME_PROGRESS.md, tasks.md, or any Markdown file with check boxes."`
	From string `enum:",progress,prd,portableralph,smart-ralph,checklist" default:"" help:"The file's format, if its name and content do not show it: progress, prd, portableralph, smart-ralph or checklist." placeholder:"FORMAT"`
}

// open reads the file, and its companion where there is one beside it.
func (t taskFile) open() (*formats.File, error) {
	src, err := readTaskFile(t.File)
	if err != nil {
		return nil, err
	}
	return openFormat(t.File, formats.Format(t.From), src)
}

// formatOf is the format that was asked for, else the one that is found. What
// is none is looked at as a check list.
func formatOf(name string, asked formats.Format, src []byte) formats.Format {
	if asked != "" {
		return asked
	}
	if found, ok := formats.Detect(filepath.ToSlash(name), src); ok {
		return found
	}
	return formats.Checklist
}

func openFormat(name string, format formats.Format, src []byte) (*formats.File, error) {
	format = formatOf(name, format, src)
	f, err := formats.Parse(format, filepath.ToSlash(name), src)
	if err != nil {
		return nil, err
	}
	if format.Companion() == "" {
		return f, nil
	}
	notes, err := readTaskFile(filepath.Join(filepath.Dir(name), format.Companion()))
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	return f, f.Attach(notes)
}

// readTaskFile reads a file that is not larger than a task file may be.
func readTaskFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &run.UserError{Message: "there is no file " + name, Hint: "name a file with tasks", Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	switch {
	case info.IsDir():
		return nil, &run.UserError{Message: name + " is a folder", Hint: "name a file with tasks in it"}
	case !info.Mode().IsRegular():
		return nil, &run.UserError{Message: name + " is not a regular file", Hint: "name a file with tasks"}
	case info.Size() > progress.MaxSize:
		return nil, &run.UserError{Message: name + " is larger than 1 MiB", Hint: "split it into several files"}
	}
	src, err := os.ReadFile(name) //nolint:gosec // G304: the file a person named on the command line
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return src, nil
}

// showCmd is `bot progress show`.
type showCmd struct {
	taskFile
	JSON bool `name:"json" help:"Print one JSON document."`
}

// shownTask and shown are what `bot progress show --json` prints.
type shownTask struct {
	ID       string         `json:"id"`
	Origin   string         `json:"origin"`
	Status   run.TaskStatus `json:"status"`
	Reason   string         `json:"reason"`
	Title    string         `json:"title"`
	Priority int            `json:"priority"`
	Group    string         `json:"group"`
	Parallel bool           `json:"parallel"`
	Verify   bool           `json:"verify"`
	Depends  []string       `json:"depends_on"`
	Steps    []string       `json:"steps"`
	Files    []string       `json:"files"`
	Accept   []string       `json:"accept"`
	Checks   []string       `json:"checks"`
	Subject  string         `json:"commit_subject"`
}

type shown struct {
	File       string         `json:"file"`
	Format     formats.Format `json:"format"`
	Title      string         `json:"title"`
	Branch     string         `json:"branch"`
	PlanSHA256 string         `json:"plan_sha256"` // "" where the file is no Markdown
	Status     string         `json:"status"`
	MarkedDone bool           `json:"marked_done"`
	Done       bool           `json:"done"`
	Counts     map[string]int `json:"counts"`
	Tasks      []shownTask    `json:"tasks"`
	Patterns   []string       `json:"patterns"`
	Learnings  []string       `json:"learnings"`
}

// Run shows the file.
func (c *showCmd) Run(io stdio) error {
	f, err := c.open()
	if err != nil {
		return err
	}
	p := f.Plan()
	if c.JSON {
		return printJSON(io.out, newShown(f, p))
	}
	return showPlan(io.out, f, p)
}

func newShown(f *formats.File, p formats.Plan) shown {
	n := p.Counts()
	out := shown{
		File: f.Name(), Format: f.Format(), Title: p.Title, Branch: p.Branch, Status: p.Status, MarkedDone: p.MarkedDone,
		Done: p.Done(),
		Counts: map[string]int{
			"total": len(p.Tasks), "done": n[run.TaskDone], "open": n[run.TaskOpen],
			"blocked": n[run.TaskBlocked], "skipped": n[run.TaskSkipped],
		},
		Tasks: []shownTask{}, Patterns: slices.Concat([]string{}, p.Patterns),
		Learnings: slices.Concat([]string{}, p.Learnings),
	}
	if doc, err := progress.Parse(f.Bytes()); err == nil && f.Format() != formats.PRD {
		out.PlanSHA256 = doc.PlanSHA256()
	}
	for _, t := range p.Tasks {
		out.Tasks = append(out.Tasks, shownTask{
			ID: t.ID, Origin: t.Origin, Status: t.Status, Reason: t.Reason, Title: t.Title, Priority: t.Priority, Group: t.Group,
			Parallel: t.Parallel, Verify: t.Verify, Depends: slices.Concat([]string{}, t.DependsOn),
			Accept: slices.Concat([]string{}, t.Accept),
			Steps:  slices.Concat([]string{}, t.Steps), Files: slices.Concat([]string{}, t.Files),
			Checks: slices.Concat([]string{}, t.Checks), Subject: t.Subject,
		})
	}
	return out
}

// showPlan writes a plan for a person. Text of the file may hold anything, so
// nothing of it reaches the terminal as more than a line of text.
func showPlan(w io.Writer, f *formats.File, p formats.Plan) error {
	n := p.Counts()
	head := []string{fmt.Sprintf("%d of %d done", n[run.TaskDone], len(p.Tasks))}
	for _, part := range []struct {
		n    int
		what string
	}{{n[run.TaskBlocked], "blocked"}, {n[run.TaskSkipped], "skipped"}} {
		if part.n > 0 {
			head = append(head, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if p.Status != "" {
		head = append(head, "status "+plain(p.Status))
	}
	if p.MarkedDone && !p.Done() {
		head = append(head, "marked done too early")
	}
	title := plain(p.Title)
	if title == "" {
		title = plain(f.Name())
	}
	fmt.Fprintf(w, "%s (%s)\n", title, f.Format())
	if p.Branch != "" {
		fmt.Fprintf(w, "branch %s\n", plain(p.Branch))
	}
	fmt.Fprintf(w, "%s\n\n", strings.Join(head, ", "))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	group := ""
	for _, t := range p.Tasks {
		if t.Group != group {
			group = t.Group
			fmt.Fprintf(table, "%s\n", plain(group))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", sign(t.Status), plain(t.ID), priority(t.Priority), taskText(t))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	for _, list := range []struct {
		name  string
		lines []string
	}{{"Codebase patterns", p.Patterns}, {"Learnings", p.Learnings}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(w, "\n%s\n", list.name)
		}
		for _, l := range list.lines {
			fmt.Fprintf(w, "  - %s\n", plain(l))
		}
	}
	return nil
}

// plain is text without what would do something to a terminal.
func plain(s string) string {
	s, _ = progress.Clean(s)
	return strs.OneLine(s)
}

func taskText(t formats.Task) string {
	s := plain(t.Title)
	if t.Origin != "" {
		s = "[" + plain(t.Origin) + "] " + s
	}
	if t.Reason != "" {
		s += " (" + string(t.Status) + ": " + plain(t.Reason) + ")"
	}
	return s
}

func priority(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("P%d", n)
}

func sign(s run.TaskStatus) string {
	switch s {
	case run.TaskDone:
		return "✓"
	case run.TaskBlocked:
		return "✗"
	case run.TaskSkipped:
		return "–"
	case run.TaskInProgress, run.TaskInReview:
		return "…"
	case run.TaskOpen:
	}
	return "·"
}
