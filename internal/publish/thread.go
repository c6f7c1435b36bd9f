package publish

import (
	"context"
	"errors"
	"strings"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/publish/effects"
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

// Answer resolves a conversation and says in it what was done, once for each
// commit. That GitHub lets us do neither is logged, and no reason to try again. The
// words come last: where they stand nothing is left to be done.
func (p *Publisher) Answer(ctx context.Context, number int, a Answer) error {
	ctx = ghapp.WithPurpose(ctx, "thread")
	marker := p.replyMarker(number, a.Comment, a.OID)
	said := func(ctx context.Context) (commentRecord, bool, error) {
		c, err := p.GitHub.FindReply(ctx, number, marker)
		if errors.Is(err, ghapp.ErrNotFound) {
			return commentRecord{}, false, nil
		}
		return commentRecord{ID: c.ID, URL: c.URL}, err == nil, err
	}
	_, err := effects.Do(ctx, p.Effects, effects.Resolve(p.GitHub.FullName(), number, a.Comment, a.OID), nil,
		func(ctx context.Context) (struct{}, bool, error) {
			// Resolving it again changes nothing. But where another process has
			// answered, it has resolved it, too, and a person may have opened it since.
			_, ok, err := said(ctx)
			return struct{}{}, ok, err
		},
		func(ctx context.Context) (struct{}, error) {
			return struct{}{}, tolerateDenied(ctx, "a conversation was not resolved", p.GitHub.ResolveThread(ctx, a.Thread))
		})
	if err != nil {
		return err
	}
	_, err = effects.Do(ctx, p.Effects, effects.Reply(p.GitHub.FullName(), number, a.Comment, a.OID), nil, said,
		func(ctx context.Context) (commentRecord, error) {
			id, url, err := p.GitHub.ReplyInThread(ctx, number, a.Comment, AnswerThreadText(p.Mask.Mask, a)+"\n\n"+marker)
			return commentRecord{ID: id, URL: url}, tolerateDenied(ctx, "a reply was not written", err)
		})
	return err
}

// replyMarker is the mark by which the answer to what a commit did is found again
// in the conversation that a comment opened.
func (p *Publisher) replyMarker(number int, comment int64, oid string) string {
	return saidMark(effects.Reply(p.GitHub.FullName(), number, comment, oid))
}

// FindAnswers looks which conversations of a pull request earlier runs, of which
// the store knows nothing, have answered: answered says it of the one that a comment
// opened and the commit that did what was asked for there.
func (p *Publisher) FindAnswers(
	ctx context.Context, number int,
) (answered func(comment int64, oid string) bool, err error) {
	said, err := p.GitHub.CommentsOnLines(ctx, number)
	if err != nil {
		return nil, err
	}
	marks := map[string]bool{}
	for _, c := range said {
		at := strings.LastIndex(c.Body, saidMarker)
		if at < 0 {
			continue
		}
		ours, err := p.GitHub.Ours(ctx, c.Author)
		if err != nil {
			return nil, err
		}
		if ours {
			marks[strings.TrimSpace(c.Body[at:])] = true
		}
	}
	return func(comment int64, oid string) bool { return marks[p.replyMarker(number, comment, oid)] }, nil
}

// tolerateDenied logs that GitHub denied something, with what it kept from happening, and
// carries on.
func tolerateDenied(ctx context.Context, what string, err error) error {
	if err == nil || !ghapp.Denied(err) {
		return err
	}
	zerolog.Ctx(ctx).Warn().Err(err).Msg(what)
	return nil
}
