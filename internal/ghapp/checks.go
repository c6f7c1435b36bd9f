package ghapp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	// Annotations are added to those that are there; GitHub takes MaxAnnotations at
	// once.
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

func (a Annotation) input() map[string]any {
	level, at := "WARNING", map[string]any{"startLine": a.Line, "endLine": a.Line}
	if a.Failure {
		level = "FAILURE"
	}
	if a.Column > 0 {
		at["startColumn"], at["endColumn"] = a.Column, a.Column
	}
	return map[string]any{"path": a.Path, "location": at, "annotationLevel": level, "title": a.Title, "message": a.Message}
}

// Button is something that people can ask for on a check run.
type Button struct {
	// ID comes back when the button is pressed. GitHub takes 20 characters of it
	// and of Label, and 40 of Description.
	ID, Label, Description string
}

// CheckWrite is a check run to make or to change.
type CheckWrite struct {
	// ID is the node id of the one to change; "" makes one.
	ID string

	CheckInput
}

// PRChange is what becomes of a pull request along with check runs; the zero value
// changes nothing.
type PRChange struct {
	// ID is the pull request's node id.
	ID string
	// Body is its new text, "" to leave it.
	Body string
	// Ready takes it out of draft.
	Ready bool
}

// WrittenChecks is what came of WriteChecks.
type WrittenChecks struct {
	// IDs are the node ids of the check runs, one for each write; "" where it failed.
	IDs []string
	// Described: the pull request has its text.
	Described bool
	// Ready: it is out of draft.
	Ready bool
}

// WriteChecks makes and changes check runs of the App in one request, in the
// order given. One that GitHub does not take stops none of the others; the error
// is that of the first such. Making one again makes another one. The same
// request changes a pull request; why that has failed is not told: UpdatePR and
// MarkReady do.
//
// An App without the permission checks:write is refused, see ChecksRefused.
// GitHub notes the time when a check run gets a conclusion.
func (r *Repo) WriteChecks(ctx context.Context, change PRChange, writes ...CheckWrite) (WrittenChecks, error) {
	const op = "write check runs"
	out := WrittenChecks{IDs: make([]string, len(writes))}
	repo, err := r.nodeID(ctx)
	if err != nil {
		return out, err
	}
	var params, fields []string
	vars := make(map[string]any)
	add := func(alias, input, mutation, selection string, in map[string]any) {
		vars[alias] = in
		params = append(params, fmt.Sprintf("$%s: %s!", alias, input))
		fields = append(fields, fmt.Sprintf("  %s: %s(input: $%s) { %s }\n", alias, mutation, alias, selection))
	}
	for i, w := range writes {
		in := w.input()
		in["repositoryId"] = repo
		if w.ID != "" {
			in["checkRunId"] = w.ID
			add(alias(i), "UpdateCheckRunInput", "updateCheckRun", "checkRun { id }", in)
			continue
		}
		in["headSha"], in["externalId"] = w.HeadOID, w.ExternalID
		if !w.StartedAt.IsZero() {
			in["startedAt"] = w.StartedAt.UTC().Format(time.RFC3339)
		}
		add(alias(i), "CreateCheckRunInput", "createCheckRun", "checkRun { id }", in)
	}
	if change.Body != "" {
		add("text", "UpdatePullRequestInput", "updatePullRequest", "pullRequest { id }",
			map[string]any{"pullRequestId": change.ID, "body": change.Body})
	}
	if change.Ready {
		add("ready", "MarkPullRequestReadyForReviewInput", "markPullRequestReadyForReview", "pullRequest { id isDraft }",
			map[string]any{"pullRequestId": change.ID})
	}
	mutation := "mutation(" + strings.Join(params, ", ") + ") {\n" + strings.Join(fields, "") + "}"
	answer, err := r.exchange(ctx, r.checks.Client(), op, mutation, vars)
	if err != nil {
		return out, err
	}
	var data map[string]*struct {
		CheckRun, PullRequest *struct {
			ID      string `json:"id"`
			IsDraft bool   `json:"isDraft"`
		}
	}
	if len(answer.Data) > 0 {
		if err := answer.decode(op, &data); err != nil {
			return out, err
		}
	}
	for i := range writes {
		if got := data[alias(i)]; got != nil && got.CheckRun != nil && got.CheckRun.ID != "" {
			out.IDs[i] = got.CheckRun.ID
		} else if err == nil {
			err = r.notWritten(op, answer, alias(i))
		}
	}
	text, ready := data["text"], data["ready"]
	out.Described = text != nil && text.PullRequest != nil
	out.Ready = ready != nil && ready.PullRequest != nil && !ready.PullRequest.IsDraft
	return out, err
}

