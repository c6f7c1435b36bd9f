package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Headline is one line on where the run is, with a sign in front and without a
// full stop.
func (v View) Headline() string { return v.sign() + " " + v.State() }

func (v View) sign() string {
	switch {
	case v.End.Complete():
		return "✅"
	case v.End == run.EndFailed || v.End == run.EndBlocked || v.End == run.EndStagnated:
		return "❌"
	case v.End != "" || v.Phase.Terminal() || v.Phase == run.PhaseAwaitingPerson:
		return "⏸️"
	default:
		return "🔄"
	}
}

// State is one line on where the run is, without a full stop. It is made of our
// own words alone.
func (v View) State() string {
	switch {
	case v.End != "":
		return v.Proof.Sentence(v.End)
	case v.Waits != "":
		// Nobody writes this again when the wait is over: so it says of when it is.
		return fmt.Sprintf("Waiting since %s: %s", v.WaitsSince.UTC().Format("15:04 UTC on January 2"), v.Waits)
	}
	switch v.Phase {
	case run.PhaseQueued, run.PhasePreparing:
		return "Preparing"
	case run.PhasePlanning:
		return "Planning"
	case run.PhaseAwaitingPerson:
		return "Waiting for a person"
	case run.PhaseFinishing:
		return "Running the final checks"
	case run.PhaseIterating, run.PhaseDone, run.PhasePaused, run.PhaseFailed, run.PhaseCancelled:
		return "Working"
	default:
		return "Working"
	}
}

// Label is how texts name the label that starts runs; "" stands for the usual
// one.
func Label(name string) string { return Code(nil, cmp.Or(name, "ralph")) }

// GoOn says how to go on after a run that did not finish the work.
func (v View) GoOn() string {
	label := Label(v.Label)
	again := fmt.Sprintf("comment `/ralph resume`, or remove the label %s from #%d and add it again", label, v.IssueNumber)
	switch v.End {
	case run.EndPlanned:
		return fmt.Sprintf("To start work on the plan, comment `/ralph approve`, or remove the label %s from #%d and "+
			"add it again.", label, v.IssueNumber)
	case run.EndAwaitingPerson:
		if len(v.Questions) == 0 && slices.ContainsFunc(v.Tasks,
			func(t run.Task) bool { return t.Status == run.TaskBlocked }) {
			return fmt.Sprintf("Add what the blocked tasks need to the tasks in `.ralph/%d/progress.md` on the branch, then "+
				"comment `/ralph retry`.", v.IssueNumber)
		}
		if len(v.Questions) == 0 {
			return fmt.Sprintf("You need to decide. Write your decision into the tasks in `.ralph/%d/progress.md` on "+
				"the branch, then %s.", v.IssueNumber, again)
		}
		return fmt.Sprintf("Answer the questions in comments on #%d and comment `/ralph start`. Or answer them in "+
			"the description, then remove the label %s and add it again.", v.IssueNumber, label)
	case run.EndBlocked, run.EndStagnated:
		const clearer = "clearer (smaller steps, an example, a pointer to the code), then comment"
		if len(v.Commits) == 0 && v.PullNumber == 0 { // there is no branch with the tasks
			return fmt.Sprintf("To continue, make #%d %s `/ralph start`, or remove the label %s and add it again.",
				v.IssueNumber, clearer, label)
		}
		return fmt.Sprintf("To continue, make the tasks in `.ralph/%d/progress.md` on the branch %s `/ralph retry`, "+
			"which gives every blocked task new attempts.", v.IssueNumber, clearer)
	case run.EndFailed:
		return fmt.Sprintf("Fix the cause, then %s.", again)
	case run.EndMaxIterations, run.EndDeadline, run.EndBudgetExhausted, run.EndSingleIteration, run.EndCancelled,
		run.EndAllTasksComplete:
		return fmt.Sprintf("Nothing is lost. To continue, %s.", again)
	default:
		return fmt.Sprintf("To continue, %s.", again)
	}
}

