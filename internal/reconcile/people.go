package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/store"
)

const (
	// answerPatience is how long GitHub may fail to say what somebody may do
	// before that counts as a no.
	answerPatience = 5 * time.Minute
	// maxFeedback is how much one person may say in reviews within an hour.
	maxFeedback = 500
)

type personIn struct{ repoNode, login string }

// permission is what login may do in a repository, as GitHub said within the
// last minute. Nobody GitHub does not know may do anything.
func (r *Reconciler) permission(ctx context.Context, repo *ghapp.Repo, node, login string) (ghapp.Permission, error) {
	key, now := personIn{node, strings.ToLower(login)}, r.cfg.Now()
	if may, ok := r.people.get(key, now); ok {
		return may, nil
	}
	may, err := repo.Permission(ghapp.WithPurpose(ctx, "authorise"), login)
	if err != nil && !errors.Is(err, ghapp.ErrNotFound) {
		return ghapp.Permission{}, err
	}
	r.people.put(key, may, now.Add(permissionAge))
	return may, nil
}

// standing is what somebody may ask for, and if nothing, why.
type standing struct {
	// as is on whose behalf something is done, "" as long as nobody may.
	as handlers.Author
	// role is the role of whoever's permission counted.
	role string
	why  refusal
}

// refusal is why somebody may not.
type refusal string

const (
	refusedRole    refusal = "permission"
	refusedBot     refusal = "a bot"
	refusedAuthor  refusal = "the author's permission"
	refusedUnknown refusal = "permission unknown"
	// refusedSelf is the App itself, which nobody has to be told of.
	refusedSelf refusal = "the App itself"
)

// standing asks what the sender of an event may do. Where a bot acts that may
// act for people, it is the author of the text that has to have write access,
// and where a text is somebody else's than the sender's, both: the weaker of two
// counts. GitHub's failure to answer is a no, once it has had some time.
func (r *Reconciler) standing(ctx context.Context, repo *ghapp.Repo, d store.Delivery, in handlers.Subject, author handlers.Author) (standing, error) {
	sender := handlers.Author{Login: in.SenderLogin, ID: in.SenderID, Type: in.SenderType}
	asked := []handlers.Author{sender}
	switch {
	case in.SenderType == "User":
		if author.ID != 0 && author.ID != sender.ID {
			asked = append(asked, author)
		}
	case in.SenderType == "Bot" && slices.Contains(r.cfg.People.Bots, in.SenderID) && author.ID != 0 && author.ID != sender.ID:
		asked = []handlers.Author{author}
	default:
		return r.bot(ctx, repo, d, in)
	}
	var last ghapp.Permission
	for _, a := range asked {
		may, err := r.permission(ctx, repo, in.RepoNode, a.Login)
		switch {
		case err != nil:
			return r.unanswered(ctx, d, err)
		case a.Type != "User":
			return standing{why: refusedAuthor}, nil
		case !may.CanWrite && a.ID != sender.ID:
			return standing{role: may.Role, why: refusedAuthor}, nil
		case !may.CanWrite:
			return standing{role: may.Role, why: refusedRole}, nil
		}
		last = may
	}
	return standing{as: asked[0], role: last.Role}, nil
}

// bot tells the App itself from other bots.
func (r *Reconciler) bot(ctx context.Context, repo *ghapp.Repo, d store.Delivery, in handlers.Subject) (standing, error) {
	self, err := repo.BotID(ctx)
	if err != nil {
		return r.unanswered(ctx, d, err)
	}
	if in.SenderID == self {
		return standing{why: refusedSelf}, nil
	}
	return standing{why: refusedBot}, nil
}

// unanswered decides what no answer means: to try again, or no.
func (r *Reconciler) unanswered(ctx context.Context, d store.Delivery, err error) (standing, error) {
	class, _ := ghapp.Classify(err)
	soon := r.cfg.Now().Sub(d.ReceivedAt) < answerPatience
	if class == ghapp.RateLimited || (class == ghapp.Transient || class == ghapp.Unauthorised) && soon {
		return standing{}, err
	}
	zerolog.Ctx(ctx).Warn().Err(err).Msg("GitHub does not say what somebody may do; so they may not")
	return standing{why: refusedUnknown}, nil
}

