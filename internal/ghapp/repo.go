package ghapp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

const (
	pageSize = 100
	// maxPages bounds a listing. GitHub allows 2,500 comments on an issue.
	maxPages = 30
)

// Repo is one repository as seen through one installation. It is safe for
// concurrent use.
type Repo struct {
	app          *App
	installation int64
	owner, name  string
	readTokens   *tokens
	reader       *github.Client
	writer       *github.Client
	checks       *github.Client
}

// Sibling is another repository of the same owner, through the same
// installation.
func (r *Repo) Sibling(name string) *Repo { return r.app.Repo(r.installation, r.owner, name) }

// FullName is "owner/name".
func (r *Repo) FullName() string { return r.owner + "/" + r.name }

// Place is where the repository is reached: through which installation, and its full
// name's parts.
func (r *Repo) Place() Place {
	return Place{Installation: r.installation, Owner: r.owner, Name: r.name}
}

// Place is what App.Repo finds a repository by.
type Place struct {
	Installation int64  `json:"installation"`
	Owner        string `json:"owner"`
	Name         string `json:"name"`
}

// HTMLURL is the repository's page, without a slash at the end.
func (r *Repo) HTMLURL() string { return r.app.web + "/" + r.owner + "/" + r.name }

// GitAuth gives the user and password for fetching over HTTPS. The token can
// read and nothing else; it is good for a minute at least, an hour at most.
// One that was refused is not given again, if there can be another.
func (r *Repo) GitAuth(ctx context.Context, refused string) (user, token string, err error) {
	token, err = r.readTokens.get(ctx, refused)
	if err != nil {
		return "", "", err
	}
	return "x-access-token", token, nil
}

// BotID is the numeric id of the App's bot user: the author of what it writes.
// The answer is kept for the life of the App.
func (r *Repo) BotID(ctx context.Context) (int64, error) {
	bot, err := r.bot(ctx)
	return bot.ID, err
}

// bot is the App's bot user, or whoever else the token stands for.
func (r *Repo) bot(ctx context.Context) (User, error) {
	const op = "identify the App's bot user"
	r.app.mu.Lock()
	known := r.app.bot
	r.app.mu.Unlock()
	if known.ID != 0 {
		return known, nil
	}
	var data struct {
		Viewer struct {
			DatabaseID int64  `json:"databaseId"`
			Login      string `json:"login"`
		} `json:"viewer"`
	}
	if err := r.graphQL(WithPurpose(ctx, "self"), r.reader.Client(), op, `query { viewer { databaseId login } }`, nil,
		&data); err != nil {
		return User{}, err
	}
	bot := User{ID: data.Viewer.DatabaseID, Login: data.Viewer.Login}
	if bot.ID == 0 {
		// "Ours" would then be everyone without an id.
		return User{}, &Error{Op: op, Class: Permanent, Message: "GitHub gave no id"}
	}
	r.app.mu.Lock()
	r.app.bot = bot
	r.app.mu.Unlock()
	return bot, nil
}

// User is who wrote something. Type is GitHub's: "User", "Bot".
type User struct {
	Login string
	ID    int64
	Type  string
}

func user(u *github.User) User { return User{Login: u.GetLogin(), ID: u.GetID(), Type: u.GetType()} }

// Ours says whether the App wrote what u has written, or one of its kin.
func (r *Repo) Ours(ctx context.Context, u User) (bool, error) {
	// Only an App's login has brackets.
	if u.Type == "Bot" && slices.ContainsFunc(r.app.kin,
		func(login string) bool { return strings.EqualFold(login, u.Login) }) {
		return true, nil
	}
	bot, err := r.BotID(ctx)
	return err == nil && u.ID == bot, err
}