// steer says what people can do, and closes the issue where the work is done.
func (r *renderer) steer() string {
	var s section
	v := r.v
	s.line("\n---\n")
	switch {
	case v.End.Complete() && v.ByJob:
		s.line("The work on #%d is ready for review. To request changes, review this pull request or comment "+
			"`/ralph do <text>`; this needs the whole workflow of the Action in this repository, with reviews and comments.", v.IssueNumber)
	case v.End == "" && v.ByJob:
		s.line("I keep this description of the work on #%d up to date. To stop the run, remove the label %s from the "+
			"issue or close the issue; finished work stays on this branch.", v.IssueNumber, Label(v.Label))
	case v.End.Complete():
		s.line("The work on #%d is ready for review. To request changes, review this pull request or comment "+
			"`/ralph do <text>`. `/ralph help` lists all commands.", v.IssueNumber)
	case v.End != "":
		s.line("%s", v.GoOn())
	default:
		s.line("I keep this description of the work on #%d up to date. To stop the run, comment `/ralph stop`, "+
			"remove the label %s from the issue, or close the issue; finished work stays on this branch. "+
			"`/ralph help` lists all commands.", v.IssueNumber, Label(v.Label))
	}
	if v.Closes && v.End.Complete() {
		s.line("\nCloses #%d", v.IssueNumber)
	}
	return s.text()
}

// WelcomeText explains to people who have not met the bot before what will
// happen, on which branch. planned says that the issue has tasks already.
func WelcomeText(branch string, planned bool, label string) string {
	tasks := "First, an agent reads the code and writes a plan: a list of tasks."
	if planned {
		tasks = "The check boxes in this issue are the tasks."
	}
	return fmt.Sprintf("**I'm on it.** This is my first issue in this repository, so here is how I work:\n\n"+
		"- %s A fresh agent works on each task, one task at a time. I run this repository's checks on each result; "+
		"if they pass, the result becomes one commit on `%s`.\n"+
		"- With the first commit I open a draft pull request that shows the progress. When all tasks are done, I "+
		"mark it ready for review. I never merge: you do.\n"+
		"- Changes you request in a review become tasks, too. To stop me, comment `/ralph stop` or remove the label "+
		"%s. `/ralph help` lists all commands for people with write access.\n"+
		"- I work from the title and description as they were when the label was added.", tasks, branch, Label(label))
}

// EndedText says how a run ended and how to go on. pr is the number of its pull
// request, 0 for none.
func EndedText(v View, pr int) string {
	const maxEndedFindings = 20

	done, total := progress.Counts(v.Tasks)
	var b strings.Builder
	fmt.Fprintf(&b, "**%s.**", v.Headline())
	if total > 0 {
		fmt.Fprintf(&b, " %d of %d tasks are done.", done, total)
	}
	if pr > 0 {
		fmt.Fprintf(&b, " The work is in #%d.", pr)
	}
	if note := Speak(v.Mask, v.Note, 1000); note != "" {
		fmt.Fprintf(&b, "\n\n> %s", note)
	}
	if account := Account(v.Mask, v.Diagnostics, 5000); pr == 0 && account != "" {
		b.WriteString("\n\n" + account) // otherwise the pull request has it
	}
	if pr == 0 && len(v.Findings) > 0 { // it lists these, too
		b.WriteString("\n")
		for _, finding := range v.Findings[:min(len(v.Findings), maxEndedFindings)] {
			b.WriteString("\n- " + Speak(v.Mask, finding, 300))
		}
	}
	if !v.End.Complete() {
		b.WriteString("\n\n" + v.GoOn())
	}
	return b.String()
}

// RefusalText tells login, whose role in the repository is role, what is
// missing.
func RefusalText(login, role, label string) string {
	return fmt.Sprintf("**Ralph did not start.** %s. Starting a run requires write access (write, maintain or "+
		"admin).\n\nTo start one, someone with write access can remove the label %s and add it again.",
		hasRole(login, role), Label(label))
}

// questionsHead is how questions begin.
const questionsHead = "**Ralph has questions before it starts.**"

// QuestionsText asks what has to be known before the issue can be worked, in an agent's
// words, and how much of it was hidden: people do write their answers into the comments
// of a template.
func QuestionsText(mask func(string) string, questions []string, removed int, label string) string {
	var b strings.Builder
	b.WriteString(questionsHead + " The agent that was to plan has to know this first:\n\n")
	for i, q := range questions {
		fmt.Fprintf(&b, "%d. %s\n", i+1, Speak(mask, q, maxTaskText))
	}
	if removed > 0 {
		fmt.Fprintf(&b, "\nI did not read the text that GitHub hides: %s.\n", strs.Count(removed, "character"))
	}
	b.WriteString("\nAnswer in comments, then comment `/ralph plan` or `/ralph start`. I read answers from people with write access, and ignore later edits to them. " +
		"Or answer in the title or description, or add a task list there (`- [ ] …`), which I use as the plan unchanged; " +
		"then remove the label " + Label(label) + " and add it again.\n\n" +
		"<sub>To turn these questions off, set `plan: {ask: never}` in `.github/ralph.yml`.</sub>")
	return b.String()
}