// refusalText says why, "" where nothing is to be said. What asks is "label" or
// "command".
func (r *Reconciler) refusalText(in handlers.Subject, s standing, author handlers.Author, command bool) string {
	label := r.cfg.Decoder.Label
	switch s.why {
	case refusedRole:
		if command {
			return publish.CommandRefusalText(in.SenderLogin, s.role)
		}
		return publish.RefusalText(in.SenderLogin, s.role, label)
	case refusedUnknown:
		return publish.CannotAskText(in.SenderLogin)
	case refusedAuthor:
		if command { // two people's words in one comment: nobody meant us to hear both
			return ""
		}
		return publish.AuthorRefusalText(in.SenderLogin, author.Login, label)
	case refusedBot:
		if command { // bots that answer each other would never end
			return ""
		}
		return publish.BotRefusalText(in.SenderLogin, label)
	case refusedSelf:
		return ""
	}
	return ""
}

// refusalKey is what a refusal is said once for: once per person and issue, and
// where GitHub did not answer once an hour.
func (r *Reconciler) refusalKey(in handlers.Subject, s standing) string {
	key := fmt.Sprintf("refused:%d", in.SenderID)
	if s.why == refusedUnknown {
		key = fmt.Sprintf("unknown:%d:%s", in.SenderID, r.cfg.Now().UTC().Format("2006-01-02T15"))
	}
	return key
}

// tooOften says, in words for people, which limit on commands is reached; "" is
// none.
func (r *Reconciler) tooOften(ctx context.Context, in handlers.Subject, issue int) (string, error) {
	since := r.cfg.Now().Add(-time.Hour)
	kinds := []store.InputKind{store.InputCommand}
	limits := r.cfg.People
	n, err := r.cfg.Store.CountInputs(ctx, store.InputCount{AuthorID: in.SenderID, Kinds: kinds, Since: since})
	if err != nil {
		return "", err
	}
	if most := limits.CommandsPerPerson; most > 0 && n >= most {
		return fmt.Sprintf("One person used more than %d commands within an hour.", limits.CommandsPerPerson), nil
	}
	n, err = r.cfg.Store.CountInputs(ctx, store.InputCount{RepoNode: in.RepoNode, Issue: issue, Kinds: kinds, Since: since})
	if err != nil {
		return "", err
	}
	if most := limits.CommandsPerIssue; most > 0 && n >= most {
		return fmt.Sprintf("More than %d commands were used here within an hour.", limits.CommandsPerIssue), nil
	}
	return "", nil
}

// tooManyRuns says the same of runs.
func (r *Reconciler) tooManyRuns(ctx context.Context, node string, issue int) (string, error) {
	most := r.cfg.People.RunsPerIssue
	n, err := r.cfg.Store.RunsSince(ctx, node, issue, r.cfg.Now().Add(-time.Hour))
	if err != nil || most <= 0 || n < most {
		return "", err
	}
	return fmt.Sprintf("%d runs of this issue started within an hour.", most), nil
}

// breaker says, once an hour on an issue, that a limit is reached, and calls for
// a person.
func (r *Reconciler) breaker(ctx context.Context, repo *ghapp.Repo, place, issue int, what string) error {
	key := "limit:" + r.cfg.Now().UTC().Format("2006-01-02T15")
	if err := r.tell(ctx, repo, place, key, publish.TooManyText(what)); err != nil {
		return err
	}
	r.label(ctx, repo, issue, labelNeedsHuman)
	return nil
}

// tell says something on an issue or pull request, once for its occasion. That
// GitHub does not let us is logged, and no reason to try again.
func (r *Reconciler) tell(ctx context.Context, repo *ghapp.Repo, place int, what, text string) error {
	if text == "" {
		return nil
	}
	return r.soft(ctx, "a comment was not written", r.say(ctx, repo, place, what, text))
}

// soft logs a permanent failure of GitHub and carries on.
func (r *Reconciler) soft(ctx context.Context, what string, err error) error {
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