// get is for what go-github v60 does not know, escapes wrongly, or answers
// with an untyped error.
func (r *Repo) get(ctx context.Context, op, path string, out any) error {
	req, err := r.reader.NewRequest(http.MethodGet, path, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	_, err = r.reader.Do(ctx, req, out)
	return wrap(op, err)
}

// Permission is what a person may do in a repository.
type Permission struct {
	// CanWrite holds for write, maintain, admin and every custom role built on
	// one of them.
	CanWrite bool
	// Level is GitHub's four-step scale: admin, write, read or none; a custom
	// role appears as the one it is built on.
	Level string
	// Role is the exact role, which may be a custom one: for telling people.
	Role string
}

// Permission looks up the effective permission of login, which is ErrNotFound
// for a user that does not exist. It is never cached here.
func (r *Repo) Permission(ctx context.Context, login string) (Permission, error) {
	var answer struct {
		Permission string `json:"permission"`
		RoleName   string `json:"role_name"`
	}
	path := fmt.Sprintf("repos/%s/%s/collaborators/%s/permission", r.owner, r.name, url.PathEscape(login))
	if err := r.get(ctx, "look up permission", path, &answer); err != nil {
		return Permission{}, err
	}
	p := Permission{Level: answer.Permission, Role: answer.RoleName}
	p.CanWrite = p.Level == "admin" || p.Level == "write"
	if p.Role == "" {
		p.Role = p.Level
	}
	return p, nil
}

// Issue is an issue, or a pull request seen as one.
type Issue struct {
	Number              int
	NodeID, Title, Body string
	// State is "open" or "closed".
	State    string
	Labels   []string
	URL      string
	AuthorID int64
	Locked   bool
	IsPR     bool
	// UpdatedAt is when it was last changed, by GitHub's clock.
	UpdatedAt time.Time
}

// Issue reads issue n.
func (r *Repo) Issue(ctx context.Context, n int) (Issue, error) {
	i, _, err := r.reader.Issues.Get(ctx, r.owner, r.name, n)
	if err != nil {
		return Issue{}, wrap("read issue", err)
	}
	return issue(i), nil
}

func issue(i *github.Issue) Issue {
	out := Issue{
		Number: i.GetNumber(), NodeID: i.GetNodeID(), Title: i.GetTitle(), Body: i.GetBody(), State: i.GetState(),
		URL: i.GetHTMLURL(), AuthorID: i.GetUser().GetID(), Locked: i.GetLocked(), IsPR: i.IsPullRequest(),
		UpdatedAt: i.GetUpdatedAt().UTC(),
	}
	for _, l := range i.Labels {
		out.Labels = append(out.Labels, l.GetName())
	}
	return out
}

// React adds a reaction ("eyes") to an issue. Adding it twice is adding it
// once.
func (r *Repo) React(ctx context.Context, issue int, content string) error {
	made, _, err := r.writer.Reactions.CreateIssueReaction(ctx, r.owner, r.name, issue, content)
	r.learnBot(made)
	return wrap("react to issue", err)
}

// Reacted says whether we have added a reaction ("eyes") to an issue.
func (r *Repo) Reacted(ctx context.Context, issue int, content string) (bool, error) {
	return r.reacted(ctx, content, func(page github.ListOptions) ([]*github.Reaction, *github.Response, error) {
		return r.reader.Reactions.ListIssueReactions(ctx, r.owner, r.name, issue, &page)
	})
}

// reacted looks through pages of reactions for one of ours, of any content where content is "".
func (r *Repo) reacted(ctx context.Context, content string,
	list func(github.ListOptions) ([]*github.Reaction, *github.Response, error)) (bool, error) {
	got, err := all("list reactions", list)
	for _, made := range got {
		if content != "" && made.GetContent() != content {
			continue
		}
		if ours, err := r.Ours(ctx, user(made.GetUser())); err != nil || ours {
			return ours, err
		}
	}
	return false, err
}

// learnBot takes the App's bot user from what GitHub says it has made
// by our own token, which spares BotID a call.
func (r *Repo) learnBot(made *github.Reaction) {
	if made == nil || made.GetUser().GetType() != "Bot" {
		return
	}
	r.app.mu.Lock()
	defer r.app.mu.Unlock()
	if r.app.bot.ID == 0 {
		r.app.bot = user(made.GetUser())
	}
}

// Comment is one comment on an issue or pull request.
type Comment struct {
	ID                int64
	NodeID, URL, Body string
	Author            User
	CreatedAt         time.Time
	// Edited: it does not say what it said at first, as far as whole seconds tell.
	Edited bool
}

// Comment writes a comment. GitHub refuses bodies over 65,536 characters.
func (r *Repo) Comment(ctx context.Context, issue int, body string) (Comment, error) {
	c, _, err := r.writer.Issues.CreateComment(ctx, r.owner, r.name, issue, &github.IssueComment{Body: &body})
	if err != nil {
		return Comment{}, wrap("comment on issue", err)
	}
	return comment(c), nil
}

// Comments lists the comments on an issue, oldest first.
func (r *Repo) Comments(ctx context.Context, issue int) ([]Comment, error) {
	list, err := all("list comments", func(page github.ListOptions) ([]*github.IssueComment, *github.Response, error) {
		return r.reader.Issues.ListComments(ctx, r.owner, r.name, issue, &github.IssueListCommentsOptions{ListOptions: page})
	})
	var out []Comment
	for _, c := range list {
		out = append(out, comment(c))
	}
	return out, err
}

// FindComment gives the first comment on an issue that the App itself wrote
// and that ends in marker; the same text by anyone else means nothing, nor does a
// marker that is quoted: in a job, other workflows write under the same name. None
// is ErrNotFound.
func (r *Repo) FindComment(ctx context.Context, issue int, marker string) (Comment, error) {
	bot, err := r.BotID(ctx)
	if err != nil {
		return Comment{}, err
	}
	all, err := r.Comments(ctx, issue)
	if err != nil {
		return Comment{}, err
	}
	for _, c := range all {
		if c.Author.ID == bot && endsIn(c.Body, marker) {
			return c, nil
		}
	}
	return Comment{}, fmt.Errorf("find own comment: %w", ErrNotFound)
}

// endsIn says whether marker is the last of a text, but for the space that GitHub
// may have changed.
func endsIn(text, marker string) bool { return strings.HasSuffix(strings.TrimSpace(text), marker) }

// AddLabels puts labels on an issue. Labels that do not exist yet are made by
// GitHub.
func (r *Repo) AddLabels(ctx context.Context, issue int, labels ...string) error {
	_, _, err := r.writer.Issues.AddLabelsToIssue(ctx, r.owner, r.name, issue, labels)
	return wrap("add labels", err)
}

// RemoveLabel takes a label off an issue. One that is not there is no error.
func (r *Repo) RemoveLabel(ctx context.Context, issue int, label string) error {
	_, err := r.writer.Issues.RemoveLabelForIssue(ctx, r.owner, r.name, issue, url.PathEscape(label))
	if err = wrap("remove label", err); errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
