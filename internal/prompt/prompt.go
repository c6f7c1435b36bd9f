package prompt

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// MaxSize is the most a prompt takes, in bytes. It is far below what models
// read; what goes beyond it would only bury what matters.
const MaxSize = 128 << 10

const minNonce = 16

// maxTexts bounds the texts of a job and a role with the names that are put into them.
const maxTexts = 2*MaxTemplate + 1<<10

// Job is what one agent call is for.
type Job string

// The jobs.
const (
	// JobPlan writes the tasks of a run and changes no code.
	JobPlan Job = "plan"
	// JobBuild works one task.
	JobBuild Job = "build"
	// JobSplit writes smaller tasks in place of one and changes no code.
	JobSplit Job = "split"
	// JobReview reads all that the run has changed and may add tasks.
	JobReview Job = "review"
	// JobVerify looks whether one task is done as the tree stands, and writes nothing.
	JobVerify Job = "verify"
)

// Input is what one iteration is about.
type Input struct {
	Job Job
	// Role is the part the agent plays where the job is to build; "" is
	// run.RoleImplementer. The other jobs bring their role along.
	Role run.Role
	// PlanName, PlanFile and ProgressFile stand in for ${PLAN_NAME},
	// ${PLAN_FILE} and ${PROGRESS_FILE}.
	PlanName, PlanFile, ProgressFile string
	PlanText                         string
	// Accept are the acceptance criteria of the plan as a whole.
	Accept []string
	// Project is what [Project] tells of the tree.
	Project string
	// Task is the one task to build or to split.
	Task run.Task
	// Progress is the host's version of the progress file; nil is an empty one.
	Progress *progress.Doc
	// Attempt counts the attempts at the task, this one included, from 1.
	Attempt int
	// Left is what may still be spent.
	Left Left
	// Tried are the earlier attempts at the task, oldest first.
	Tried []progress.Attempt
	// LastFailure is why the last attempt failed, in the words of the gate.
	LastFailure string
	// Violations are the sentences of the last verdict.
	Violations []string
	// Guidance says how to go on after a failure, a sentence or two each.
	Guidance []string
	// MergedNotes are what earlier, merged work in the repository noted.
	MergedNotes string
	// Files are the paths the task is likely about, most likely first.
	Files []string
	// Diff is the whole change a reviewer reads.
	Diff string
	// Said is what people said in review that the task is about.
	Said string
	// Unfinished is what the last call said is left of the task, "" where it left nothing
	// behind.
	Unfinished string
	// Promise are the words between <promise> and </promise> by which the call says that
	// all is done, "" where it says so in our own form.
	Promise string
	// MayAsk: a planner may ask a person instead of planning.
	MayAsk bool
	// Criteria are what a verifier has to answer, one by one.
	Criteria []string
	// GateCommands are what the host will run on the result.
	GateCommands []string
	// Nonce marks the borders of quoted text. It must be new for each prompt
	// and unknown to whoever wrote that text: at least 16 random characters.
	Nonce string
}

// Left is what a run may still spend. A field that is not positive says
// nothing.
type Left struct {
	Attempts   int
	Iterations int
	Time       time.Duration
	USD        float64
}

// Render writes the prompt, of at most MaxSize bytes. Quoted text longer than its section
// takes is cut, which the prompt says. Only a job without a template and a short nonce are
// errors.
func Render(t Templates, in Input) (string, error) {
	if len(in.Nonce) < minNonce || strings.Trim(in.Nonce,
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "" {
		return "", errors.New("render prompt: the nonce is too short or has odd characters")
	}
	text, err := t.of(in.Job, in.Role)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	p := page{in}
	b.WriteString(p.assignment())
	text = strings.TrimRight(strings.NewReplacer(
		"${PLAN_FILE}", name(in.PlanFile),
		"${PROGRESS_FILE}", name(in.ProgressFile),
		"${PLAN_NAME}", name(in.PlanName),
	).Replace(text), "\r\n")
	b.WriteString(cut(text, maxTexts, "start") + "\n") // a text may be nothing but long names
	if err := sections().Execute(&b, p); err != nil {
		return "", fmt.Errorf("render prompt: %w", err)
	}
	b.WriteString(p.ending())
	return b.String(), nil
}

// assignment says in four lines what this call is for, before anything that
// others wrote: agents that are programs rather than models read only these.
func (p page) assignment() string {
	task := "-"
	if p.Builds() || p.Splits() || p.Verifies() {
		task = p.withoutNonce(p.Task.ID + " " + name(p.Task.Title)) // a title is quoted text, too
	}
	return fmt.Sprintf("Mode: %s\nTask: %s\nAttempt: %d\nProgress file: %s\n\n", p.Job, task, max(p.Attempt, 1),
		name(p.ProgressFile))
}

// The last thing a prompt says: how to end. The answer itself is never spelled out
// as a line, so that a prompt that is read back is no answer. It stands here and
// not in a template, for a repository's own template has to end the same way.
const (
	endBuild = `
## How to end

End your last message with a line of its own. It begins with the word RALPH_RESULT and a colon, followed by one of
these four words and nothing except what is listed here:

- done, if all of the task is done and you have seen it work; if there was nothing left to change, name the file and
  line that show it (path/to/file.go:12) above that line;
- partial, a colon, and what is left, if another call has to continue the task;
- blocked, a colon, and what is missing, if only a person can provide it: access, a decision, a key;
- failed, a colon, and why, if it does not work and you do not know how to continue.

Without done on that line, or a tick in the task's box, the task does not count as done, whatever the checks say.

With done, begin that message with one sentence that says what changed for whoever uses it, and a second one that begins
with "Try it:" and says how to try it. Both are shown at the top of the pull request.
`
	endPromise = `
## How to end

This prompt comes again after each call, until its promise is true. Only when all of it is done and you have seen it
work, end your last message with a line of its own that holds these words between the tags <promise> and </promise>, and
nothing else:

    %s

The host then runs the checks. If they fail, the promise was not true: you get this prompt again, with what they said.
Never write that line only to end the calls. Nothing else says that the work is done. Without it, end with a line that
begins with the word RALPH_RESULT and a colon, followed by one of these:

- partial, a colon, and what is left, for the next call to continue with;
- blocked, a colon, and what is missing, if only a person can provide it: access, a decision, a key;
- failed, a colon, and why, if it does not work and you do not know how to continue.
`
	endPlan = `
## If you cannot plan

Nobody answers during this session, but a person can answer before the next one. Ask only where the plan leaves open
what is wanted, the repository does not tell either, and a wrong assumption would cost more than the wait. Then write
no task, and end your last message with a line of its own: the word RALPH_RESULT and a colon, the word blocked and a
colon, and on the same line what you have to know, one to three questions, in the language of the plan. In all other
cases make the most sensible assumption and plan.
`
	endVerify = `
## How to end

Answer in your last message, one line for each criterion: its number and a full stop, then yes or no, a colon, and
the evidence or what is missing. Then add a line of its own: the word RALPH_VERIFY and a colon, followed either by
agreed, if every answer is a yes, or by not agreed, a colon, and what has to be done, in one or two sentences.
`
)

// ending says how the call has to end, "" where it may end as it likes.
func (p page) ending() string {
	switch {
	case p.Builds() && p.Promise != "":
		return fmt.Sprintf(endPromise, p.withoutNonce(name(p.Promise)))
	case p.Builds():
		return endBuild
	case p.Verifies():
		return endVerify
	case p.Plans() && p.MayAsk:
		return endPlan
	}
	return ""
}
