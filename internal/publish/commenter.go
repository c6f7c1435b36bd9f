package publish

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/redact"
)

// Commenter answers people on issues and pull requests outside of any run: with
// comments, each once for its occasion, with reactions, and with labels of state.
// It is safe for concurrent use.
type Commenter struct {
	Effects effects.Runner
	// Label starts runs; the labels of state begin with it.
	Label string
	Mask  *redact.Masker

	// writing is held by whoever writes a comment: several deliveries may ask for the same
	// one at the same time.
	writing sync.Mutex
}

// Comment writes text on an issue or pull request, once for its occasion, and
// nothing where it is empty. That GitHub does not let us is logged, and no reason to try again.
func (c *Commenter) Comment(ctx context.Context, repo *ghapp.Repo, place int, occasion, text string) error {
	if text == "" {
		return nil
	}
	pub := Publisher{GitHub: repo, Effects: c.Effects, Issue: place, Label: c.Label, Mask: c.Mask}
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := pub.Comment(ctx, occasion, text)
	return Tolerate(ctx, "a comment was not written", err)
}

// Answer comments on what source names, to the person who wrote it.
func (c *Commenter) Answer(ctx context.Context, repo *ghapp.Repo, place int, source, login, text string) error {
	if text == "" {
		return nil
	}
	return c.Comment(ctx, repo, place, "answer:"+source, AnswerText(login, text))
}

// React shows on a comment what becomes of it. It is tried once.
func (c *Commenter) React(ctx context.Context, repo *ghapp.Repo, comment int64, content string) {
	_ = react(ctx, func(ctx context.Context) error { return repo.ReactToComment(ctx, comment, content) }) // it is logged
}

// Tolerate logs a permanent failure of GitHub, with what it kept from happening, and
// carries on: it returns nil. Any other error it returns as it is.
func Tolerate(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	switch class, _ := ghapp.Classify(err); class {
	case ghapp.Forbidden, ghapp.NotFound, ghapp.Unauthorised, ghapp.Invalid:
		zerolog.Ctx(ctx).Warn().Err(err).Msg(what)
		return nil
	default:
		return err
	}
}
