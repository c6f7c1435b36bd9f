package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
	"github.com/org/ralph-action/internal/strs"
)

// serverRun is a run of a server, as `bot runs --config` and `bot show --config` print it.
type serverRun struct {
	ID    run.ID `json:"id"`
	Repo  string `json:"repo"`
	Issue int    `json:"issue"`
	Pull  int    `json:"pull,omitempty"`
	Title string `json:"title"`
	Phase string `json:"phase"`
	// Waits is what it waits for before it can start something.
	Waits      string    `json:"waits,omitempty"`
	End        string    `json:"end,omitempty"`
	Detail     string    `json:"detail,omitempty"`
	Stopping   string    `json:"stopping,omitempty"`
	Done       int       `json:"tasks_done"`
	Total      int       `json:"tasks_total"`
	Iterations int       `json:"iterations"`
	CostUSD    float64   `json:"cost_usd"`
	Began      time.Time `json:"began"`
	Updated    time.Time `json:"updated"`
	// Tasks and Commits are filled in for a single run.
	Tasks   []serverTask `json:"tasks,omitempty"`
	Branch  string       `json:"branch,omitempty"`
	Commits []string     `json:"commits,omitempty"`
}

type serverTask struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// readServer reads the database of a server, which may be at work meanwhile.
func readServer(ctx context.Context, file string, read func(*store.Store) error) (err error) {
	cfg, err := config.ReadServer(file, os.ReadFile)
	if err != nil {
		return err
	}
	st, err := store.OpenToRead(ctx, cfg.Database())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &run.UserError{
			Message: "no database at " + cfg.Database(), Hint: "run this where the server runs, as its user", Err: err,
		}
	case errors.Is(err, fs.ErrPermission):
		return &run.UserError{Message: "cannot read " + cfg.Database(), Hint: "run this as the server's user", Err: err}
	case err != nil:
		return unusableStore(err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return read(st)
}

// newServerRun describes a run. The state is empty where it cannot be decoded.
func newServerRun(row store.Run) (serverRun, loop.State) {
	out := serverRun{
		ID: row.ID, Repo: row.RepoOwner + "/" + row.RepoName, Issue: row.IssueNumber, Pull: row.PullNumber,
		Phase: string(row.Phase), End: string(row.EndReason), Began: row.CreatedAt, Updated: row.UpdatedAt,
	}
	if !row.CancelRequestedAt.IsZero() && !row.Phase.Terminal() {
		out.Stopping = row.CancelBy
	}
	s, err := loop.Decode(row.State)
	if err != nil {
		out.Detail = "what is stored of the run cannot be read: " + err.Error()
		return out, s
	}
	if s.Delayed != nil && !row.Phase.Terminal() {
		out.Waits = s.Delayed.Why
	}
	out.Title, out.Detail = s.Subject.Name, s.EndDetail
	out.Iterations, out.CostUSD = s.Iterations(), run.Dollars(s.Usage.CostUSD)
	out.Done, out.Total = progress.Counts(tasksOf(s))
	return out, s
}

// maxListed bounds how many ended runs are listed.
const maxListed = 50

// serverRuns are the runs of a server that have not ended, and the newest ones.
func serverRuns(ctx context.Context, st *store.Store) ([]serverRun, error) {
	rows, err := st.RecentRuns(ctx, maxListed)
	if err != nil {
		return nil, err
	}
	active, err := st.ActiveRuns(ctx)
	if err != nil {
		return nil, err
	}
	recent := map[run.ID]bool{}
	for _, row := range rows {
		recent[row.ID] = true
	}
	active = slices.DeleteFunc(active, func(row store.Run) bool { return recent[row.ID] })
	out := []serverRun{}
	for _, row := range append(active, rows...) { // an old one that still runs comes first
		one, _ := newServerRun(row)
		out = append(out, one)
	}
	return out, nil
}

// findServerRun gives the run with that id, or with the only id that begins so, with its
// tasks and commits.
func findServerRun(ctx context.Context, st *store.Store, id string) (serverRun, error) {
	rows, err := st.RunsLike(ctx, id)
	switch {
	case err != nil:
		return serverRun{}, err
	case len(rows) == 0:
		return serverRun{}, &run.UserError{
			Message: fmt.Sprintf("the server knows no run %q", id), Hint: "list the runs with " + calledAs() + " runs",
		}
	case len(rows) > 1:
		return serverRun{}, &run.UserError{
			Message: fmt.Sprintf("several runs begin with %q", id), Hint: "write more of the ID",
		}
	}
	out, s := newServerRun(rows[0])
	out.Branch = s.Branch
	for _, t := range tasksOf(s) {
		out.Tasks = append(out.Tasks, serverTask{ID: t.ID, Title: t.Title, Status: string(t.Status), Reason: t.Reason})
	}
	for _, c := range s.Commits {
		if c.OID != "" {
			out.Commits = append(out.Commits, fmt.Sprintf("%.10s %s", c.OID, c.Subject))
		}
	}
	return out, nil
}

// printServerRuns is `bot runs --config`.
func printServerRuns(ctx context.Context, io stdio, file string, asJSON bool) error {
	var runs []serverRun
	err := readServer(ctx, file, func(st *store.Store) (err error) {
		runs, err = serverRuns(ctx, st)
		return err
	})
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(io.out, runs)
	}
	rows := [][]string{{"RUN", "BEGAN", "ISSUE", "TASKS", "COST", "STATE"}}
	for _, r := range runs {
		rows = append(rows, []string{
			string(r.ID), minuteOf(r.Began), fmt.Sprintf("%s#%d", r.Repo, r.Issue),
			fmt.Sprintf("%d of %d", r.Done, r.Total), fmt.Sprintf("$%.2f", r.CostUSD), r.standing(),
		})
	}
	return printTable(io.out, "No runs yet.", rows)
}

// standing says how a run is going, or how it ended.
func (r serverRun) standing() string {
	switch {
	case r.End != "":
		return r.End
	case r.Stopping != "":
		return "stopping"
	case r.Waits != "":
		return r.Phase + ", waiting: " + r.Waits
	default:
		return r.Phase
	}
}

// printServerRun is `bot show --config`.
func printServerRun(ctx context.Context, io stdio, file, id string, asJSON bool) error {
	if id == "" {
		return &run.UserError{
			Message: "which run?", Hint: "list them with " + calledAs() + " runs --config " + quoted(file),
		}
	}
	var r serverRun
	err := readServer(ctx, file, func(st *store.Store) (err error) {
		r, err = findServerRun(ctx, st, id)
		return err
	})
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(io.out, r)
	}
	var b strings.Builder
	writeFacts(&b, [][2]string{
		{"run", string(r.ID)}, {"issue", fmt.Sprintf("%s#%d %s", r.Repo, r.Issue, r.Title)}, {"branch", r.Branch},
		{"began", minuteOf(r.Began)}, {"state", strings.Trim(r.standing()+": "+r.Detail, ": ")},
		{"calls", strs.Count(r.Iterations, "iteration") + cost(r.CostUSD)},
	})
	for _, t := range r.Tasks {
		writeTask(&b, run.TaskStatus(t.Status), t.ID+" "+t.Title, t.Reason)
	}
	for _, c := range r.Commits {
		b.WriteString(run.PrintableLine(c) + "\n")
	}
	_, err = fmt.Fprint(io.out, b.String())
	return err
}