// alias is what the mutation of a number is called in a request.
func alias(i int) string { return "w" + strconv.Itoa(i) }

// notWritten is why the check run of an alias was not written.
func (r *Repo) notWritten(op string, answer graphQLAnswer, alias string) error {
	var errs []graphQLError
	for _, e := range answer.Errors {
		if len(e.Path) == 0 || e.under(alias) { // one without a path is of the whole
			errs = append(errs, e)
		}
	}
	if len(errs) == 0 {
		return &Error{Op: op, Class: Transient, Message: "GitHub gave neither a check run nor an error"}
	}
	failed := answer.failed(op, errs)
	if failed.Class == NotFound {
		r.forgetNodeID() // a repository made anew under the name has another
	}
	return failed
}

// input is what making and changing a check run have in common. An empty list
// of actions takes buttons off.
func (in CheckInput) input() map[string]any {
	actions := []map[string]string{}
	for _, b := range in.Buttons {
		actions = append(actions, map[string]string{"identifier": b.ID, "label": b.Label, "description": b.Description})
	}
	output := map[string]any{"title": in.Title, "summary": in.Summary}
	if in.Text != "" {
		output["text"] = in.Text
	}
	if len(in.Annotations) > 0 {
		var all []map[string]any
		for _, a := range in.Annotations {
			all = append(all, a.input())
		}
		output["annotations"] = all
	}
	out := map[string]any{"name": in.Name, "status": "IN_PROGRESS", "output": output, "actions": actions}
	if in.Conclusion != "" {
		out["status"], out["conclusion"] = "COMPLETED", strings.ToUpper(string(in.Conclusion))
	}
	if in.DetailsURL != "" {
		out["detailsUrl"] = in.DetailsURL
	}
	return out
}

// FoundCheck is a check run that was made before.
type FoundCheck struct {
	// ID is its node id.
	ID string
	// Annotations is how many it has.
	Annotations int
}

// FindCheck gives the check run on a commit that the App itself made
// under a name and external id. None is ErrNotFound: another App's with the
// same text is not ours. Under a token, the App is the one that the token's bot
// user belongs to; that of jobs is shared by all workflows of the repository, which
// the external id tells apart.
func (r *Repo) FindCheck(ctx context.Context, oid, name, externalID string) (FoundCheck, error) {
	opts := &github.ListCheckRunsOptions{
		CheckName: &name, Filter: github.String("all"), ListOptions: github.ListOptions{PerPage: pageSize},
	}
	ours := func(app *github.App) bool { return app.GetID() == r.app.appID }
	if r.app.appID != 0 {
		opts.AppID = &r.app.appID
	} else {
		bot, err := r.bot(ctx)
		if err != nil {
			return FoundCheck{}, err
		}
		ours = func(app *github.App) bool {
			return app.GetSlug() != "" && strings.EqualFold(app.GetSlug()+"[bot]", bot.Login)
		}
	}
	list, _, err := r.checks.Checks.ListCheckRunsForRef(ctx, r.owner, r.name, oid, opts)
	if err != nil {
		return FoundCheck{}, wrap("list check runs", err)
	}
	for _, c := range list.CheckRuns {
		if ours(c.GetApp()) && c.GetName() == name && c.GetHeadSHA() == oid && c.GetExternalID() == externalID {
			return FoundCheck{ID: c.GetNodeID(), Annotations: c.GetOutput().GetAnnotationsCount()}, nil
		}
	}
	return FoundCheck{}, fmt.Errorf("find own check run: %w", ErrNotFound)
}

// ChecksRefused says whether err is GitHub's word that the App may not write
// check runs here: its installation has not been granted checks:write, in which
// case no token is given for it, or a policy forbids it.
func ChecksRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Class == Forbidden || e.Class == Unauthorised)
}
