package ghapp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/run"
)

// CheckInput is what a check run on a commit is to show.
type CheckInput struct {
	Name string
	// HeadOID is the commit. It is set for good when the check run is made.
	HeadOID string
	// ExternalID is our own id for what is checked, to find it by.
	ExternalID string
	DetailsURL string
	StartedAt  time.Time
	// Conclusion is "" as long as it is in progress.
	Conclusion run.Conclusion
	// Title is plain text, Summary Markdown; GitHub refuses one of more than
	// 65,535 bytes.
	Title, Summary string
	// Text is Markdown, too, "" for none, and has the same bound.
	Text string
	// Buttons are shown beside it, three at most.
	Buttons []Button
}

func (in CheckInput) output() *github.CheckRunOutput {
	out := &github.CheckRunOutput{Title: &in.Title, Summary: &in.Summary}
	if in.Text != "" {
		out.Text = &in.Text
	}
	return out
}

// Button is something that people can ask for on a check run.
type Button struct {
	// ID comes back when the button is pressed. GitHub takes 20 characters of it
	// and of Label, and 40 of Description.
	ID, Label, Description string
}

func (in CheckInput) actions() []*github.CheckRunAction {
	out := []*github.CheckRunAction{}
	for _, b := range in.Buttons {
		out = append(out, &github.CheckRunAction{Identifier: b.ID, Label: b.Label, Description: b.Description})
	}
	return out
}

// checkUpdate also takes buttons off: go-github leaves an empty list out.
type checkUpdate struct {
	github.UpdateCheckRunOptions

	Actions []*github.CheckRunAction `json:"actions"`
}

// CreateCheck puts a check run on a commit and returns its id. An App without
// the permission checks:write is refused, see ChecksRefused. Each call makes
// another one.
func (r *Repo) CreateCheck(ctx context.Context, in CheckInput) (id int64, err error) {
	status, conclusion := in.status()
	opts := github.CreateCheckRunOptions{
		Name: in.Name, HeadSHA: in.HeadOID, ExternalID: &in.ExternalID, Status: &status, Conclusion: conclusion,
		Output: in.output(), Actions: in.actions(),
	}
	if in.DetailsURL != "" {
		opts.DetailsURL = &in.DetailsURL
	}
	if !in.StartedAt.IsZero() {
		opts.StartedAt = &github.Timestamp{Time: in.StartedAt}
	}
	c, _, err := r.checks.Checks.CreateCheckRun(ctx, r.owner, r.name, opts)
	if err != nil {
		return 0, wrap("create check run", err)
	}
	return c.GetID(), nil
}

// UpdateCheck changes what a check run of the App shows. GitHub notes the time
// when it gets a conclusion.
func (r *Repo) UpdateCheck(ctx context.Context, id int64, in CheckInput) error {
	status, conclusion := in.status()
	opts := github.UpdateCheckRunOptions{
		Name: in.Name, Status: &status, Conclusion: conclusion,
		Output: in.output(),
	}
	if in.DetailsURL != "" {
		opts.DetailsURL = &in.DetailsURL
	}
	const op = "update check run"
	req, err := r.checks.NewRequest(http.MethodPatch, fmt.Sprintf("repos/%s/%s/check-runs/%d", r.owner, r.name, id), checkUpdate{opts, in.actions()})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	_, err = r.checks.Do(ctx, req, nil)
	return wrap(op, err)
}

func (in CheckInput) status() (status string, conclusion *string) {
	if in.Conclusion == "" {
		return "in_progress", nil
	}
	return "completed", github.String(string(in.Conclusion))
}

// FindCheck gives the id of the check run on a commit that the App itself made
// under a name and external id. None is ErrNotFound: another App's with the
// same text is not ours.
func (r *Repo) FindCheck(ctx context.Context, oid, name, externalID string) (id int64, err error) {
	list, _, err := r.checks.Checks.ListCheckRunsForRef(ctx, r.owner, r.name, oid, &github.ListCheckRunsOptions{
		CheckName: &name, Filter: github.String("all"), AppID: &r.app.appID, ListOptions: github.ListOptions{PerPage: pageSize},
	})
	if err != nil {
		return 0, wrap("list check runs", err)
	}
	for _, c := range list.CheckRuns {
		if c.GetApp().GetID() == r.app.appID && c.GetName() == name && c.GetHeadSHA() == oid && c.GetExternalID() == externalID {
			return c.GetID(), nil
		}
	}
	return 0, fmt.Errorf("find own check run: %w", ErrNotFound)
}

// ChecksRefused says whether err is GitHub's word that the App may not write
// check runs here: its installation has not been granted checks:write, in which
// case no token is given for it, or a policy forbids it.
func ChecksRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Class == Forbidden || e.Class == Unauthorised)
}
