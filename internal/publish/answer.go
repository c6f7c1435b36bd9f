package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

const (
	// maxPlanText keeps a posted plan well below what GitHub takes for a comment.
	maxPlanText = 50_000
	// maxTaskText bounds what is shown of one line of a plan.
	maxTaskText = 1000
	// hashDigits is how much of a plan's hash people are shown.
	hashDigits = 12
)

// planOccasion is what a plan's comment is said for: once per run and plan.
func planOccasion(hash string) string { return "plan:" + hash }

// CommentPlan posts the plan that hash names, for people to approve. What the
// comment said is kept, so that an edited one can be told from it.
func (p *Publisher) CommentPlan(ctx context.Context, v View, hash string) (url string, err error) {
	return p.Comment(ctx, planOccasion(hash), PlanText(p.fill(v), hash))
}

var (
	// ErrPlanEdited: the comment with the plan does not say what was posted.
	ErrPlanEdited = errors.New("publish: the posted plan was edited or deleted")
	// ErrNoPlan: no plan was posted.
	ErrNoPlan = errors.New("publish: no plan was posted")
)

// PlanPosted asks GitHub whether the plan of the run that hash names still
// stands as it was posted: ErrPlanEdited if it does not, ErrNoPlan where none
// was posted.
func (p *Publisher) PlanPosted(ctx context.Context, hash string) error {
	rec, ok, err := effects.Result[commentRecord](ctx, p.Effects,
		effects.Comment(p.Run, p.GitHub.FullName(), p.Issue, planOccasion(hash)))
	switch {
	case err != nil:
		return err
	case !ok:
		return ErrNoPlan
	default:
		return p.stands(ctx, rec)
	}
}

// FindPlan looks for the comment in which an earlier run, of which the store
// knows nothing, posted the plan that hash names, and keeps it as the run's own:
// ErrNoPlan where none says, word for word, what would be posted now.
func (p *Publisher) FindPlan(ctx context.Context, v View, hash string) error {
	comments, err := p.GitHub.Comments(ctx, p.Issue)
	if err != nil {
		return err
	}
	posted := textHash(PlanText(p.fill(v), hash))
	for _, c := range slices.Backward(comments) {
		// The mark of the earlier run is not known, but that nothing follows it is.
		text, mark, ok := strings.Cut(strings.TrimSpace(c.Body), saidMarker)
		if !ok || textHash(text) != posted || !markRest().MatchString(mark) {
			continue
		}
		if ours, err := p.GitHub.Ours(ctx, c.Author); err != nil || !ours {
			if err != nil {
				return err
			}
			continue
		}
		rec := commentRecord{ID: c.ID, URL: c.URL, SHA256: textHash(c.Body)}
		_, err := effects.Do(ctx, p.Effects, effects.Comment(p.Run, p.GitHub.FullName(), p.Issue, planOccasion(hash)), nil,
			func(context.Context) (commentRecord, bool, error) { return rec, true, nil },
			func(context.Context) (commentRecord, error) { return rec, nil })
		return err
	}
	return ErrNoPlan
}

// ErrNoQuestions: nothing was asked on the issue.
var ErrNoQuestions = errors.New("publish: no questions were asked")

// questionRE finds the questions in what was posted.
var questionRE = strs.Lazy(`(?m)^[0-9]{1,2}\. (.+)$`)

// FindQuestions looks for the questions that an earlier run, of which the store
// knows nothing, asked last on the issue, and for what was said below them;
// ErrNoQuestions where there are none. Comments that were edited are left out:
// what they said when they were written is not known any more.
func (p *Publisher) FindQuestions(ctx context.Context) (questions []string, said []ghapp.Comment, err error) {
	comments, err := p.GitHub.Comments(ctx, p.Issue)
	if err != nil {
		return nil, nil, err
	}
	for i, c := range slices.Backward(comments) {
		text, mark, ok := strings.Cut(strings.TrimSpace(c.Body), saidMarker)
		if !ok || !strings.HasPrefix(text, questionsHead) || !markRest().MatchString(mark) {
			continue
		}
		ours, err := p.GitHub.Ours(ctx, c.Author)
		if err != nil {
			return nil, nil, err
		}
		if !ours {
			continue
		}
		for _, m := range questionRE().FindAllStringSubmatch(text, -1) {
			questions = append(questions, m[1])
		}
		if len(questions) == 0 {
			return nil, nil, ErrNoQuestions // somebody has edited it
		}
		said = slices.DeleteFunc(comments[i+1:], func(c ghapp.Comment) bool { return c.Edited })
		return questions, said, nil
	}
	return nil, nil, ErrNoQuestions
}

func (p *Publisher) stands(ctx context.Context, rec commentRecord) error {
	now, err := p.GitHub.CommentByID(ctx, rec.ID)
	if errors.Is(err, ghapp.ErrNotFound) {
		return fmt.Errorf("%w: it is gone", ErrPlanEdited)
	}
	if err != nil {
		return err
	}
	ours, err := p.GitHub.Ours(ctx, now.Author)
	if err != nil {
		return err
	}
	if !ours || textHash(now.Body) != rec.SHA256 {
		return ErrPlanEdited
	}
	return nil
}

// textHash is the hash of a text as GitHub gives it back, whose line ends it may
// have changed.
func textHash(text string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))))
	return hex.EncodeToString(sum[:])
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
	has := "has no role in this repository"
	if role = Code(nil, role); role != "" && role != "`none`" {
		has = "has the role " + role + " in this repository"
	}
	return fmt.Sprintf("Commands require write access (write, maintain or admin): %s %s. I won't repeat this answer here.",
		Code(nil, login), has)
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
