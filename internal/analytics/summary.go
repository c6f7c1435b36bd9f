package analytics

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// maxLine bounds a line, in bytes: ours have a few kilobytes.
const maxLine = 64 << 10

// Summary sums up lines. Make one with NewSummary.
type Summary struct {
	keep func(Record) bool
	runs map[run.ID]*runSum
	seed maphash.Seed
	seen map[uint64]bool
	bad  int
	// lost counts the lines that name no run.
	lost int
}

// runSum gathers what is known of one run.
type runSum struct {
	RunStats
	tasks   map[string]bool
	blocked map[string]bool
	begun   map[int]bool  // by number of the iteration
	spent   time.Duration // of agents
}

// NewSummary is an empty summary of the lines that keep says yes to; nil keeps
// all.
func NewSummary(keep func(Record) bool) *Summary {
	return &Summary{keep: keep, runs: map[run.ID]*runSum{}, seed: maphash.MakeSeed(), seen: map[uint64]bool{}}
}

// Read adds the lines of r. What is no line of ours is counted and passed over.
func (s *Summary) Read(r io.Reader) error {
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var rec Record
			switch {
			case long || json.Unmarshal(line, &rec) != nil || rec.Kind == "":
				s.bad++
			case rec.Run == "":
				s.lost++
			default:
				s.Add(rec)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read analytics: %w", err)
		}
	}
}

// Add adds one line. One that came before, but for its time, does not count.
func (s *Summary) Add(r Record) {
	if s.keep != nil && !s.keep(r) {
		return
	}
	same := r
	same.Time, same.Usage, same.Passed, same.Models, same.Hosts = time.Time{}, nil, nil, nil, nil
	line, err := json.Marshal(same)
	key := maphash.Bytes(s.seed, line)
	if err != nil || s.seen[key] {
		return
	}
	s.seen[key] = true
	t := s.runs[r.Run]
	if t == nil {
		t = &runSum{tasks: map[string]bool{}, blocked: map[string]bool{}, begun: map[int]bool{}}
		t.Run, t.Started = r.Run, r.Time
		t.Total, t.Outcomes = newTotal(), map[string]int{}
		s.runs[r.Run] = t
	}
	t.add(r)
}

func (t *runSum) add(r Record) {
	for _, h := range r.Hosts {
		counts := t.HostsReached
		if h.Blocked != "" {
			counts = t.HostsBlocked
		}
		counts[h.Host] += h.Count
		t.SentBytes += h.SentBytes
		t.ReceivedBytes += h.ReceivedBytes
	}
	for _, m := range r.Models {
		t.Models[m.Model] = t.Models[m.Model].add(ModelStats{Requests: m.Requests, Usage: m.Usage})
	}
	t.Repo, t.Subject = cmp.Or(r.Repo, t.Repo), cmp.Or(r.Subject, t.Subject)
	if r.Iteration > 0 && !t.begun[r.Iteration] { // they count on from the run before
		t.begun[r.Iteration] = true
		t.Iterations++
	}
	t.CostUSD = run.Dollars(max(t.CostUSD, r.CostUSD))
	t.TasksTotal = max(t.TasksTotal, r.Total)
	if r.Time.After(t.Ended) {
		t.Ended = r.Time
	}
	switch r.Kind { //nolint:exhaustive // the other kinds add no figure
	case run.EventAgentFinished:
		t.AgentCalls++
		t.Outcomes[r.Outcome]++
		t.spent += agentTime(r.DurationMS)
		t.Model = cmp.Or(r.Model, t.Model)
		if r.Usage != nil {
			t.Usage = usage(run.Usage(t.Usage).Add(run.Usage(*r.Usage)))
		}
	case run.EventTaskDone:
		t.tasks[r.Task] = true
	case run.EventTaskBlocked:
		t.blocked[r.Task] = true
	case run.EventGate:
		t.Gates++
		if r.Passed != nil && !*r.Passed {
			t.GateFailures[r.Gate]++
		}
	case run.EventVerdict:
		t.Verdicts[r.Verdict]++
	case run.EventAttemptFailed:
		t.FailedAttempts++
	case run.EventRunEnded:
		t.End = r.End
	}
}

// maxCall is longer than any agent call.
const maxCall = 30 * 24 * time.Hour