// EmptyBodyText asks for a description.
func EmptyBodyText(label string) string {
	return "**Ralph needs a description.** This issue's description is empty.\n\n" +
		"Describe what should change and how to tell that it is done. If you add a task list (`- [ ] …`), I use it " +
		"as the plan unchanged. Then remove the label " + Label(label) + " and add it again."
}

// LockedText says that a locked issue starts nothing.
func LockedText(label string) string {
	return "**Ralph did not start.** This issue is locked. To start, unlock it, remove the label " + Label(label) +
		" and add it again."
}

// WaitingText says why nothing happens for a while.
func WaitingText(d loop.Delayed) string {
	why := Speak(nil, d.Why, 500)
	switch {
	case d.Queued:
		return "**Waiting for my turn.** " + why + ". I start by myself, and no attempt is used."
	case !d.GivesUp.IsZero():
		return "**I cannot go on at the moment:** " + why + ". I try again until about " +
			d.GivesUp.UTC().Format("15:04 UTC on 2 January") + ", then the run ends. No attempt is used."
	}
	return "**Waiting for the server.** Something is wrong there, and not with this task: " + why +
		". I go on by myself once that is fixed, and no attempt is used."
}

// NoPullRequestText says why a run that ends for another reason has no pull request
// to show.
func NoPullRequestText(mask func(string) string, why string) string {
	return "**I could not open a pull request.** " + Speak(mask, why, 1000) + "."
}

// PlanText is the plan as it is posted for approval.
func PlanText(v View, hash string) string {
	var b strings.Builder
	b.WriteString("**Here is the plan.** No code was changed.\n\n")
	group := ""
	for i, t := range v.Tasks {
		if b.Len() > maxPlanText {
			fmt.Fprintf(&b, "\n… and %d more tasks in `.ralph/%d/progress.md` on `%s`.\n", len(v.Tasks)-i, v.IssueNumber,
				v.Branch)
			break
		}
		if name := Speak(v.Mask, t.Group, maxTaskText); name != group && name != "" {
			group = name
			fmt.Fprintf(&b, "\n**%s**\n\n", name)
		}
		box := " "
		if t.Status == run.TaskDone {
			box = "x"
		}
		fmt.Fprintf(&b, "- [%s] %s %s\n", box, t.ID, Speak(v.Mask, t.Title, maxTaskText))
		for _, a := range t.Accept {
			fmt.Fprintf(&b, "  - Accept: %s\n", Speak(v.Mask, a, maxTaskText))
		}
		for _, c := range t.Checks { // whole: who approves the plan approves that it is run
			fmt.Fprintf(&b, "  - Verify: %s\n", Speak(v.Mask, "`"+c+"`", 2*maxTaskText))
		}
	}
	short := hash[:min(len(hash), hashDigits)]
	fmt.Fprintf(&b, "\nPlan `%s`. To approve it and start the work, comment `/ralph approve` (or `/ralph approve %s`). "+
		"To change it, edit `.ralph/%d/progress.md` on the branch `%s` or rewrite the issue, then comment "+
		"`/ralph plan` to get a new plan. "+
		"If you edit this comment or tick its boxes, the plan can no longer be approved.\n", short, short, v.IssueNumber,
		v.Branch)
	return b.String()
}

// StatusText says how a run stands, in answer to a person.
func StatusText(v View, pr int) string {
	done, total := progress.Counts(v.Tasks)
	var b strings.Builder
	fmt.Fprintf(&b, "**%s.**", v.Headline())
	if total > 0 {
		fmt.Fprintf(&b, " %d of %d tasks are done, after %d iterations", done, total, v.Iteration)
		if v.CostUSD > 0 {
			fmt.Fprintf(&b, " and $%.2f", v.CostUSD)
		}
		b.WriteString(".")
	}
	if pr > 0 {
		fmt.Fprintf(&b, " The work is in #%d.", pr)
	}
	for _, t := range v.Tasks {
		if t.Status == run.TaskInProgress || t.Status == run.TaskInReview || t.Status == run.TaskBlocked {
			fmt.Fprintf(&b, "\n- %s %s: %s", t.ID, statusWord(t.Status), Speak(v.Mask, t.Title, maxTaskText))
		}
		if b.Len() > maxPlanText {
			break
		}
	}
	if v.End != "" && !v.End.Complete() {
		b.WriteString("\n\n" + v.GoOn())
	}
	return b.String()
}

