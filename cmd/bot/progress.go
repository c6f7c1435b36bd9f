package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/progress/formats"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
	"github.com/org/ralph-action/internal/tui"
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

// Run shows the file.
func (c *showCmd) Run(io stdio) error {
	f, err := c.open()
	if err != nil {
		return err
	}
	p := f.Plan()
	if c.JSON {
		return printJSON(io.out, document(f, p))
	}
	return showPlan(io.out, f, p)
}

// document is a plan for programs: lists are lists, also where they are empty.
func document(f *formats.File, p formats.Plan) map[string]any {
	list := func(lines []string) []string { return append([]string{}, lines...) }
	n, sum := p.Counts(), ""
	if doc, err := progress.Parse(f.Bytes()); err == nil && f.Format() != formats.PRD {
		sum = doc.PlanSHA256()
	}
	tasks := []map[string]any{}
	for _, t := range p.Tasks {
		tasks = append(tasks, map[string]any{
			"id": t.ID, "origin": t.Origin, "status": t.Status, "reason": t.Reason, "title": t.Title, "priority": t.Priority,
			"group": t.Group, "parallel": t.Parallel, "verify": t.Verify, "depends_on": list(t.DependsOn), "steps": list(t.Steps),
			"files": list(t.Files), "accept": list(t.Accept), "checks": list(t.Checks), "commit_subject": t.Subject,
		})
	}
	return map[string]any{
		"file": f.Name(), "format": f.Format(), "title": p.Title, "branch": p.Branch, "plan_sha256": sum, "status": p.Status,
		"marked_done": p.MarkedDone, "done": p.Done(), "tasks": tasks,
		"counts": map[string]int{
			"total": len(p.Tasks), "done": n[run.TaskDone], "open": n[run.TaskOpen],
			"blocked": n[run.TaskBlocked], "skipped": n[run.TaskSkipped],
		},
		"patterns": list(p.Patterns), "learnings": list(p.Learnings),
	}
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
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", tui.Mark(t.Status), plain(t.ID), priority(t.Priority), taskText(t))
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
