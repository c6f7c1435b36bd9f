package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	RunID string `name:"run" help:"Only this run." placeholder:"ID"`
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
	files, err := analytics.Files(path)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return &run.UserError{
			Message: "no record at " + path, Hint: "run something first, or pass the analytics.jsonl in a server's data_dir",
		}
	}
	repo := c.Repo
	if abs, err := filepath.Abs(repo); err == nil && repo != "" {
		if fi, err := os.Stat(abs); err == nil && fi.IsDir() {
			repo = abs
		}
	}
	sum, err := analytics.ReadFiles(files, func(r analytics.Record) bool {
		return (c.RunID == "" || string(r.Run) == c.RunID) && (repo == "" || r.Repo == repo)
	})
	if err != nil {
		return err
	}
	stats := sum.Stats()
	if len(stats.Runs) == 0 && c.RunID+c.Repo != "" {
		return &run.UserError{Message: "the record has no such run",
			Hint: calledAs() + " stats without --run and --repo lists all"}
	}
	if c.JSON {
		return printJSON(io.out, stats)
	}
	_, err = fmt.Fprint(forPeople(io.out), statsText(stats))
	return err
}

func statsText(s analytics.Stats) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tBEGAN\tTASKS\tITERATIONS\tAGENT CALLS\tFAILED ATTEMPTS\tUS$\tAGENT TIME\tEND\tWHAT")
	for _, r := range s.Runs {
		fmt.Fprintf(w, "%s\t%s\t%d of %d\t%d\t%d\t%d\t%.2f\t%s\t%s\t%s\n", r.Run, r.Started.Local().Format("2006-01-02 15:04"),
			r.TasksDone, r.TasksTotal,
			r.Iterations, r.AgentCalls, r.FailedAttempts, r.CostUSD, seconds(r.AgentSeconds), cmp.Or(string(r.End), "–"),
			run.PrintableLine(r.Subject))
	}
	_ = w.Flush() // to memory
	if t := s.Total; len(s.Runs) != 1 {
		// Runs of one plan have the same tasks: how many there are in all is not known.
		fmt.Fprintf(&b, "\n%s: %s done, %s, %s, %d failed attempts, US$ %.2f, %s of agents\n",
			strs.Count(len(s.Runs), "run"), strs.Count(t.TasksDone, "task"), strs.Count(t.Iterations, "iteration"),
			strs.Count(t.AgentCalls, "agent call"), t.FailedAttempts, t.CostUSD,
			seconds(t.AgentSeconds))
	}
	models(&b, s.Total.Models)
	counts(&b, "Hosts reached", s.Total.HostsReached)
	counts(&b, "Hosts blocked", s.Total.HostsBlocked)
	counts(&b, "Checks that failed", s.Total.GateFailures)
	counts(&b, "What followed failures", s.Total.Verdicts)
	if s.Unread > 0 {
		fmt.Fprintf(&b, "\nCould not read %s of the record.\n", strs.Count(s.Unread, "line"))
	}
	if s.Nameless > 0 {
		fmt.Fprintf(&b, "\n%s of the record without a run, as older versions wrote, left out.\n", strs.Count(s.Nameless, "line"))
	}
	return b.String()
}

// models prints what was used of each model, the dearest first.
func models(b *strings.Builder, used map[string]analytics.ModelStats) {
	if len(used) == 0 {
		return
	}
	fmt.Fprintln(b)
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tREQUESTS\tTOKENS READ\tWRITTEN\tUS$")
	names := slices.SortedFunc(maps.Keys(used), func(x, y string) int {
		return cmp.Or(cmp.Compare(used[y].Usage.CostUSD, used[x].Usage.CostUSD), cmp.Compare(x, y))
	})
	for _, name := range names {
		m := used[name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.2f\n", run.PrintableLine(name), m.Requests, m.Usage.InputTokens+
			m.Usage.CacheReadTokens+m.Usage.CacheWriteTokens, m.Usage.OutputTokens, m.Usage.CostUSD)
	}
	_ = w.Flush() // to memory
}

// counts prints how often each name came, the most often first.
func counts(b *strings.Builder, title string, n map[string]int) {
	if len(n) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	names := slices.SortedFunc(maps.Keys(n), func(x,
		y string) int {
		return cmp.Or(cmp.Compare(n[y], n[x]), cmp.Compare(x, y))
	})
	for _, name := range names {
		fmt.Fprintf(b, "  %4d  %s\n", n[name], run.PrintableLine(name))
	}
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}
