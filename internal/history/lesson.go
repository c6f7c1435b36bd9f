package history

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// MaxLessons is how many lessons are kept of one repository; the oldest go
// first.
const MaxLessons = 2000

// Bounds of a lesson, in bytes and in paths.
const (
	maxText  = 400
	maxFiles = 20
)

// Lesson is what one task taught.
type Lesson struct {
	// Key is unique to the run and the task.
	Key string    `json:"key"`
	Run run.ID    `json:"run"`
	At  time.Time `json:"at"`
	// TaskID and Title name the task.
	TaskID string `json:"task_id"`
	Title  string `json:"title"`
	// Worked: the task landed. Otherwise it was given up.
	Worked bool `json:"worked"`
	// Commit is what the task landed as, "" for nothing.
	Commit string `json:"commit,omitempty"`
	// Approach is what the agent said of the work that landed, Insight what one
	// should know next time: the learnings that were noted, or why it failed. One
	// line each.
	Approach string `json:"approach,omitempty"`
	Insight  string `json:"insight,omitempty"`
	// Failure is the class of what stood in the way, "" for nothing.
	Failure string `json:"failure,omitempty"`
	// Files are the paths that were changed.
	Files []string `json:"files,omitempty"`
	// Iterations and CostUSD are what it took; waits and crashes cost, and are
	// no iterations.
	Iterations int     `json:"iterations"`
	CostUSD    float64 `json:"cost_usd"`
}

// Bounded is l with its texts on one line each and cut to what is kept.
func (l Lesson) Bounded() Lesson {
	l.Title, l.Approach, l.Insight = oneLine(l.Title), oneLine(l.Approach), oneLine(l.Insight)
	if len(l.Files) > maxFiles {
		l.Files = l.Files[:maxFiles:maxFiles]
	}
	return l
}

// Sentence is the lesson for a prompt: one line, without a full stop.
func (l Lesson) Sentence() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q", l.Title)
	switch {
	case l.Worked && l.Iterations > 1:
		fmt.Fprintf(&b, " took %d iterations", l.Iterations)
	case l.Worked:
		b.WriteString(" took one iteration")
	default:
		fmt.Fprintf(&b, " was given up after %d iterations", l.Iterations)
	}
	if l.Approach != "" {
		b.WriteString("; what was done: " + l.Approach)
	}
	if l.Insight != "" {
		b.WriteString("; " + l.Insight)
	}
	if len(l.Files) > 0 {
		b.WriteString("; files: " + strings.Join(l.Files[:min(len(l.Files), 5)], ", "))
	}
	return b.String()
}

// Query is the task that lessons are wanted for.
type Query struct {
	Title  string
	Accept []string
}

// Memory keeps the lessons of one repository.
type Memory interface {
	// Remember keeps a lesson, in place of one with the same key.
	Remember(ctx context.Context, l Lesson) error
	// Similar gives the lessons of tasks like the one asked about, the most
	// alike first, at most n. It gives none of work that no person has merged: whoever
	// can have a run begun could have its agent note what later agents are told.
	Similar(ctx context.Context, q Query, n int) ([]Lesson, error)
}

func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strs.Cut(strs.OneLine(s), maxText)
}
