package analytics

import (
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Version is the version of the form of a line.
const Version = 1

// Record is one line. Fields that say nothing are left out. docs/analytics.md
// describes each; the form only grows.
type Record struct {
	Version   int           `json:"v"`
	Time      time.Time     `json:"time"`
	Run       run.ID        `json:"run"`
	Repo      string        `json:"repo,omitempty"`
	Subject   string        `json:"subject,omitempty"`
	Kind      run.EventKind `json:"kind"`
	Iteration int           `json:"iteration,omitempty"`
	Task      string        `json:"task,omitempty"`
	Title     string        `json:"title,omitempty"`
	Done      int           `json:"done,omitempty"`
	Total     int           `json:"total,omitempty"`
	Role      run.Role      `json:"role,omitempty"`
	Outcome   string        `json:"outcome,omitempty"`
	Model     string        `json:"model,omitempty"`
	Usage     *Usage        `json:"usage,omitempty"`
	Models    []ModelUse    `json:"models,omitempty"`
	Hosts     []HostUse     `json:"hosts,omitempty"`
	Gate      string        `json:"gate,omitempty"`
	Passed    *bool         `json:"passed,omitempty"`
	// DurationMS is in milliseconds.
	DurationMS int64        `json:"duration_ms,omitempty"`
	Verdict    string       `json:"verdict,omitempty"`
	Signals    *run.Signals `json:"signals,omitempty"`
	// CostUSD is what the run has cost so far.
	CostUSD float64       `json:"cost_usd,omitempty"`
	End     run.EndReason `json:"end,omitempty"`
	Text    string        `json:"text,omitempty"`
}

// Usage is what one agent call consumed.
type Usage struct {
	InputTokens      int64   `json:"input_tokens"`
	OutputTokens     int64   `json:"output_tokens"`
	CacheReadTokens  int64   `json:"cache_read_tokens"`
	CacheWriteTokens int64   `json:"cache_write_tokens"`
	CostUSD          float64 `json:"cost_usd"`
	Turns            int     `json:"turns"`
}

// ModelUse is what one agent call used of one model.
type ModelUse struct {
	Model    string `json:"model"`
	Requests int    `json:"requests"`
	Usage    Usage  `json:"usage"`
}

// HostUse is what an agent call or a check reached of the network, or was kept
// from.
type HostUse struct {
	Host string `json:"host"`
	// Blocked says why it was kept from the host.
	Blocked       string `json:"blocked,omitempty"`
	Count         int    `json:"count"`
	SentBytes     int64  `json:"sent_bytes,omitempty"`
	ReceivedBytes int64  `json:"received_bytes,omitempty"`
}

// ModelUses gives uses in the form of a line.
func ModelUses(uses []run.ModelUse) []ModelUse {
	var out []ModelUse
	for _, u := range uses {
		out = append(out, ModelUse{Model: u.Model, Requests: u.Requests, Usage: usage(u.Usage)})
	}
	return out
}

// usage is what was consumed in the form of a line.
func usage(u run.Usage) Usage {
	u.CostUSD = run.Dollars(u.CostUSD)
	return Usage(u)
}

// HostUses gives uses in the form of a line.
func HostUses(uses []run.HostUse) []HostUse {
	var out []HostUse
	for _, u := range uses {
		out = append(out, HostUse{
			Host: u.Host, Blocked: u.Blocked, Count: u.Count, SentBytes: u.Sent, ReceivedBytes: u.Received,
		})
	}
	return out
}

// Bounds of a line's texts, in bytes.
const (
	maxTitle = 200
	maxText  = 400
)

// newRecord is the line of an event; mask takes secrets out of a text.
func newRecord(ev run.Event, mask func(string) string) Record {
	r := Record{
		Version: Version, Time: ev.Time.UTC(), Run: ev.Run, Repo: ev.Repo, Subject: strs.Cut(mask(ev.Subject), maxTitle),
		Kind: ev.Kind, Iteration: ev.Iteration, Task: ev.TaskID, Title: strs.Cut(mask(ev.TaskTitle), maxTitle),
		Done: ev.Done, Total: ev.Total, Role: ev.Role, Outcome: ev.Outcome, Model: ev.Model, Gate: strs.Cut(ev.Gate, maxTitle),
		DurationMS: ev.Duration.Milliseconds(), Verdict: ev.Verdict,
		Signals: ev.Signals, CostUSD: run.Dollars(ev.CostUSD), End: ev.End, Text: strs.Cut(mask(ev.Text), maxText),
	}
	if ev.Kind == run.EventGate {
		r.Passed = &ev.Passed
	}
	r.Models, r.Hosts = ModelUses(ev.Models), HostUses(ev.Hosts)
	for i, m := range r.Models {
		r.Models[i].Model = strs.Cut(mask(m.Model), maxTitle)
	}
	for i, h := range r.Hosts {
		r.Hosts[i].Host = strs.Cut(mask(h.Host), maxTitle)
	}
	if ev.Usage != (run.Usage{}) {
		u := usage(ev.Usage)
		r.Usage = &u
	}
	return r
}
