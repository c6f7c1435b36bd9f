package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// reactionTime is how long a reaction may take: nothing depends on it.
const reactionTime = 5 * time.Second

// React shows on the issue that the run has been taken up. It is tried once; the error is that
// of a limit, which holds for all that follows, too.
func (p *Publisher) React(ctx context.Context, content string) error {
	ctx, cancel := context.WithTimeout(ghapp.WithPurpose(ctx, "reaction"), reactionTime)
	defer cancel()
	err := p.GitHub.React(ctx, p.Issue, content)
	if class, _ := ghapp.Classify(err); class == ghapp.RateLimited {
		return err
	}
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("a reaction was not made")
	}
	return nil
}

// AddLabel puts a label on the issue, once per run: a person who takes it off is not
// overruled.
func (p *Publisher) AddLabel(ctx context.Context, label string) error {
	_, err := effects.Do(ctx, p.Effects, effects.Label(p.Run, p.GitHub.FullName(), p.Issue, label), nil,
		func(context.Context) (struct{}, bool, error) { return struct{}{}, false, nil }, // adding it again changes nothing
		func(ctx context.Context) (struct{}, error) {
			return struct{}{}, p.GitHub.AddLabels(ghapp.WithPurpose(ctx, "label"), p.Issue, label)
		})
	return err
}

type commentRecord struct {
	ID  int64  `json:"id"`
	URL string `json:"url"`
	// Node is its node id.
	Node string `json:"node,omitempty"`
	// SHA256 is the hash of the whole text as it was said; see textHash.
	SHA256 string `json:"sha256,omitempty"`
}

// occasionEnded is the end of a run.
const occasionEnded = "ended"

// saidMarker begins the mark by which a comment is found again.
const saidMarker = "<!-- ralph:said:"

// markRest matches what follows saidMarker.
var markRest = strs.Lazy(`^[0-9a-f]{24} -->$`)

// Comment writes a comment on the issue, once per run and occasion, and returns its
// address. The text is Markdown of our own: outside text in it must have gone
// through Speak.
func (p *Publisher) Comment(ctx context.Context, occasion, text string) (url string, err error) {
	return p.commentOn(ctx, p.Issue, occasion, text)
}

// commentOn is Comment on the issue or pull request of a number.
func (p *Publisher) commentOn(ctx context.Context, number int, occasion, text string) (url string, err error) {
	ctx = ghapp.WithPurpose(ctx, "comment")
	key := effects.Comment(p.Run, p.GitHub.FullName(), number, occasion)
	marker := p.marker(number, occasion)
	body := text + "\n\n" + marker
	hash := textHash(body)
	rec, err := effects.Do(ctx, p.Effects, key, nil,
		func(ctx context.Context) (commentRecord, bool, error) {
			c, err := p.GitHub.FindComment(ctx, number, marker)
			if errors.Is(err, ghapp.ErrNotFound) {
				return commentRecord{}, false, nil
			}
			return commentRecord{ID: c.ID, URL: c.URL, Node: c.NodeID, SHA256: hash}, err == nil, err
		},
		func(ctx context.Context) (commentRecord, error) {
			c, err := p.GitHub.Comment(ctx, number, body)
			return commentRecord{ID: c.ID, URL: c.URL, Node: c.NodeID, SHA256: hash}, err
		})
	return rec.URL, err
}

// marker is the mark by which what was said on an occasion is found again.
func (p *Publisher) marker(number int, occasion string) string {
	return saidMark(effects.Comment(p.Run, p.GitHub.FullName(), number, occasion))
}

// saidMark is the mark that ends what is said as an effect.
func saidMark(key effects.Key) string {
	digest := sha256.Sum256([]byte(key.String()))
	return saidMarker + hex.EncodeToString(digest[:12]) + " -->"
}

// CommentQuestions asks what has to be known before the issue can be worked.
func (p *Publisher) CommentQuestions(ctx context.Context, questions []string, removed int) (url string, err error) {
	return p.Comment(ctx, "questions", QuestionsText(p.Mask.Mask, questions, removed, p.Label))
}

// CommentEnded says how the run ended. pr is the number of its pull request, 0
// for none. What several runs of the issue end for is said once, where cause
// names it.
func (p *Publisher) CommentEnded(ctx context.Context, v View, pr int, cause string) (url string, err error) {
	text := EndedText(p.fill(v), pr)
	if cause == "" {
		return p.Comment(ctx, occasionEnded, text)
	}
	all := *p
	all.Run = ""
	// Another door may have said it, of which no effect is known here.
	c, err := p.GitHub.FindComment(ghapp.WithPurpose(ctx, "comment"), p.Issue, all.marker(p.Issue, cause))
	if err == nil || !errors.Is(err, ghapp.ErrNotFound) {
		return c.URL, err
	}
	return all.Comment(ctx, cause, text)
}

// FoldEnded folds away what an earlier run of the issue has said of its end,
// once per run: a person who opens it again is not overruled. Nothing else
// depends on it.
func (p *Publisher) FoldEnded(ctx context.Context, earlier run.ID) error {
	said, ok, err := effects.Result[commentRecord](ctx, p.Effects,
		effects.Comment(earlier, p.GitHub.FullName(), p.Issue, occasionEnded))
	if err != nil || !ok || said.Node == "" {
		return err
	}
	_, err = effects.Do(ctx, p.Effects, effects.Fold(p.Run, p.GitHub.FullName(), said.ID), nil,
		func(context.Context) (struct{}, bool, error) { return struct{}{}, false, nil }, // folding it again changes nothing
		func(ctx context.Context) (struct{}, error) {
			return struct{}{}, p.GitHub.FoldComment(ghapp.WithPurpose(ctx, "comment"), said.Node)
		})
	return err
}

// RefusalText tells login, whose role in the repository is role, what is
// missing.
func RefusalText(login, role, label string) string {
	has := "has no role in this repository"
	if role = Code((*redact.Masker)(nil).Mask, role); role != "" && role != "`none`" {
		has = "has the role " + role + " in this repository"
	}
	return fmt.Sprintf("**Ralph did not start.** %s %s. Starting a run requires write access (write, maintain or "+
		"admin).\n\nTo start one, someone with write access can remove the label %s and add it again.",
		Code((*redact.Masker)(nil).Mask, login), has, Label(label))
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
func WaitingText(why string, queued bool) string {
	if queued {
		return "**Waiting for my turn.** " + Speak(nil, why, 500) + ". I start by myself, and no attempt is used."
	}
	return "**Waiting for the server.** Something is wrong there, and not with this task: " + Speak(nil, why, 500) +
		". I go on by myself once that is fixed, and no attempt is used."
}

// NoPullRequestText says why a run that ends for another reason has no pull request
// to show.
func NoPullRequestText(mask func(string) string, why string) string {
	return "**I could not open a pull request.** " + Speak(mask, why, 1000) + "."
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
