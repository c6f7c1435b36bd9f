package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/org/ralph-action/internal/analytics"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// analyticsFile is the name of the record in a data directory.
const analyticsFile = "analytics.jsonl"

// openAnalytics opens the record of `bot run`.
func openAnalytics(data string, stderr io.Writer) (*analytics.Writer, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, &run.UserError{
			Message: "cannot create the data directory: " + err.Error(),
			Hint:    "set RALPH_DATA_DIR to a directory you may write to", Err: err,
		}
	}
	return analytics.Open(filepath.Join(data, analyticsFile), redact.New().Mask, func(err error) {
		fmt.Fprintf(stderr, "warning: %v\n", err)
	})
}

// statsCmd is `bot stats`.
type statsCmd struct {
	File  string `arg:"" optional:"" type:"path" help:"The record to read (default: the one of ${bot} run; a server's is analytics.jsonl in its data_dir)."`
	RunID string `name:"run" help:"Only this run: its ID, or how it begins." placeholder:"ID"`
	Repo  string `help:"Only this repository: owner/name, or the path of a checkout." placeholder:"REPO"`
	JSON  bool   `name:"json" help:"Print one JSON document."`
}

// Run prints the figures.
func (c *statsCmd) Run(io stdio) error {
	path := c.File
	if path == "" {
		data, err := dataDir()
		if err != nil {
			return err
		}
		path = filepath.Join(data, analyticsFile)
	}
	repo := c.Repo
	if abs, err := filepath.Abs(repo); err == nil && repo != "" {
		if fi, err := os.Stat(abs); err == nil && fi.IsDir() {
			repo = abs
		}
	}
	stats, err := analytics.Read(path, func(ev run.Event) bool {
		return (c.RunID == "" || strings.HasPrefix(string(ev.Run), c.RunID)) && (repo == "" || ev.Repo == repo)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return &run.UserError{
			Message: "no record at " + path, Hint: "run something first, or pass the analytics.jsonl in a server's data_dir",
		}
	}
	if err != nil {
		return err
	}
	if len(stats.Runs) == 0 && c.RunID+c.Repo != "" {
		return &run.UserError{Message: "the record has no such run",
			Hint: calledAs() + " stats without --run and --repo lists all"}
	}
	if c.JSON {
		return printJSON(io.out, stats)
	}
	_, err = fmt.Fprint(io.out, statsText(stats))
	return err
}

func statsText(s analytics.Stats) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tBEGAN\tTASKS\tITERATIONS\tAGENT CALLS\tFAILED ATTEMPTS\tUS$\tAGENT TIME\tEND\tWHAT")
	var all analytics.RunStats
	for _, r := range s.Runs {
		fmt.Fprintf(w, "%s\t%s\t%d of %d\t%d\t%d\t%d\t%.2f\t%s\t%s\t%s\n", r.Run, r.Started.Local().Format("2006-01-02 15:04"),
			r.TasksDone, r.TasksTotal, r.Iterations, r.AgentCalls, r.FailedAttempts, r.CostUSD, seconds(r.AgentSeconds),
			cmp.Or(string(r.End), "–"), run.PrintableLine(r.Subject))
		all.TasksDone += r.TasksDone
		all.Iterations += r.Iterations
		all.AgentCalls += r.AgentCalls
		all.FailedAttempts += r.FailedAttempts
		all.CostUSD += r.CostUSD
		all.AgentSeconds += r.AgentSeconds
	}
	_ = w.Flush() // to memory
	if len(s.Runs) != 1 {
		// Runs of one plan have the same tasks: how many there are in all is not known.
		fmt.Fprintf(&b, "\n%s: %s done, %s, %s, %d failed attempts, US$ %.2f, %s of agents\n",
			strs.Count(len(s.Runs), "run"), strs.Count(all.TasksDone, "task"), strs.Count(all.Iterations, "iteration"),
			strs.Count(all.AgentCalls, "agent call"), all.FailedAttempts, all.CostUSD, seconds(all.AgentSeconds))
	}
	if s.Unread > 0 {
		fmt.Fprintf(&b, "\nCould not read %s of the record.\n", strs.Count(s.Unread, "line"))
	}
	return b.String()
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}
