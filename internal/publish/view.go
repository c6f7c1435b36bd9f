package publish

import (
	"cmp"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// Said is something that people said of the work.
type Said struct {
	// Where are the lines, By is the login behind it.
	Where, By string
	// Comment is the numeric id of the comment on a line, the last of a conversation
	// that was taken in, 0 for none; Review that of a review which said it of the whole.
	Comment, Review int64
	// TaskID is the task it became, OID the commit that did it, Why says why there
	// is no task; each may be "".
	TaskID, OID, Why string
}

// View is what the description of a pull request is made of. All its texts may
// come from an agent or an issue.
type View struct {
	IssueNumber int
	// Label is the one that starts runs; "" stands for the usual one.
	Label string
	// PullNumber is 0 where it is not known.
	PullNumber int
	// Title is the issue's; it becomes the pull request's and is not rendered.
	Title string
	// RepoURL is the repository's page, for links; "" leaves object names bare.
	RepoURL string
	Branch  string
	// RequestedBy is the login of the person who started the run, "" for none.
	RequestedBy string
	Tasks       []run.Task
	// Commits are those of all runs, oldest first, and Older counts those in front
	// of them that are not known any more.
	Commits []loop.Landed
	Older   int
	Phase   run.Phase
	// Waits is what the run waits for, in the host's own words, "" for nothing, and
	// WaitsSince since when.
	Waits      string
	WaitsSince time.Time
	// End is set once the run has ended.
	End run.EndReason
	// Iteration is the number of the last iteration; they are counted over all the
	// issue's runs, of which there were Runs, and which cost CostUSD.
	Iteration, Runs int
	CostUSD         float64
	// Sandbox is what keeps the agent apart, where that needs saying.
	Sandbox string
	Agent   string
	Model   string
	// Proof is what shows that the work is right.
	Proof run.Proof
	// Gates are the checks on the last proposal. OfAttempt: it did not land.
	Gates     []gate.Result
	OfAttempt bool
	// Findings are what a person should look at in what has landed, a sentence
	// each.
	Findings []string
	// Analysis, Testing, Patterns and Learnings are sections of progress.md, in
	// Markdown, and Log is its Iteration Log.
	Analysis, Testing, Patterns, Learnings string
	Log                                    []progress.LogRow
	// Note is what else there is to say: why a run failed, say.
	Note string
	// Questions are what a person has to answer before the run goes on.
	Questions []string
	// Diagnostics are an account of what was given up last, in lines; those of
	// a list begin with a hyphen. They are shown while there is something to do
	// about it.
	Diagnostics string
	// Reviews is how often all of the work was read once more, and ReviewNote
	// says why it was not.
	Reviews    int
	ReviewNote string
	// Merged says what became of people's edits, one sentence each.
	Merged []string
	// Said is what people and checks said of the work, and what became of it,
	// oldest first.
	Said []Said
	// Removed counts the hidden characters that were taken out of the issue's
	// text before anybody worked from it.
	Removed int
	// Closes adds "Closes #N", which closes the issue when the pull request is
	// merged. It takes effect only if End is complete.
	Closes bool
	// ByJob: a job of a workflow does the work, which hears of nothing but its own
	// event. So nothing is offered that the run at work would have to hear of.
	ByJob bool
	// Mask takes the secrets out of a text; nil takes out none. Masking twice
	// must be masking once.
	Mask func(string) string
}

// View is the state as the pull request shows it.
func (p *Publisher) View(s loop.State) (View, error) {
	sum := s.Sum()
	v := View{
		Label: p.Label, Title: s.Subject.Name, RepoURL: p.GitHub.HTMLURL(), Phase: s.Phase, End: s.End,
		Iteration: sum.Iterations, Runs: sum.Runs,
		CostUSD: sum.CostUSD, Commits: sum.Commits, Older: sum.Older, Agent: p.Agent, Model: s.SeenModel,
		Gates: s.LastGates(), OfAttempt: s.OfAttempt(),
		RequestedBy: s.Subject.RequestedBy, Note: s.EndDetail, Merged: s.Merged, Removed: s.Plan.Removed,
		Closes:    true,
		Questions: s.Questions, Diagnostics: s.Diagnostics, Reviews: s.Reviews, ReviewNote: s.ReviewNote,
		Proof: s.Proof(), Sandbox: p.Sandbox,
	}
	if d := s.Delayed; d != nil {
		v.Waits, v.WaitsSince = d.Why, d.Since
	}
	if s.Progress != "" {
		doc, err := progress.Parse([]byte(s.Progress))
		if err != nil {
			return v, fmt.Errorf("read the accepted progress: %w", err)
		}
		v.Tasks, v.Learnings = doc.Tasks(), doc.Section(progress.SectionLearnings)
		v.Patterns, v.Analysis = doc.Section(progress.SectionPatterns), doc.Section(progress.SectionAnalysis)
		v.Testing, v.Log = doc.Section(progress.SectionTesting), doc.Log()
		for i, t := range v.Tasks {
			v.Tasks[i].Status = s.Standing(t)
		}
	}
	for _, f := range s.Feedback {
		v.Said = append(v.Said, Said{Where: f.Where, By: f.By, Comment: cmp.Or(f.Last, f.Comment),
			Review: reviewOf(f.Key), TaskID: f.TaskID, OID: f.Commit, Why: f.Why})
	}
	if s.PullRequest != nil {
		v.PullNumber = s.PullRequest.Number
	}
	for _, f := range s.Findings {
		v.Findings = append(v.Findings, f.Text)
	}
	return p.of(s).fill(v), nil
}

// reviewOf is the review that the key of feedback names, 0 where it names something else.
func reviewOf(key string) (id int64) {
	if _, err := fmt.Sscanf(key, "review:%d", &id); err != nil {
		return 0
	}
	return id
}