func statusWord(s run.TaskStatus) string {
	switch s { //nolint:exhaustive // the others are not shown
	case run.TaskInProgress:
		return "is in progress"
	case run.TaskInReview:
		return "is being checked"
	default:
		return "is blocked"
	}
}

// Usage is a command as HelpText lists it.
type Usage struct{ Form, Does string }

// HelpText lists what people can say to the bot.
func HelpText(usages []Usage, label string) string {
	var b strings.Builder
	b.WriteString("**Commands I understand.** People with write access can use them as the first line of a comment, " +
		"here or on the pull request:\n\n| | |\n| --- | --- |\n")
	for _, u := range usages {
		fmt.Fprintf(&b, "| `%s` | %s |\n", u.Form, u.Does)
	}
	b.WriteString("\nRemoving the label " + Label(label) + " or closing the issue also stops a run.")
	return b.String()
}

// AnswerText answers one person, in our own words; answer may hold code spans.
func AnswerText(login, answer string) string {
	return Code(nil, login) + ": " + answer
}

// CannotAskText says that nothing was started because GitHub would not tell what
// the person may do.
func CannotAskText(login string) string {
	return fmt.Sprintf("**Ralph did nothing.** GitHub did not say whether %s has write access to this repository, so "+
		"I refused the request. "+
		"Try again in a few minutes. If this keeps happening, ask whoever installed the App to check its permissions.",
		Code(nil, login))
}

// BotRefusalText says that bots may not ask for runs.
func BotRefusalText(login, label string) string {
	return fmt.Sprintf("**Ralph did not start.** %s is a bot, and this server does not accept requests from it. "+
		"Someone with write access can remove the label %s and add it again. To accept requests from this bot, add "+
		"it to `people.bots` on the server.", Code(nil, login), Label(label))
}

// AuthorRefusalText says that the text of an issue is by somebody who may not.
func AuthorRefusalText(bot, author, label string) string {
	return fmt.Sprintf("**Ralph did not start.** %s requested the run, but %s wrote the text and has no write access "+
		"to this repository. "+
		"Someone with write access can read the text, remove the label %s and add it again.", Code(nil, bot),
		Code(nil, author), Label(label))
}

// CommandRefusalText says why a person's command is not followed.
func CommandRefusalText(login, role string) string {
	return "Commands require write access (write, maintain or admin): " + hasRole(login, role) +
		". I won't repeat this answer here."
}

// hasRole says what role somebody has.
func hasRole(login, role string) string {
	if role = Code(nil, role); role != "" && role != "`none`" {
		return Code(nil, login) + " has the role " + role + " in this repository"
	}
	return Code(nil, login) + " has no role in this repository"
}

// EditedText says that the text of an issue is no longer what a run works on.
func EditedText(issue int, label string) string {
	return fmt.Sprintf("**The description was edited.** This run continues with the text as it was when the run was requested. "+
		"To use the new text, comment `/ralph stop` and then `/ralph start`, or remove the label %s from #%d and "+
		"add it again.", Label(label), issue)
}

// WithdrawnText says that a comment was changed before it was acted on.
func WithdrawnText(login string) string {
	return AnswerText(login, "your comment changed before I acted on it, so I ignored it. If you still want this, "+
		"write a new comment.")
}

// TooManyText says that a limit is reached.
func TooManyText(what string) string {
	return "**Too many requests.** " + what + " I accept requests again in an hour. Please check whether this is intended."
}

// DisputeText asks people to decide between two conversations, whose addresses
// are given, about the same lines.
func DisputeText(mask func(string) string, where, one, other string) string {
	return fmt.Sprintf("**Two conversations ask for different changes** to %s: [this one](%s) and [that one](%s). I "+
		"changed nothing. "+
		"Resolve one of them, or comment `/ralph do` in the one you want me to follow.", Code(mask, where), one, other)
}

