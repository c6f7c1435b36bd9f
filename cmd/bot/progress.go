package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/progress/formats"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// progressCmd is `bot progress`.
type progressCmd struct {
	Show    showCmd    `cmd:"" help:"Show a file's tasks, their status and the learnings."`
	Check   checkCmd   `cmd:"" help:"Report what is wrong with a file and how to fix it."`
	Convert convertCmd `cmd:"" help:"Convert a file to another format, or copy its state into another file."`
}

// taskFile is a task file a person names.
type taskFile struct {
	File string `arg:"" name:"file" help:"progress.md, prd.json, NAME_PROGRESS.md, tasks.md, fix_plan.md, or any Markdown file with check boxes."`
	From string `enum:",progress,prd,portableralph,rslph,smart-ralph,fix-plan,ralphex,checklist" default:"" help:"The file's format, if its name and content do not show it: progress, prd, portableralph, rslph, smart-ralph, fix-plan, ralphex or checklist." placeholder:"FORMAT"`
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
	return showPlan(forPeople(io.out), f, p)
}

func newShown(f *formats.File, p formats.Plan) shown {
	n := p.Counts()
	out := shown{
		File: f.Name(), Format: f.Format(), Title: p.Title, Branch: p.Branch, Status: p.Status, MarkedDone: p.MarkedDone,
		Done:   p.Done(),
		Counts: map[string]int{"total": n.Total, "done": n.Done, "open": n.Open, "blocked": n.Blocked, "skipped": n.Skipped},
		Tasks:  []shownTask{}, Patterns: slices.Concat([]string{}, p.Patterns),
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
	head := []string{fmt.Sprintf("%d of %d done", n.Done, n.Total)}
	for _, part := range []struct {
		n    int
		what string
	}{{n.Blocked, "blocked"}, {n.Skipped, "skipped"}} {
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

// checkCmd is `bot progress check`.
type checkCmd struct {
	taskFile
	JSON bool `name:"json" help:"Print one JSON document."`
}

// Help is shown below the flags.
func (c *checkCmd) Help() string {
	return `Exit codes: 0 no errors; 1 errors; 2 the file does not exist.`
}

// checked is what `bot progress check --json` prints.
type checked struct {
	File     string             `json:"file"`
	Format   formats.Format     `json:"format"`
	Sound    bool               `json:"sound"`
	Problems []progress.Problem `json:"problems"`
}

// Run checks the file.
func (c *checkCmd) Run(io stdio) error {
	src, err := readTaskFile(c.File)
	if err != nil {
		return err
	}
	out := checked{
		File: c.File, Format: formatOf(c.File, formats.Format(c.From), src), Sound: true, Problems: []progress.Problem{},
	}
	out.Problems = append(out.Problems, formats.Check(out.Format, filepath.ToSlash(c.File), src)...)
	for _, p := range out.Problems {
		out.Sound = out.Sound && p.Severity != progress.SeverityError
	}
	if c.JSON {
		if err := printJSON(io.out, out); err != nil {
			return err
		}
	} else {
		for _, p := range out.Problems {
			fmt.Fprintf(io.out, "%s:%d:%d: %s: %s (%s)\n", c.File, p.Line, p.Column, p.Severity, plain(p.Message), plain(p.Hint))
		}
		if len(out.Problems) == 0 {
			fmt.Fprintf(io.out, "%s is sound (%s)\n", c.File, out.Format)
		}
	}
	if !out.Sound {
		return ended{run.ExitFailed}
	}
	return nil
}

// convertCmd is `bot progress convert`.
type convertCmd struct {
	taskFile
	To     string `enum:",progress,prd,portableralph,rslph,smart-ralph,fix-plan,ralphex,checklist" default:"" help:"The format of the new file: progress, prd, portableralph, rslph, smart-ralph, fix-plan, ralphex or checklist." placeholder:"FORMAT"`
	Into   string `xor:"target" required:"" help:"Copy what is done, blocked, skipped and learned into this file of the same plan; the rest of the file stays as it is." placeholder:"FILE"`
	Output string `short:"o" help:"The directory or file to write to (default: stdout)." placeholder:"PATH"`
	Force  bool   `help:"Overwrite existing files."`
	JSON   bool   `name:"json" help:"Print one JSON document: what was written, what is lost and, without --output, the files."`
}

// Help is shown below the flags.
func (c *convertCmd) Help() string {
	return fmt.Sprintf(`Prints to stderr what the new format cannot hold. An existing prd.json that is finished or belongs to another branch is moved to archive/ first, as ralph.sh does.

%[1]s run already writes finished tasks back to the plan's own file. To copy a run's state into another file of the same plan:

  %[1]s progress convert .ralph/prd/progress.md --into prd.json`, calledAs())
}

// converted is what `bot progress convert --json` prints.
type converted struct {
	From    formats.Format    `json:"from"`
	To      formats.Format    `json:"to"`
	Files   map[string]string `json:"files"`
	Written []string          `json:"written"`
	Archive string            `json:"archive"`
	Lost    []string          `json:"lost"`
	Changed []string          `json:"changed"`
	Unknown []string          `json:"unknown"`
}

// Run converts the file.
func (c *convertCmd) Run(io stdio) error {
	if (c.To == "") == (c.Into == "") {
		return &run.UserError{Message: "use either --to or --into", Hint: "set a format with --to or a file with --into"}
	}
	from, err := c.open()
	if err != nil {
		return err
	}
	out := converted{
		From: from.Format(), To: formats.Format(c.To), Files: map[string]string{},
		Written: []string{}, Lost: []string{}, Changed: []string{}, Unknown: []string{},
	}
	if c.Into != "" {
		if c.Output != "" {
			return &run.UserError{Message: "--into changes the file it names", Hint: "leave out --output"}
		}
		err = c.carry(from, &out)
	} else {
		err = c.write(from, &out)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(io.out, out)
	}
	return c.tell(io, out)
}

// tell says what was done.
func (c *convertCmd) tell(io stdio, out converted) error {
	if out.Archive != "" {
		fmt.Fprintf(io.err, "%s: moved the existing PRD to %s\n", calledAs(), out.Archive)
	}
	for _, l := range out.Lost {
		fmt.Fprintf(io.err, "%s: not in the %s file: %s\n", calledAs(), out.To, plain(l))
	}
	for _, id := range out.Unknown {
		fmt.Fprintf(io.err, "%s: %s has no task %s\n", calledAs(), c.Into, plain(id))
	}
	if c.Into != "" {
		fmt.Fprintf(io.err, "%s: %s changed in %s\n", calledAs(), strs.Count(len(out.Changed), "task"), c.Into)
	}
	for _, text := range out.Files {
		if _, err := fmt.Fprint(io.out, text); err != nil {
			return fmt.Errorf("write to stdout: %w", err)
		}
	}
	return nil
}

// carry brings the state into a file that is there.
func (c *convertCmd) carry(from *formats.File, out *converted) error {
	src, err := readTaskFile(c.Into)
	if err != nil {
		return err
	}
	into, err := openFormat(c.Into, "", src)
	if err != nil {
		return err
	}
	before := into.Files()
	carried, err := formats.Carry(from, into, time.Now())
	if err != nil {
		return err
	}
	out.To = into.Format()
	out.Changed, out.Unknown = append(out.Changed, carried.Changed...), append(out.Unknown, carried.Unknown...)
	after := into.Files()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if string(before[name]) == string(after[name]) {
			continue
		}
		file := filepath.Join(filepath.Dir(c.Into), name)
		if err := exchange(file, after[name]); err != nil {
			return err
		}
		out.Written = append(out.Written, file)
	}
	return nil
}

// write makes new files.
func (c *convertCmd) write(from *formats.File, out *converted) error {
	files, lost, err := formats.Convert(from, out.To, time.Now())
	if err != nil {
		return err
	}
	out.Lost = append(out.Lost, lost...)
	if c.Output == "" {
		if len(files) > 1 && !c.JSON {
			names := slices.Sorted(maps.Keys(files))
			return &run.UserError{
				Message: "this makes several files: " + strings.Join(names, ", "), Hint: "name a directory with --output",
			}
		}
		for name, b := range files {
			out.Files[name] = string(b)
		}
		return nil
	}
	dir, rename := c.Output, ""
	if info, err := os.Stat(c.Output); err != nil && !strings.HasSuffix(c.Output, string(filepath.Separator)) ||
		err == nil && !info.IsDir() {
		dir, rename = filepath.Dir(c.Output), filepath.Base(c.Output)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // G301: a directory of the user's project, as mkdir makes it
		return fmt.Errorf("make %s: %w", dir, err)
	}
	paths := make(map[string][]byte, len(files))
	for name, b := range files {
		if rename != "" && name != out.To.Companion() {
			name = rename
		}
		paths[filepath.Join(dir, name)] = b
	}
	if out.To == formats.PRD && (rename == "" || rename == formats.PRD.FileName("")) {
		fresh, err := formats.Parse(formats.PRD, formats.PRD.FileName(""), files[formats.PRD.FileName("")])
		if err != nil {
			return err
		}
		if out.Archive, err = archive(dir, fresh.Plan().Branch); err != nil {
			return err
		}
	}
	if err := c.refuse(paths, out.Archive != ""); err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(paths)) {
		if err := exchange(file, paths[file]); err != nil {
			return err
		}
		out.Written = append(out.Written, file)
	}
	return nil
}

// refuse says no to overwriting what is there, unless it was archived.
func (c *convertCmd) refuse(paths map[string][]byte, archived bool) error {
	if c.Force || archived {
		return nil
	}
	for _, file := range slices.Sorted(maps.Keys(paths)) {
		if _, err := os.Lstat(file); err == nil {
			return &run.UserError{
				Message: file + " already exists",
				Hint:    "write elsewhere, overwrite it with --force, or copy the state into it with --into",
			}
		}
	}
	return nil
}

// archive makes room for a prd.json of that branch.
func archive(dir, branch string) (moved string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", dir, err)
	}
	defer func() {
		if cerr := root.Close(); err == nil {
			err = cerr
		}
	}()
	return formats.Archive(root, branch, time.Now())
}

// exchange puts a file in the place of what is there, in one step, with the
// permissions of the old one. A link stays a link.
func exchange(file string, b []byte) error {
	mode := fs.FileMode(0o644)
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".bot-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", file, err), os.Remove(tmp.Name()))
	}
	return nil
}
