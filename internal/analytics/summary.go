package analytics

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// Stats are the figures of the runs of a record, in the order in which they began.
type Stats struct {
	Runs []RunStats `json:"runs"`
	// Unread counts the lines that could not be read.
	Unread int `json:"unread_lines"`
}

// RunStats are the figures of one run.
type RunStats struct {
	Run     run.ID    `json:"run"`
	Repo    string    `json:"repo,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Started time.Time `json:"started"`
	// Ended is when the last thing was told of the run.
	Ended time.Time `json:"ended"`
	// End is "" where the run goes on, or was cut off.
	End            run.EndReason `json:"end,omitempty"`
	Iterations     int           `json:"iterations"`
	AgentCalls     int           `json:"agent_calls"`
	AgentSeconds   float64       `json:"agent_seconds"`
	FailedAttempts int           `json:"failed_attempts"`
	FailedChecks   int           `json:"failed_checks"`
	TasksDone      int           `json:"tasks_done"`
	TasksTotal     int           `json:"tasks_total"`
	CostUSD        float64       `json:"cost_usd"`
	Usage          run.Usage     `json:"usage"`

	done  map[string]bool
	begun map[int]bool
}

// Read sums up the record at path, of the runs that keep says yes to, and the older file
// beside it. A record that is not there is fs.ErrNotExist.
func Read(path string, keep func(run.Event) bool) (Stats, error) {
	s := summary{keep: keep, runs: map[run.ID]*RunStats{}, seen: map[string]bool{}}
	older, err := s.readFile(path+".1"), s.readFile(path)
	if older != nil && !errors.Is(older, os.ErrNotExist) {
		return Stats{}, older
	}
	if err != nil && (older != nil || !errors.Is(err, os.ErrNotExist)) {
		return Stats{}, err
	}
	out := Stats{Runs: []RunStats{}, Unread: s.bad}
	for _, r := range s.runs {
		out.Runs = append(out.Runs, *r)
	}
	slices.SortFunc(out.Runs, func(a, b RunStats) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Run, b.Run))
	})
	return out, nil
}

type summary struct {
	keep func(run.Event) bool
	runs map[run.ID]*RunStats
	seen map[string]bool
	bad  int
}

func (s *summary) readFile(name string) (err error) {
	f, err := os.Open(name) //nolint:gosec // the person names the file
	if err != nil {
		return fmt.Errorf("read analytics: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		var ev run.Event
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0:
		case json.Unmarshal(line, &ev) != nil || ev.Kind == "" || ev.Run == "":
			s.bad++
		case s.keep(ev):
			s.add(ev)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read analytics: %w", err)
		}
	}
}

// add adds an event. A step that was repeated after a crash tells it again, at another time.
func (s *summary) add(ev run.Event) {
	key := fmt.Sprint(ev.Run, ev.Kind, ev.Iteration, ev.TaskID, ev.Gate, ev.Outcome, ev.Text, ev.Duration, ev.CostUSD)
	if s.seen[key] {
		return
	}
	s.seen[key] = true
	r := s.runs[ev.Run]
	if r == nil {
		r = &RunStats{Run: ev.Run, Started: ev.Time, done: map[string]bool{}, begun: map[int]bool{}}
		s.runs[ev.Run] = r
	}
	r.Repo, r.Subject = cmp.Or(ev.Repo, r.Repo), cmp.Or(ev.Subject, r.Subject)
	if ev.Iteration > 0 && !r.begun[ev.Iteration] { // they count on from the run before
		r.begun[ev.Iteration] = true
		r.Iterations++
	}
	r.CostUSD, r.TasksTotal = max(r.CostUSD, ev.CostUSD), max(r.TasksTotal, ev.Total)
	if ev.Time.After(r.Ended) {
		r.Ended = ev.Time
	}
	switch ev.Kind { //nolint:exhaustive // the other kinds add no figure
	case run.EventAgentFinished:
		r.AgentCalls++
		r.AgentSeconds += ev.Duration.Seconds()
		r.Usage = r.Usage.Add(ev.Usage)
		r.Usage.CostUSD = run.Dollars(r.Usage.CostUSD)
	case run.EventTaskDone:
		r.done[ev.TaskID] = true
		r.TasksDone = len(r.done)
	case run.EventGate:
		if !ev.Passed {
			r.FailedChecks++
		}
	case run.EventAttemptFailed:
		r.FailedAttempts++
	case run.EventRunEnded:
		r.End = ev.End
	}
}
