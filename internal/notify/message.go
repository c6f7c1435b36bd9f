package notify

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Bounds of what others wrote, in bytes.
const (
	maxSubject = 200
	maxDetail  = 500
)

// Message is one occasion of one run. As JSON it is what webhooks and programs
// get; docs/server.md#notifications describes it, and the form only grows.
type Message struct {
	Version int `json:"version"`
	// ID is the same for each attempt to deliver the message, and for one that is
	// made again after a crash.
	ID     string     `json:"id"`
	Notice run.Notice `json:"event"`
	Time   time.Time  `json:"time"`
	Run    run.ID     `json:"run,omitempty"`
	// Repository is owner/name, or the name of a checkout's directory.
	Repository string `json:"repository,omitempty"`
	Subject    string `json:"subject"`
	// URL is where people find the run on GitHub, "" where it is not there.
	URL       string        `json:"url,omitempty"`
	Iteration int           `json:"iteration"`
	TasksDone int           `json:"tasks_done"`
	Tasks     int           `json:"tasks_total"`
	CostUSD   float64       `json:"cost_usd"`
	End       run.EndReason `json:"end,omitempty"`
	// Summary says it in a sentence of ours, Detail what others said about it.
	Summary string `json:"summary"`
	Detail  string `json:"detail,omitempty"`
}

// messageVersion is the version of the form.
const messageVersion = 1

// compose makes the message of an event. The counts are those of the run so far.
func compose(n run.Notice, ev run.Event, done, total int, mask func(string) string) Message {
	m := Message{
		Version: messageVersion, ID: fmt.Sprintf("%s.%s.%d", ev.Run, n, ev.Iteration), Notice: n, Time: ev.Time.UTC(),
		Run: ev.Run, Repository: repository(ev.Repo), Subject: tidy(mask, ev.Subject, maxSubject), URL: ev.URL,
		Iteration: ev.Iteration, TasksDone: done, Tasks: total, CostUSD: run.Dollars(ev.CostUSD), End: ev.End,
	}
	switch n {
	case run.NoticeStart:
		m.Summary = "Started: planning."
		if total > 0 {
			m.Summary = fmt.Sprintf("Started: %s.", m.tasks())
		}
	case run.NoticeProgress:
		m.Iteration--
		m.Summary = fmt.Sprintf("After %s: %s%s.", strs.Count(ev.Iterations-1, "iteration"), m.tasks(), m.cost())
	case run.NoticeFinish, run.NoticeNeedsHuman:
		m.Summary = fmt.Sprintf("%s. %s after %s%s.", ev.Proof.Sentence(ev.End), upper(m.tasks()),
			strs.Count(ev.Iterations, "iteration"), m.cost())
		m.Detail = tidy(mask, ev.Text, maxDetail)
	}
	return m
}

// Title is a line that names the run and what became of it.
func (m Message) Title() string {
	what := map[run.Notice]string{
		run.NoticeStart: "started", run.NoticeProgress: "working", run.NoticeFinish: "stopped",
		run.NoticeNeedsHuman: "needs a person",
	}[m.Notice]
	if m.End.Complete() {
		what = "done"
	}
	if m.Repository == "" {
		return fmt.Sprintf("Ralph %s: %s", what, m.Subject)
	}
	return fmt.Sprintf("%s: Ralph %s: %s", m.Repository, what, m.Subject)
}

func (m Message) tasks() string {
	if m.Tasks == 0 {
		return "no tasks yet"
	}
	return fmt.Sprintf("%d of %s done", m.TasksDone, strs.Count(m.Tasks, "task"))
}

func (m Message) cost() string {
	if m.CostUSD == 0 {
		return ""
	}
	return fmt.Sprintf(", $%.2f", m.CostUSD)
}

// repository does not tell where a checkout is.
func repository(name string) string {
	if filepath.IsAbs(name) {
		return path.Base(filepath.ToSlash(name))
	}
	return name
}

// tidy makes one short line of what others wrote, without what is hidden or
// secret in it.
func tidy(mask func(string) string, s string, limit int) string {
	s, _ = progress.Clean(s)
	s = mask(s) // before the lines go: a private key has some
	return strs.Cut(mask(strs.OneLine(s)), limit)
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// text is a message for people: a line that names the run, then what became of it. escape
// keeps others' text from being more than text where it is shown.
func (m Message) text(escape func(string) string) string {
	lines := []string{escape(m.Title()), m.Summary} // the summary is ours
	if m.Detail != "" {
		lines = append(lines, escape(m.Detail))
	}
	if m.URL != "" {
		lines = append(lines, m.URL) // to be followed
	}
	return strings.Join(lines, "\n")
}
