package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/strs"
)

// reactionTime is how long a reaction may take: nothing depends on it.
const reactionTime = 5 * time.Second

// React shows on the issue that the run has been taken up. The error is that
// of a limit, which holds for all that follows, too.
func (p *Publisher) React(ctx context.Context, content string) error {
	err := react(ctx, func(ctx context.Context) error { return p.GitHub.React(ctx, p.Issue, content) })
	if class, _ := ghapp.Classify(err); class == ghapp.RateLimited {
		return err
	}
	return nil
}

// react makes a reaction. It is tried once.
func react(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ghapp.WithPurpose(ctx, "reaction"), reactionTime)
	defer cancel()
	err := do(ctx)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("a reaction was not made")
	}
	return err
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
	ctx = ghapp.WithPurpose(ctx, "comment")
	key := effects.Comment(p.Run, p.GitHub.FullName(), p.Issue, occasion)
	marker := saidMark(key)
	body := text + "\n\n" + marker
	hash := textHash(body)
	rec, err := effects.Do(ctx, p.Effects, key, nil,
		func(ctx context.Context) (commentRecord, bool, error) {
			c, err := p.GitHub.FindComment(ctx, p.Issue, marker)
			if errors.Is(err, ghapp.ErrNotFound) {
				return commentRecord{}, false, nil
			}
			return commentRecord{ID: c.ID, URL: c.URL, SHA256: hash}, err == nil, err
		},
		func(ctx context.Context) (commentRecord, error) {
			c, err := p.GitHub.Comment(ctx, p.Issue, body)
			return commentRecord{ID: c.ID, URL: c.URL, SHA256: hash}, err
		})
	return rec.URL, err
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
	c, err := p.GitHub.FindComment(ghapp.WithPurpose(ctx, "comment"), p.Issue, saidMark(effects.Comment("", p.GitHub.FullName(), p.Issue, cause)))
	if err == nil || !errors.Is(err, ghapp.ErrNotFound) {
		return c.URL, err
	}
	return all.Comment(ctx, cause, text)
}
