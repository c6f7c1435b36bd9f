package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/inline"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// remembered is what is known of the runs in the checkout around the working
// directory.
type remembered struct {
	git  *gitrepo.Git
	data string
	runs []inline.Past
	kept *transcript.Store
}

func openRuns(ctx bound) (h remembered, err error) {
	gitPath, err := lookGit()
	if err != nil {
		return h, err
	}
	if h.git, err = gitrepo.New(gitPath); err != nil {
		return h, err
	}
	if h.data, err = dataDir(); err != nil {
		return h, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return h, fmt.Errorf("find the working directory: %w", err)
	}
	h.kept = transcript.Open(transcriptsDir(h.data), nil)
	h.runs, err = inline.Runs(ctx, h.git, dir, h.data)
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

// find gives the run with that id, or with the only id that begins so; the last run
// for "".
func (h remembered) find(id string) (inline.Past, error) {
	var found []inline.Past
	for _, p := range h.runs {
		if strings.HasPrefix(string(p.State.Run), id) {
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
			Message: fmt.Sprintf("no run %q is remembered in this repository", id),
			Hint:    calledAs() + " runs lists them: the last one of each plan",
		}
	case id != "" && len(found) > 1:
		return inline.Past{}, &run.UserError{
			Message: fmt.Sprintf("%d runs begin with %q", len(found), id), Hint: calledAs() + " runs lists them",
		}
	}
	return found[len(found)-1], nil
}

// again is the command that goes on with a run.
func again(s loop.State) string { return calledAs() + " run " + quoted(planName(s)) }

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
	fmt.Fprintf(b, "%s %s\n", taskMark(status), run.PrintableLine(title))
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
	RunID  string `arg:"" optional:"" name:"run" help:"The run's ID, or how it begins. Default: the last run."`
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
	after := newEnding(ctx, h.git, p.Top, p.State, h.kept)
	after.again = again(p.State)
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
		if s.EndDetail != "" {
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

// taskMark shows a status as task lists do.
func taskMark(status run.TaskStatus) string {
	return cmp.Or(map[run.TaskStatus]string{run.TaskDone: "[x]", run.TaskBlocked: "[!]", run.TaskSkipped: "[-]"}[status], "[ ]")
}

// retryCmd is `bot retry`.
type retryCmd struct {
	Tasks []string `arg:"" optional:"" name:"task" help:"The tasks, such as T2. Default: all blocked ones."`
	RunID string   `name:"run" help:"The run's ID, or how it begins. Default: the last run." placeholder:"ID"`
}

// Run opens the tasks again, and says how to go on.
func (c *retryCmd) Run(ctx bound, io stdio) error {
	h, p, err := findRun(ctx, c.RunID)
	if err != nil {
		return err
	}
	if !p.State.Phase.Terminal() && p.State.Phase != run.PhasePaused {
		return &run.UserError{Message: "this run has not ended", Hint: "continue it: " + again(p.State)}
	}
	opened, err := inline.Retry(ctx, h.git, p, h.data, c.Tasks, time.Now())
	if err != nil {
		return err
	}
	if len(opened) == 0 {
		return &run.UserError{Message: "no task of this run is blocked", Hint: "go on: " + again(p.State)}
	}
	fmt.Fprintf(io.out, "%s open again on %s.\n", are(opened), p.State.Branch)
	fmt.Fprint(io.out, listed([]nextStep{{"Go on", again(p.State)}}))
	return nil
}

func are(ids []string) string {
	if len(ids) == 1 {
		return ids[0] + " is"
	}
	return strings.Join(ids, ", ") + " are"
}

// refusedArgs name refused work.
type refusedArgs struct {
	RunID string `arg:"" optional:"" name:"run" help:"The run's ID, or how it begins. Default: the last run."`
	Task  string `arg:"" optional:"" help:"Only the work at this task."`
}

// find gives the run and the patches that are kept of it.
func (c *refusedArgs) find(ctx bound) (h remembered, p inline.Past, all []transcript.Refused, err error) {
	h, p, err = findRun(ctx, c.RunID)
	if err != nil {
		return h, p, nil, err
	}
	all, err = h.kept.Refused(p.State.Run)
	if err != nil {
		return h, p, nil, err
	}
	if c.Task != "" {
		all = slices.DeleteFunc(all, func(r transcript.Refused) bool { return r.TaskID != c.Task })
	}
	if len(all) == 0 {
		return h, p, nil, &run.UserError{
			Message: fmt.Sprintf("no refused work is kept of %s", strings.TrimSpace(string(p.State.Run)+" "+c.Task)),
			Hint:    "what failed and was put right later is not kept; " + calledAs() + " show lists the tasks",
		}
	}
	return h, p, all, nil
}

// readPatch reads a patch that was kept.
func readPatch(r transcript.Refused) ([]byte, error) {
	f, err := os.Open(r.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &run.UserError{Message: "the refused work at " + r.TaskID + " was just removed", Hint: "try again"}
	}
	if err != nil {
		return nil, fmt.Errorf("read refused work: %w", err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, 2*transcript.MaxPatch))
	if err != nil {
		return nil, fmt.Errorf("read refused work: %w", err)
	}
	return b, nil
}

// diffCmd is `bot diff`.
type diffCmd struct{ refusedArgs }

// Run prints the patches. On a terminal what would steer it is shown as text.
func (c *diffCmd) Run(ctx bound, io stdio) (err error) {
	if isTerminal(io.out) {
		v := &visible{w: io.out}
		defer func() { err = errors.Join(err, v.Close()) }()
		io.out = v
	}
	_, _, all, err := c.find(ctx)
	if err != nil {
		return err
	}
	for _, r := range all {
		patch, err := readPatch(r)
		if err != nil {
			return err
		}
		if _, err := io.out.Write(patch); err != nil {
			return fmt.Errorf("print refused work: %w", err)
		}
	}
	return nil
}

// applyCmd is `bot apply`.
type applyCmd struct {
	refusedArgs
	Force bool `help:"Apply changes to protected paths, too (docs/security.md)."`
}

// Run puts the work of one task into the checkout and its index.
func (c *applyCmd) Run(ctx bound, io stdio) error {
	h, p, all, err := c.find(ctx)
	if err != nil {
		return err
	}
	if len(all) > 1 {
		ids := make([]string, len(all))
		for i, r := range all {
			ids[i] = r.TaskID
		}
		return &run.UserError{
			Message: "there is refused work of several tasks: " + strings.Join(ids, ", "),
			Hint:    fmt.Sprintf("name one: %s apply %s %s", calledAs(), p.State.Run, ids[0]),
		}
	}
	patch, err := readPatch(all[0])
	if err != nil {
		return err
	}
	paths, err := inline.Apply(ctx, h.git, p, patch, c.Force)
	if err != nil {
		return err
	}
	fmt.Fprintf(io.out, "Changed in your checkout, not committed: %s\n", run.PrintableLine(strings.Join(paths, ", ")))
	undo := fmt.Sprintf("%s diff %s %s | git apply --index -R", calledAs(), p.State.Run, all[0].TaskID)
	fmt.Fprint(io.out, listed([]nextStep{{"See it", "git diff --cached"}, {"Undo it", undo}}))
	return nil
}
