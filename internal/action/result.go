package action

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// End reasons of jobs in which no run came to an end.
const (
	// EndRefused: who made the event happen may not start a run.
	EndRefused = "refused"
	// EndNothing: the event asks for nothing.
	EndNothing = "nothing_to_do"
	// EndUnusable: the inputs, or what the job offers, cannot be used.
	EndUnusable = "unusable"
	// EndQueued: the event is for a job in the queue of its issue.
	EndQueued = "queued"
)

// Result is what a job has come to.
type Result struct {
	// End is a run.EndReason, or one of the above.
	End string
	// Proof is what shows that the work is right.
	Proof run.Proof
	// Detail is why, in a sentence or more. It may be anybody's words.
	Detail string
	// Issue is the number of the issue that is worked, or whose queue the event
	// belongs to; 0 is none.
	Issue      int
	PRNumber   int
	PRURL      string
	Branch     string
	Head       string
	Iterations int
	Done       int
	Total      int
	CostUSD    float64
	Transcript string
	// Story is Markdown of ours that tells of the run: what stands in the pull
	// request.
	Story string
}

// resultOf is how a run has ended, for the runner.
func resultOf(s loop.State, mask *redact.Masker) (Result, error) {
	number, err := strconv.Atoi(s.Subject.Slug)
	if err != nil {
		return Result{}, fmt.Errorf("read the issue of run %s: %w", s.Run, err)
	}
	r := Result{
		End: string(s.End), Proof: s.Proof(), Issue: number,
		Detail: mask.Mask(strings.Join(append([]string{s.EndDetail}, s.Questions...), "\n")),
		Branch: s.Branch, Head: s.Head, Iterations: s.Iterations(), CostUSD: s.Usage.CostUSD,
	}
	if s.Progress != "" {
		doc, err := progress.Parse([]byte(s.Progress))
		if err != nil {
			return r, fmt.Errorf("read the progress of run %s: %w", s.Run, err)
		}
		r.Done, r.Total = progress.Counts(doc.Tasks())
	}
	if s.PullRequest != nil {
		r.PRNumber, r.PRURL, r.Story = s.PullRequest.Number, s.PullRequest.URL, mask.Mask(s.PullRequest.Body)
	}
	return r, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// outputs are the outputs of action.yml.
func (r Result) outputs() []output {
	number := func(n int) string {
		if n <= 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	return []output{
		{"issue", number(r.Issue)}, {"pr_url", r.PRURL}, {"pr_number", number(r.PRNumber)}, {"branch", r.Branch},
		{"end_reason", r.End},
		{"iterations", strconv.Itoa(r.Iterations)}, {"tasks_done", strconv.Itoa(r.Done)},
		{"tasks_total", strconv.Itoa(r.Total)},
		{"cost_usd", strconv.FormatFloat(r.CostUSD, 'f', 4, 64)}, {"head_sha", r.Head}, {"transcript_path", r.Transcript},
	}
}

// markdown is the step's summary.
func (r Result) markdown() string {
	var b strings.Builder
	b.WriteString("## Ralph\n\n")
	switch r.End {
	case EndNothing:
		b.WriteString("Nothing to do for this event.\n")
	case EndRefused:
		b.WriteString("**Not started.**\n")
	case EndUnusable:
		b.WriteString("**Not started.**\n")
	default:
		fmt.Fprintf(&b, "**%s.** %d of %d tasks are done, after %d iterations", r.Proof.Sentence(run.EndReason(r.End)),
			r.Done, r.Total, r.Iterations)
		if r.CostUSD > 0 {
			fmt.Fprintf(&b, " and $%.2f", r.CostUSD)
		}
		b.WriteString(".")
		if r.PRURL != "" {
			fmt.Fprintf(&b, " The work is in [#%d](%s).", r.PRNumber, r.PRURL)
		}
		b.WriteString("\n")
	}
	if r.Detail != "" {
		b.WriteString("\n" + quoted(r.Detail) + "\n")
	}
	if r.Story != "" {
		b.WriteString("\n" + r.Story + "\n")
	}
	return b.String()
}

// quoted shows anybody's words as they are: a code block that they cannot leave.
func quoted(text string) string {
	text = strings.TrimSpace(strs.Cut(run.Printable(text), 16<<10))
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "text\n" + text + "\n" + fence
}
