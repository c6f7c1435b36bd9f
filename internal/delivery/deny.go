package delivery

import (
	"context"
	"fmt"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/publish"
)

// denialText says why somebody may not, "" where nothing is to be said. command: they
// asked by a command, and otherwise by the label.
func (r *Receiver) denialText(in handlers.Subject, s Standing, author handlers.Author,
	command bool) string {
	label := r.Decoder.Label
	switch s.Denied {
	case DeniedRole:
		if command {
			return publish.CommandRefusalText(in.SenderLogin, s.Role)
		}
		return publish.RefusalText(in.SenderLogin, s.Role, label)
	case DeniedUnknown:
		return publish.CannotAskText(in.SenderLogin)
	case DeniedAuthor:
		if command { // two people's words in one comment: nobody meant us to hear both
			return ""
		}
		return publish.AuthorRefusalText(in.SenderLogin, author.Login, label)
	case DeniedBot:
		if command { // bots that answer each other would never end
			return ""
		}
		return publish.BotRefusalText(in.SenderLogin, label)
	case DeniedSelf:
		return ""
	}
	return ""
}

// denialOccasion is what a refusal is said once for: once per person and issue, and
// where GitHub did not answer once an hour.
func (r *Receiver) denialOccasion(in handlers.Subject, s Standing) string {
	key := fmt.Sprintf("refused:%d", in.SenderID)
	if s.Denied == DeniedUnknown {
		key = fmt.Sprintf("unknown:%d:%s", in.SenderID, r.Now().UTC().Format("2006-01-02T15"))
	}
	return key
}

// reportLimit says, once an hour on an issue, that a limit is reached, and calls for
// a person.
func (r *Receiver) reportLimit(ctx context.Context, repo *ghapp.Repo, place, issue int, what string) error {
	key := "limit:" + r.Now().UTC().Format("2006-01-02T15")
	if err := r.Comments.Comment(ctx, repo, place, key, publish.TooManyText(what)); err != nil {
		return err
	}
	r.Comments.AddState(ctx, repo, issue, publish.LabelNeedsHuman)
	return nil
}