// agentTime is how long a call took, 0 where a line says what cannot be: for calls
// that never began some hold the time since the year 1.
func agentTime(ms int64) time.Duration {
	if ms < 0 || ms > maxCall.Milliseconds() {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
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
	End run.EndReason `json:"end,omitempty"`
	Total
	Outcomes map[string]int `json:"outcomes"`
	Usage    Usage          `json:"usage"`
	Model    string         `json:"model,omitempty"`
}

// Stats are the figures of all runs of a summary.
type Stats struct {
	Runs []RunStats `json:"runs"`
	// Ends counts the runs by how they ended; "" are those that did not.
	Ends  map[run.EndReason]int `json:"ends"`
	Total Total                 `json:"total"`
	// Unread counts the lines that could not be read.
	Unread int `json:"unread_lines"`
	// Nameless counts the lines that name no run, which older versions wrote and
	// which count in no figure.
	Nameless int `json:"lines_without_run"`
}

// Total are the figures of a run that add up over runs.
type Total struct {
	Iterations     int            `json:"iterations"`
	AgentCalls     int            `json:"agent_calls"`
	AgentSeconds   float64        `json:"agent_seconds"`
	FailedAttempts int            `json:"failed_attempts"`
	TasksDone      int            `json:"tasks_done"`
	TasksBlocked   int            `json:"tasks_blocked"`
	TasksTotal     int            `json:"tasks_total"`
	Gates          int            `json:"gates"`
	GateFailures   map[string]int `json:"gate_failures"`
	Verdicts       map[string]int `json:"verdicts"`
	CostUSD        float64        `json:"cost_usd"`
	// Models is what was used of each, as far as a gateway counted. Hosts count
	// how often they were reached or blocked.
	Models        map[string]ModelStats `json:"models"`
	HostsReached  map[string]int        `json:"hosts_reached"`
	HostsBlocked  map[string]int        `json:"hosts_blocked"`
	SentBytes     int64                 `json:"sent_bytes"`
	ReceivedBytes int64                 `json:"received_bytes"`
}

// ModelStats is what was used of a model.
type ModelStats struct {
	Requests int   `json:"requests"`
	Usage    Usage `json:"usage"`
}

func (m ModelStats) add(o ModelStats) ModelStats {
	return ModelStats{Requests: m.Requests + o.Requests, Usage: usage(run.Usage(m.Usage).Add(run.Usage(o.Usage)))}
}

func newTotal() Total {
	return Total{
		GateFailures: map[string]int{}, Verdicts: map[string]int{},
		Models: map[string]ModelStats{}, HostsReached: map[string]int{}, HostsBlocked: map[string]int{},
	}
}

// add adds the figures of another run.
func (t *Total) add(o Total) {
	t.Iterations += o.Iterations
	t.AgentCalls += o.AgentCalls
	t.AgentSeconds += o.AgentSeconds
	t.FailedAttempts += o.FailedAttempts
	t.TasksDone += o.TasksDone
	t.TasksBlocked += o.TasksBlocked
	t.TasksTotal += o.TasksTotal
	t.Gates += o.Gates
	t.CostUSD = run.Dollars(t.CostUSD + o.CostUSD)
	t.SentBytes += o.SentBytes
	t.ReceivedBytes += o.ReceivedBytes
	for name, m := range o.Models {
		t.Models[name] = t.Models[name].add(m)
	}
	for _, counts := range []struct{ to, from map[string]int }{
		{t.GateFailures, o.GateFailures}, {t.Verdicts, o.Verdicts},
		{t.HostsReached, o.HostsReached}, {t.HostsBlocked, o.HostsBlocked},
	} {
		for name, n := range counts.from {
			counts.to[name] += n
		}
	}
}

// Stats gives the figures, runs in the order in which they began.
func (s *Summary) Stats() Stats {
	out := Stats{Runs: []RunStats{}, Ends: map[run.EndReason]int{}, Unread: s.bad, Nameless: s.lost, Total: newTotal()}
	for _, t := range s.runs {
		r := t.RunStats
		r.TasksDone, r.AgentSeconds = len(t.tasks), t.spent.Seconds()
		for id := range t.blocked {
			if !t.tasks[id] {
				r.TasksBlocked++
			}
		}
		out.Runs = append(out.Runs, r)
	}
	slices.SortFunc(out.Runs, func(a, b RunStats) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Run, b.Run))
	})
	for _, r := range out.Runs {
		out.Ends[r.End]++
		out.Total.add(r.Total)
	}
	return out
}
