package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/publish/effects"
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
func (p *Publisher) FindQuestions(
	ctx context.Context,
) (questions []string, at time.Time, said []ghapp.Comment, err error) {
	comments, err := p.GitHub.Comments(ctx, p.Issue)
	if err != nil {
		return nil, at, nil, err
	}
	for i, c := range slices.Backward(comments) {
		text, mark, ok := strings.Cut(strings.TrimSpace(c.Body), saidMarker)
		if !ok || !strings.HasPrefix(text, questionsHead) || !markRest().MatchString(mark) {
			continue
		}
		ours, err := p.GitHub.Ours(ctx, c.Author)
		if err != nil {
			return nil, at, nil, err
		}
		if !ours {
			continue
		}
		for _, m := range questionRE().FindAllStringSubmatch(text, -1) {
			questions = append(questions, m[1])
		}
		if len(questions) == 0 {
			return nil, at, nil, ErrNoQuestions // somebody has edited it
		}
		said = slices.DeleteFunc(comments[i+1:], func(c ghapp.Comment) bool { return c.Edited })
		return questions, c.CreatedAt, said, nil
	}
	return nil, at, nil, ErrNoQuestions
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