// AgainText says that one conversation has come back too often.
func AgainText(url string, rounds int) string {
	return fmt.Sprintf("**Please look at [this conversation](%s).** I worked on it %d times and it is still open. "+
		"To have me try again, comment `/ralph do` in it and say exactly what you want.", url, rounds)
}

// RoundsText says that bots and checks alone have kept the bot at work.
func RoundsText(rounds int) string {
	return fmt.Sprintf("**Waiting for a person.** I fixed findings of bots and checks %d times in a row, and they "+
		"found something again. "+
		"To continue, someone with write access can review the pull request or comment `/ralph do <text>`.", rounds)
}

// KeptText says that a review has to wait, because its run has ended short.
func KeptText(end run.EndReason) string {
	return fmt.Sprintf("I saved your review, but the run has ended (%s). Comment `/ralph resume` to continue it with "+
		"your review.", end.Sentence())
}

// AnswerThreadText says which commit did what was asked for, and what it changed.
func AnswerThreadText(mask func(string) string, a Answer) string {
	text := fmt.Sprintf("Done in [`%s`](%s/commit/%s)", a.OID[:min(len(a.OID), 7)], a.RepoURL, a.OID)
	if task := Speak(mask, a.TaskID, 20); task != "" {
		text += ", as " + task
	}
	if did := Speak(mask, a.Did, maxDid); did != "" {
		text += ": " + did
	}
	return text + "."
}

// explainNotOpened is why there is no pull request, in words for people where only they can fix
// it. Work that has landed is on the branch; "" is none yet.
func (p *Publisher) explainNotOpened(ctx context.Context, branch string, err error) error {
	class, _ := ghapp.Classify(err)
	work := ""
	if branch != "" {
		work = fmt.Sprintf("; the work so far is on the branch `%s`", branch)
	}
	switch {
	case errors.Is(err, ghapp.ErrExists):
		return &run.UserError{
			Message: fmt.Sprintf("somebody else already opened a pull request from the branch `%s`", branch),
			Hint:    "close it; or, if your other Ralph App or Action opened it, add its author to pull_requests_of", Err: err,
		}
	case ghapp.ActionsRefused(err):
		return &run.UserError{
			Message: "GitHub does not allow workflows to open pull requests here" + work,
			Hint: "in Settings → Actions → General, tick \"Allow GitHub Actions to create and approve pull requests\" " +
				"(an organisation's setting overrides the repository's)", Err: err,
		}
	case class == ghapp.Forbidden:
		return &run.UserError{
			Message: fmt.Sprintf("GitHub does not let me open pull requests here%s: %v", work, err),
			Hint:    "usually write permission for pull requests is missing; a workflow job gets it with pull-requests: write",
			Err:     err,
		}
	case class == ghapp.Invalid:
		if _, gone := p.GitHub.Branch(ctx, p.BaseBranch); errors.Is(gone, ghapp.ErrNotFound) {
			return &run.UserError{
				Message: fmt.Sprintf("the branch `%s`, which the pull request would go into, was deleted or renamed%s",
					p.BaseBranch, work),
				Hint: "comment `/ralph resume`, and I go on from there into the branch that is then the base", Err: err,
			}
		}
	}
	return err
}

// explainNotLanded is why something did not land, in the words of the loop.
func explainNotLanded(err error) error {
	if _, ok := errors.AsType[*run.UserError](err); ok || !ghapp.Refused(err) {
		return err
	}
	return &loop.Halt{Reason: run.EndAwaitingPerson,
		Detail: fmt.Sprintf("GitHub does not let the App commit here; the branch was not moved: %v", err)}
}

// explainNoBranch is why GitHub does not make the branch, where another branch is in its way.
func (p *Publisher) explainNoBranch(ctx context.Context, failed error) error {
	for i, c := range p.Branch {
		if c != '/' {
			continue
		}
		if _, err := p.GitHub.Branch(ctx, p.Branch[:i]); err == nil {
			return &run.UserError{
				Message: fmt.Sprintf("the branch `%s` cannot be made, since there is a branch `%s`", p.Branch, p.Branch[:i]),
				Hint:    fmt.Sprintf("rename or delete the branch `%s`", p.Branch[:i]), Err: failed,
			}
		}
	}
	return failed
}
