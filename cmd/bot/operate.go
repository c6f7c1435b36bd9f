package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// serverFlags name the server that an operator's command is for.
type serverFlags struct {
	Config string `default:"ralph.yaml" help:"The configuration of the server (default: ${default})." placeholder:"FILE" type:"path"`
	JSON   bool   `name:"json" help:"Print JSON."`
}

// askServer has the server of a configuration answer, by its admin socket.
func askServer(ctx context.Context, file, method, path string, query url.Values, out any) error {
	cfg, err := config.ReadServer(file, os.ReadFile)
	if err != nil {
		return err
	}
	socket := adminSocket(cfg.DataDir)
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	defer client.CloseIdleConnections()
	u := url.URL{Scheme: "http", Host: adminHost, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	resp, err := client.Do(req)
	if _, unreached := errors.AsType[*net.OpError](err); unreached && ctx.Err() == nil {
		hint := "start it with " + calledAs() + " serve"
		if errors.Is(err, os.ErrPermission) {
			hint = "run this as the server's user"
		}
		return &run.UserError{Message: "no server answers at " + socket, Hint: hint, Err: err}
	}
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var told adminError
		if json.Unmarshal(body, &told) != nil || told.Message == "" {
			return fmt.Errorf("the server answered %s: %.200s", resp.Status, bytes.TrimSpace(body))
		}
		if resp.StatusCode != http.StatusUnprocessableEntity {
			return fmt.Errorf("the server could not do that: %s", told.Message)
		}
		return &run.UserError{Message: told.Message, Hint: told.Hint}
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

// printServerRuns is `bot runs --config`.
func printServerRuns(ctx context.Context, io stdio, file string, asJSON bool) error {
	var runs []serverRun
	if err := askServer(ctx, file, http.MethodGet, "/runs", nil, &runs); err != nil {
		return err
	}
	if asJSON {
		return printJSON(io.out, runs)
	}
	rows := [][]string{{"RUN", "BEGAN", "ISSUE", "TASKS", "COST", "STATE"}}
	for _, r := range runs {
		rows = append(rows, []string{
			string(r.ID), minuteOf(r.Began), fmt.Sprintf("%s#%d", r.Repo, r.Issue), fmt.Sprintf("%d of %d", r.Done, r.Total),
			fmt.Sprintf("$%.2f", r.CostUSD), r.standing(),
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
	case r.Held:
		return r.Phase + ", paused"
	case r.Waits != "":
		return r.Phase + ", waiting: " + r.Waits
	default:
		return r.Phase
	}
}

// printServerRun is `bot show --config`.
func printServerRun(ctx context.Context, io stdio, file, id string, asJSON bool) error {
	if id == "" {
		return &run.UserError{Message: "which run?", Hint: "list them with " + calledAs() + " runs --config " + quoted(file)}
	}
	var r serverRun
	if err := askServer(ctx, file, http.MethodGet, "/runs/"+url.PathEscape(id), nil, &r); err != nil {
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
	_, err := fmt.Fprint(io.out, b.String())
	return err
}

// retryOnServer is `bot retry --config`.
func retryOnServer(ctx context.Context, io stdio, file, id string, tasks []string) error {
	if id == "" || len(tasks) > 1 {
		return &run.UserError{
			Message: "a server is asked for one run, and one task or all blocked ones",
			Hint:    fmt.Sprintf("%s retry --config %s --run ID [T2]", calledAs(), quoted(file)),
		}
	}
	var r serverRun
	query := url.Values{"task": tasks}
	if err := askServer(ctx, file, http.MethodPost, "/runs/"+url.PathEscape(id)+"/retry", query, &r); err != nil {
		return err
	}
	fmt.Fprintf(io.out, "Run %s tries again.\n", r.ID)
	return nil
}

// stopCmd is `bot stop`.
type stopCmd struct {
	serverFlags

	RunID string `arg:"" name:"run" help:"The run's ID, or how it begins."`
}

// Run asks a run to stop.
func (c *stopCmd) Run(ctx bound, io stdio) error {
	var r serverRun
	if err := askServer(ctx, c.Config, http.MethodPost, "/runs/"+url.PathEscape(c.RunID)+"/stop", nil, &r); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(io.out, r)
	}
	fmt.Fprintf(io.out, "Run %s stops. What it has finished stays on its branch.\n", r.ID)
	return nil
}

// pauseCmd is `bot pause`.
type pauseCmd struct{ serverFlags }

// Run has no new agent be started.
func (c *pauseCmd) Run(ctx bound, io stdio) error { return c.change(ctx, io, "/pause") }

// resumeCmd is `bot resume`.
type resumeCmd struct{ serverFlags }

// Run has agents be started again.
func (c *resumeCmd) Run(ctx bound, io stdio) error { return c.change(ctx, io, "/resume") }

func (c *serverFlags) change(ctx context.Context, io stdio, path string) error {
	var q queueState
	if err := askServer(ctx, c.Config, http.MethodPost, path, nil, &q); err != nil {
		return err
	}
	return q.print(io.out, c.JSON)
}

// queueCmd is `bot queue`.
type queueCmd struct{ serverFlags }

// Run prints what waits.
func (c *queueCmd) Run(ctx bound, io stdio) error {
	var q queueState
	if err := askServer(ctx, c.Config, http.MethodGet, "/queue", nil, &q); err != nil {
		return err
	}
	return q.print(io.out, c.JSON)
}

func (q queueState) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(w, q)
	}
	starts := "are started"
	switch {
	case q.Paused != nil:
		starts = "are not started: paused since " + minuteOf(*q.Paused)
	case q.Draining:
		starts = "are not started until the server is started again"
	}
	oldest := ""
	if q.Waiting > 0 {
		oldest = ", the oldest for " + (time.Duration(q.OldestSeconds) * time.Second).String()
	}
	places := ""
	if q.MaxPlaces > 0 {
		places = fmt.Sprintf(" of at most %d", q.MaxPlaces)
	}
	_, err := fmt.Fprintf(w, "New agents %s.\nAgents and checks: %d%s at work.\n"+
		"Runs: %d at work, %d in line, %d held, %d asleep.\nWebhooks: %d waiting%s.\n",
		starts, q.Places, places, q.Working, q.Line, q.Held, q.Asleep, q.Waiting, oldest)
	return err
}

// drainCmd is `bot drain`.
type drainCmd struct{ serverFlags }

// drainPoll is the pause between two looks whether anything is still at work.
const drainPoll = 500 * time.Millisecond

// Run starts no more agents and waits for those at work.
func (c *drainCmd) Run(ctx bound, io stdio) error {
	var q queueState
	if err := askServer(ctx, c.Config, http.MethodPost, "/drain", nil, &q); err != nil {
		return err
	}
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for told := 0; q.Working > 0; {
		if q.Working != told {
			fmt.Fprintf(forPeople(io.err), "%s at work; waiting.\n", strs.Count(q.Working, "run"))
			told = q.Working
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		q = queueState{}
		if err := askServer(ctx, c.Config, http.MethodGet, "/queue", nil, &q); err != nil {
			return err
		}
		if !q.Draining {
			return &run.UserError{
				Message: "the server starts agents again", Hint: "somebody resumed it, or started it again; drain once more",
			}
		}
	}
	if c.JSON {
		return printJSON(io.out, q)
	}
	fmt.Fprintln(io.out, "Nothing is at work. The server can be stopped; started again, it goes on with all runs.")
	return nil
}

// gcCmd is `bot gc`.
type gcCmd struct {
	serverFlags

	DryRun bool `name:"dry-run" help:"Say only what would be removed."`
}

// Run removes what nobody needs any more.
func (c *gcCmd) Run(ctx bound, io stdio) error {
	var lines []gcLine
	query := url.Values{"dry_run": {strconv.FormatBool(c.DryRun)}}
	if err := askServer(ctx, c.Config, http.MethodPost, "/gc", query, &lines); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(io.out, lines)
	}
	said := "Removed"
	if c.DryRun {
		said = "Would remove"
	}
	if len(lines) == 0 {
		fmt.Fprintln(io.out, said, "nothing.")
	}
	for _, l := range lines {
		size := ""
		if l.Bytes > 0 {
			size = fmt.Sprintf(", %d MiB", (l.Bytes+1<<20-1)>>20)
		}
		fmt.Fprintf(io.out, "%s %s: %d%s\n", said, l.Kind, l.Count, size)
	}
	return nil
}

// auditCmd is `bot audit`.
type auditCmd struct {
	serverFlags

	Repo    string `help:"Only this repository." placeholder:"OWNER/NAME"`
	Issue   int    `help:"Only this issue or pull request." placeholder:"N"`
	Person  string `help:"Only what this person asked for; the operator is 'operator'." placeholder:"LOGIN"`
	Refused bool   `help:"Only what was refused."`
	Limit   int    `default:"100" help:"How many of the newest (default: ${default})." placeholder:"N"`
}

// Run lists decisions about trust.
func (c *auditCmd) Run(ctx bound, io stdio) error {
	query := url.Values{"refused": {strconv.FormatBool(c.Refused)}, "limit": {strconv.Itoa(c.Limit)}}
	for name, value := range map[string]string{"repo": c.Repo, "person": c.Person, "issue": strconv.Itoa(c.Issue)} {
		if value != "" && value != "0" {
			query.Set(name, value)
		}
	}
	var list []auditLine
	if err := askServer(ctx, c.Config, http.MethodGet, "/audit", query, &list); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(io.out, list)
	}
	rows := [][]string{{"WHEN", "PERSON", "ASKED FOR", "WHERE", "ANSWER", "WHY"}}
	for _, d := range list {
		answer, where := "refused", "the server"
		if d.Allowed {
			answer = "allowed"
		}
		if d.Repo != "" {
			where = fmt.Sprintf("%s#%d", d.Repo, d.Issue)
		}
		rows = append(rows, []string{
			d.At.Local().Format(time.DateTime), d.Person, d.Action, where, answer, cmp.Or(d.Reason, "-"),
		})
	}
	return printTable(io.out, "Nothing was decided.", rows)
}
