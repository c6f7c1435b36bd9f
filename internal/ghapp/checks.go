package ghapp

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/run"
)

// CheckInput is what the check run of a run that has ended shows.
type CheckInput struct {
	Name string
	// HeadOID is the commit. It is set for good when the check run is made.
	HeadOID string
	// ExternalID is our own id for what is checked, to find it by.
	ExternalID string
	DetailsURL string
	StartedAt  time.Time
	Conclusion run.Conclusion
	// Title is plain text, Summary Markdown; GitHub refuses one of more than
	// 65,535 bytes.
	Title, Summary string
	// Text is Markdown, too, "" for none, and has the same bound.
	Text string
	// Buttons are shown beside it, three at most.
	Buttons []Button
	// Annotations are at most MaxAnnotations.
	Annotations []Annotation
}

// MaxAnnotations is how many annotations GitHub takes at once.
const MaxAnnotations = 50

// Annotation is something to say about a line of a file. It is plain text.
type Annotation struct {
	Path string
	// Line counts from 1; Column, too, and is 0 for all of the line.
	Line, Column int
	// Failure tells what holds a change up from what is only said.
	Failure        bool
	Title, Message string
}

// Button is something that people can ask for on a check run.
type Button struct {
	// ID comes back when the button is pressed. GitHub takes 20 characters of it
	// and of Label, and 40 of Description.
	ID, Label, Description string
}

// CreateCheck makes a check run of the App that has ended. Making one again makes
// another one: see FindCheck.
//
// An App without the permission checks:write is refused, see ChecksRefused.
func (r *Repo) CreateCheck(ctx context.Context, in CheckInput) error {
	opts := github.CreateCheckRunOptions{
		Name: in.Name, HeadSHA: in.HeadOID, ExternalID: &in.ExternalID, Status: github.String("completed"),
		Conclusion: github.String(string(in.Conclusion)),
		Output:     &github.CheckRunOutput{Title: &in.Title, Summary: &in.Summary},
	}
	if !in.StartedAt.IsZero() {
		opts.StartedAt = &github.Timestamp{Time: in.StartedAt}
	}
	if in.DetailsURL != "" {
		opts.DetailsURL = &in.DetailsURL
	}
	if in.Text != "" {
		opts.Output.Text = &in.Text
	}
	for _, b := range in.Buttons {
		opts.Actions = append(opts.Actions, &github.CheckRunAction{Identifier: b.ID, Label: b.Label, Description: b.Description})
	}
	for _, a := range in.Annotations {
		note := &github.CheckRunAnnotation{
			Path: &a.Path, StartLine: &a.Line, EndLine: &a.Line, AnnotationLevel: github.String("warning"), Title: &a.Title,
			Message: &a.Message,
		}
		if a.Failure {
			note.AnnotationLevel = github.String("failure")
		}
		if a.Column > 0 {
			note.StartColumn, note.EndColumn = &a.Column, &a.Column
		}
		opts.Output.Annotations = append(opts.Output.Annotations, note)
	}
	_, _, err := r.checks.Checks.CreateCheckRun(ctx, r.owner, r.name, opts)
	return wrap("create check run", err)
}

// FindCheck says whether the App itself made a check run on a commit under a name and
// external id: another App's with the same text is not ours. Under a token, the App is the one that the token's bot
// user belongs to; that of jobs is shared by all workflows of the repository, which
// the external id tells apart.
func (r *Repo) FindCheck(ctx context.Context, oid, name, externalID string) (bool, error) {
	opts := &github.ListCheckRunsOptions{
		CheckName: &name, Filter: github.String("all"), ListOptions: github.ListOptions{PerPage: pageSize},
	}
	ours := func(app *github.App) bool { return app.GetID() == r.app.appID }
	if r.app.appID != 0 {
		opts.AppID = &r.app.appID
	} else {
		bot, err := r.bot(ctx)
		if err != nil {
			return false, err
		}
		ours = func(app *github.App) bool {
			return app.GetSlug() != "" && strings.EqualFold(app.GetSlug()+"[bot]", bot.Login)
		}
	}
	list, _, err := r.checks.Checks.ListCheckRunsForRef(ctx, r.owner, r.name, oid, opts)
	if err != nil {
		return false, wrap("list check runs", err)
	}
	for _, c := range list.CheckRuns {
		if ours(c.GetApp()) && c.GetName() == name && c.GetHeadSHA() == oid && c.GetExternalID() == externalID {
			return true, nil
		}
	}
	return false, nil
}

// ChecksRefused says whether err is GitHub's word that the App may not write
// check runs here: its installation has not been granted checks:write, in which
// case no token is given for it, or a policy forbids it.
func ChecksRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Class == Forbidden || e.Class == Unauthorised)
}
