package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/store"
)

const (
	// answerPatience is how long GitHub may fail to say what somebody may do
	// before that counts as a no.
	answerPatience = 5 * time.Minute
	// permissionAge is how old an answer about a person's permission may be.
	permissionAge = time.Minute
)

type personIn struct{ repoNode, login string }

// Authorizer says who may have the bot act, and how often. It is safe for concurrent use.
//
// An answer of GitHub is never older than a minute. Nobody whom GitHub does not know may do
// anything, and no answer is no permission once GitHub has had some time. A bot may do
// nothing by itself; one that may act for people does so with the permission of the author
// of the text. Where the text is somebody else's than the sender's, both need permission.
type Authorizer struct {
	Store *store.Store
	// People says who may use the bot, and how often.
	People config.People
	// Now is the clock.
	Now func() time.Time
	// ByJob: see Config. A job tries a few times and then fails: it never takes no answer for
	// a no, however long ago somebody said what it works.
	ByJob bool

	permissions ghapp.Cache[personIn, ghapp.Permission]
}

// Permission is what login may do in a repository, as GitHub said within the
// last minute. Nobody GitHub does not know may do anything.
func (a *Authorizer) Permission(ctx context.Context, repo *ghapp.Repo, node, login string) (ghapp.Permission, error) {
	key, now := personIn{node, strings.ToLower(login)}, a.Now()
	if may, ok := a.permissions.Get(key, now); ok {
		return may, nil
	}
	may, err := repo.Permission(ghapp.WithPurpose(ctx, "authorise"), login)
	if err != nil && !errors.Is(err, ghapp.ErrNotFound) {
		return ghapp.Permission{}, err
	}
	a.permissions.Put(key, may, now.Add(permissionAge))
	return may, nil
}

// Standing is what somebody may ask for, and if nothing, why.
type Standing struct {
	// As is on whose behalf something is done, "" as long as nobody may.
	As handlers.Author
	// Role is the role of whoever's permission counted.
	Role string
	// Denied is why nothing may be asked for, "" where something may.
	Denied Denial
}

// Denial is why somebody may not have the bot act.
type Denial string

// The denials.
const (
	DeniedRole    Denial = "permission"
	DeniedBot     Denial = "a bot"
	DeniedAuthor  Denial = "the author's permission"
	DeniedUnknown Denial = "permission unknown"
	// DeniedSelf is the App itself, which nobody has to be told of.
	DeniedSelf Denial = "the App itself"
)

// Standing asks what the sender of an event may do. Where a bot acts that may
// act for people, it is the author of the text that has to have write access,
// and where a text is somebody else's than the sender's, both: the weaker of two
// counts. GitHub's failure to answer is a no, once it has had some time.
func (a *Authorizer) Standing(ctx context.Context, repo *ghapp.Repo, receivedAt time.Time, in handlers.Subject,
	author handlers.Author) (Standing, error) {
	sender := handlers.Author{Login: in.SenderLogin, ID: in.SenderID, Type: in.SenderType}
	asked := []handlers.Author{sender}
	switch {
	case in.SenderType == "User":
		if author.ID != 0 && author.ID != sender.ID {
			asked = append(asked, author)
		}
	case in.SenderType == "Bot" && slices.Contains(a.People.Bots, in.SenderID) && author.ID != 0 &&
		author.ID != sender.ID:
		asked = []handlers.Author{author}
	default:
		return a.denyBot(ctx, repo, receivedAt, in)
	}
	var last ghapp.Permission
	for _, who := range asked {
		may, err := a.Permission(ctx, repo, in.RepoNode, who.Login)
		switch {
		case err != nil:
			return a.denyUnanswered(ctx, receivedAt, err)
		case who.Type != "User":
			return Standing{Denied: DeniedAuthor}, nil
		case !may.CanWrite && who.ID != sender.ID:
			return Standing{Role: may.Role, Denied: DeniedAuthor}, nil
		case !may.CanWrite:
			return Standing{Role: may.Role, Denied: DeniedRole}, nil
		}
		last = may
	}
	return Standing{As: asked[0], Role: last.Role}, nil
}

// denyBot tells the App itself from other bots.
func (a *Authorizer) denyBot(ctx context.Context, repo *ghapp.Repo, receivedAt time.Time,
	in handlers.Subject) (Standing, error) {
	self, err := repo.BotID(ctx)
	if err != nil {
		return a.denyUnanswered(ctx, receivedAt, err)
	}
	if in.SenderID == self {
		return Standing{Denied: DeniedSelf}, nil
	}
	return Standing{Denied: DeniedBot}, nil
}

// denyUnanswered decides what no answer means: to try again, or no.
func (a *Authorizer) denyUnanswered(ctx context.Context, receivedAt time.Time, err error) (Standing, error) {
	class, _ := ghapp.Classify(err)
	soon := a.ByJob || a.Now().Sub(receivedAt) < answerPatience
	if class == ghapp.RateLimited || (class == ghapp.Transient || class == ghapp.Unauthorised) && soon {
		return Standing{}, err
	}
	zerolog.Ctx(ctx).Warn().Err(err).Msg("GitHub does not say what somebody may do; so they may not")
	return Standing{Denied: DeniedUnknown}, nil
}

// TooManyCommands says, in words for people, which limit on commands is reached; "" is
// none.
func (a *Authorizer) TooManyCommands(ctx context.Context, in handlers.Subject, issue int) (string, error) {
	since := a.Now().Add(-time.Hour)
	kinds := []store.InputKind{store.InputCommand}
	limits := a.People
	n, err := a.Store.CountInputs(ctx, store.InputCount{AuthorID: in.SenderID, Kinds: kinds, Since: since})
	if err != nil {
		return "", err
	}
	if most := limits.CommandsPerPerson; most > 0 && n >= most {
		return fmt.Sprintf("One person used more than %d commands within an hour.", limits.CommandsPerPerson), nil
	}
	n, err = a.Store.CountInputs(ctx, store.InputCount{RepoNode: in.RepoNode, Issue: issue, Kinds: kinds,
		Since: since})
	if err != nil {
		return "", err
	}
	if most := limits.CommandsPerIssue; most > 0 && n >= most {
		return fmt.Sprintf("More than %d commands were used here within an hour.", limits.CommandsPerIssue), nil
	}
	return "", nil
}

// CouldWrite says whether it was somebody with write access who had the role.
func CouldWrite(role string) bool {
	return !slices.Contains([]string{"", "none", "read", "triage", "bot"}, role)
}

// TooManyRuns says the same of the runs of an issue.
func (a *Authorizer) TooManyRuns(ctx context.Context, node string, issue int) (string, error) {
	most := a.People.RunsPerIssue
	n, err := a.Store.RunsSince(ctx, node, issue, a.Now().Add(-time.Hour))
	if err != nil || most <= 0 || n < most {
		return "", err
	}
	return fmt.Sprintf("%d runs of this issue started within an hour.", most), nil
}
