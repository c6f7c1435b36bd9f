package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/effects"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/progress/island"
)

// Answer is what a commit did for a conversation on a pull request's lines.
type Answer struct {
	// Thread is its node id, Comment the comment that opened it.
	Thread  string
	Comment int64
	TaskID  string
	OID     string
	// Did says what the commit changed.
	Did string
	// RepoURL is the repository's page.
	RepoURL string
}

// maxDid bounds what an answer says of a commit, in bytes.
const maxDid = 600

// Answer says in a conversation what was done, once for each commit, and resolves
// it. That GitHub lets us do neither is logged, and no reason to try again.
func (p *Publisher) Answer(ctx context.Context, number int, a Answer) error {
	ctx = ghapp.WithPurpose(ctx, "thread")
	key := effects.Reply(p.GitHub.FullName(), number, a.Comment, a.OID)
	digest := sha256.Sum256([]byte(key.String()))
	marker := "<!-- ralph:said:" + hex.EncodeToString(digest[:12]) + " -->"
	said := false // before this call
	_, err := effects.Do(ctx, p.Effects, key, nil,
		func(ctx context.Context) (commentRecord, bool, error) {
			c, err := p.GitHub.FindReply(ctx, number, marker)
			if errors.Is(err, ghapp.ErrNotFound) {
				return commentRecord{}, false, nil
			}
			said = err == nil
			return commentRecord{ID: c.ID, URL: c.URL}, err == nil, err
		},
		func(ctx context.Context) (commentRecord, error) {
			id, url, err := p.GitHub.ReplyInThread(ctx, number, a.Comment, AnswerThreadText(p.Mask.Mask, a)+"\n\n"+marker)
			return commentRecord{ID: id, URL: url}, soft(ctx, "a reply was not written", err)
		})
	if err != nil {
		return err
	}
	_, err = effects.Do(ctx, p.Effects, effects.Resolve(p.GitHub.FullName(), number, a.Comment, a.OID), nil,
		func(context.Context) (struct{}, bool, error) {
			// Resolving it again changes nothing. But where another process has
			// answered, it has resolved it, too, and a person may have opened it since.
			return struct{}{}, said, nil
		},
		func(ctx context.Context) (struct{}, error) {
			return struct{}{}, soft(ctx, "a conversation was not resolved", p.GitHub.ResolveThread(ctx, a.Thread))
		})
	return err
}

// soft lets GitHub's refusal pass with a word in the log.
func soft(ctx context.Context, what string, err error) error {
	if err == nil || !ghapp.Denied(err) {
		return err
	}
	zerolog.Ctx(ctx).Warn().Err(err).Msg(what)
	return nil
}

// AnswerThreadText says which commit did what was asked for, and what it changed.
func AnswerThreadText(mask func(string) string, a Answer) string {
	text := fmt.Sprintf("Done in [`%s`](%s/commit/%s)", a.OID[:min(len(a.OID), 7)], a.RepoURL, a.OID)
	if task := island.Speak(mask, a.TaskID, 20); task != "" {
		text += ", as " + task
	}
	if did := island.Speak(mask, a.Did, maxDid); did != "" {
		text += ": " + did
	}
	return text + "."
}
