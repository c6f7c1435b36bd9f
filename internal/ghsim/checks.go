package ghsim

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

// checkInput is what is said of a check run to make.
type checkInput struct {
	Name        string
	HeadSHA     string `json:"head_sha"`
	Status      string
	Conclusion  string
	DetailsURL  string    `json:"details_url"`
	ExternalID  string    `json:"external_id"`
	StartedAt   time.Time `json:"started_at"`
	CompletedAt time.Time `json:"completed_at"`
	Actions     []checkAction
	Output      checkOutput
}

type checkAction struct{ Label, Identifier, Description string }

type checkOutput struct {
	Title, Summary, Text string
	Annotations          []Annotation
}

// refusal is what GitHub finds wrong with a check run.
func (in *checkInput) refusal() error {
	if in.Status == "completed" && in.Conclusion == "" {
		return unprocessable("Invalid request.\n\nMissing conclusion for a completed check run.")
	}
	if len(in.Actions) > 3 {
		return unprocessable("Invalid request.\n\nNo more than 3 actions are allowed.")
	}
	for _, a := range in.Actions {
		if a.Label == "" || tooLong(a.Label, 20) || a.Identifier == "" || tooLong(a.Identifier, 20) || a.Description == "" ||
			tooLong(a.Description, 40) {
			return unprocessable("Invalid request.\n\nAn action is not valid.")
		}
	}
	if len(in.Output.Summary) > maxBody-1 {
		return invalid("CheckRun", "summary", "invalid", "Summary exceeds a maximum bytesize of 65535")
	}
	if len(in.Output.Annotations) > 50 {
		return unprocessable("Invalid request.\n\nNo more than 50 items are allowed; annotations were supplied in excess.")
	}
	for _, a := range in.Output.Annotations {
		if a.Path == "" || a.StartLine < 1 || a.EndLine < a.StartLine || a.Message == "" || len(a.Message) > 64<<10 ||
			tooLong(a.Title, 255) || a.StartColumn > 0 && a.StartLine != a.EndLine ||
			!slices.Contains([]string{"notice", "warning", "failure"}, a.Level) {
			return unprocessable("Invalid request.\n\nAn annotation is not valid.")
		}
	}
	return nil
}

// postCheck puts a check run of the calling App on a commit.
func (s *Sim) postCheck(c *call, in checkInput) (int, any, error) {
	r := c.repo
	if _, err := r.git.commit(in.HeadSHA); err != nil {
		return 0, nil, unprocessable("No commit found for SHA: " + in.HeadSHA)
	}
	if err := in.refusal(); err != nil {
		return 0, nil, err
	}
	text := in.Output.Text // which GitHub cuts without a word
	ch := &checkRun{
		id: s.nextID(), app: c.who.tok.install.app, name: in.Name, headOID: in.HeadSHA, status: cmp.Or(in.Status, "queued"),
		conclusion: in.Conclusion, externalID: in.ExternalID, detailsURL: in.DetailsURL, started: in.StartedAt,
		completed: in.CompletedAt, suiteID: s.nextID(), title: in.Output.Title, summary: in.Output.Summary,
		text: strings.ToValidUTF8(text[:min(len(text), maxBody-1)], ""), annotations: in.Output.Annotations,
	}
	if ch.started.IsZero() {
		ch.started = s.now()
	}
	if ch.conclusion != "" {
		ch.status = "completed"
		if ch.completed.IsZero() {
			ch.completed = s.now()
		}
	}
	for _, a := range in.Actions {
		ch.buttons, ch.labels = append(ch.buttons, a.Identifier), append(ch.labels, a.Label)
	}
	r.checks = append(r.checks, ch)
	s.emit(r, "check_run", "created", c.who.author().user, obj{"check_run": s.checkJSON(r, ch)})
	return http.StatusCreated, s.checkJSON(r, ch), nil
}

func (s *Sim) listChecks(c *call) (int, any, error) {
	commit, err := c.commitAt(c.str("ref"))
	if err != nil {
		return 0, nil, err
	}
	type named struct {
		app  *app
		name string
	}
	latest := map[named]bool{} // already found, of an App and name
	status, app, name := c.query("status", ""), c.query("app_id", ""), c.query("check_name", "")
	var found []*checkRun
	for _, ch := range slices.Backward(c.repo.checks) {
		old := latest[named{ch.app, ch.name}] && c.query("filter", "latest") != "all"
		if ch.headOID != commit.OID || old || app != "" && app != strconv.FormatInt(ch.app.id, 10) ||
			name != "" && name != ch.name {
			continue
		}
		latest[named{ch.app, ch.name}] = true
		if status == "" || status == ch.status {
			found = append(found, ch)
		}
	}
	return http.StatusOK, &github.ListCheckRunsResults{
		Total:     new(len(found)),
		CheckRuns: shapes(paginate(c, found), func(ch *checkRun) *github.CheckRun { return s.checkJSON(c.repo, ch) }),
	}, nil
}
