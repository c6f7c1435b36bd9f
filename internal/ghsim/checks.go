package ghsim

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

// checkInput is what is said of a check run to make or to change.
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
	Output      *checkOutput
}

type checkAction struct{ Label, Identifier, Description string }

type checkOutput struct {
	Title, Summary, Text string
	Annotations          []Annotation
}

// applyCheck puts what was sent into a check run. Annotations add up, all else
// replaces.
func (s *Sim) applyCheck(ch *checkRun, in checkInput) error {
	for _, set := range []struct {
		to    *string
		value string
	}{
		{&ch.name, in.Name}, {&ch.status, in.Status}, {&ch.conclusion, in.Conclusion}, {&ch.detailsURL, in.DetailsURL},
		{&ch.externalID, in.ExternalID},
	} {
		if set.value != "" {
			*set.to = set.value
		}
	}
	if !in.StartedAt.IsZero() {
		ch.started = in.StartedAt
	}
	if !in.CompletedAt.IsZero() {
		ch.completed = in.CompletedAt
	}
	if in.Conclusion != "" {
		ch.status = "completed"
	}
	if ch.status == "completed" && ch.conclusion == "" {
		return unprocessable("Invalid request.\n\nMissing conclusion for a completed check run.")
	}
	if ch.status == "completed" && ch.completed.IsZero() {
		ch.completed = s.now()
	}
	if len(in.Actions) > 3 {
		return unprocessable("Invalid request.\n\nNo more than 3 actions are allowed.")
	}
	if in.Actions != nil {
		ch.buttons, ch.labels = nil, nil
	}
	for _, a := range in.Actions {
		if a.Label == "" || tooLong(a.Label, 20) || a.Identifier == "" || tooLong(a.Identifier, 20) || a.Description == "" ||
			tooLong(a.Description, 40) {
			return unprocessable("Invalid request.\n\nAn action is not valid.")
		}
		ch.buttons, ch.labels = append(ch.buttons, a.Identifier), append(ch.labels, a.Label)
	}
	if o := in.Output; o != nil {
		// GitHub refuses a summary over 65,535 bytes and cuts the text there.
		if len(o.Summary) > maxBody-1 {
			return invalid("CheckRun", "summary", "invalid", "Summary exceeds a maximum bytesize of 65535")
		}
		if len(o.Annotations) > 50 {
			return unprocessable("Invalid request.\n\nNo more than 50 items are allowed; " +
				"annotations were supplied in excess.")
		}
		ch.title, ch.summary, ch.text = o.Title, o.Summary, strings.ToValidUTF8(o.Text[:min(len(o.Text), maxBody-1)], "")
		for _, a := range o.Annotations {
			if a.Path == "" || a.StartLine < 1 || a.EndLine < a.StartLine || a.Message == "" || len(a.Message) > 64<<10 ||
				tooLong(a.Title, 255) ||
				a.StartColumn > 0 && a.StartLine != a.EndLine ||
				!slices.Contains([]string{"notice", "warning", "failure"}, a.Level) {
				return unprocessable("Invalid request.\n\nAn annotation is not valid.")
			}
		}
		ch.annotations = append(slices.Clone(ch.annotations), o.Annotations...)
	}
	return nil
}

// postCheck puts a check run of the calling App on a commit.
func (s *Sim) postCheck(c *call, in checkInput) (int, any, error) {
	r := c.repo
	if _, err := r.git.commit(in.HeadSHA); err != nil {
		return 0, nil, unprocessable("No commit found for SHA: " + in.HeadSHA)
	}
	ch := &checkRun{
		id: s.nextID(), app: c.who.tok.install.app, name: in.Name, headOID: in.HeadSHA, status: "queued", started: s.now(),
		suiteID: s.nextID(),
	}
	if err := s.applyCheck(ch, in); err != nil {
		return 0, nil, err
	}
	r.checks = append(r.checks, ch)
	s.emit(r, "check_run", "created", c.who.author().user, obj{"check_run": s.checkJSON(r, ch)})
	return http.StatusCreated, s.checkJSON(r, ch), nil
}

// patchCheck changes one, which only the App that made it may.
func (s *Sim) patchCheck(c *call, in checkInput) (int, any, error) {
	ch := c.check
	if c.who.tok.install.app != ch.app {
		return 0, nil, &Error{
			Status:  http.StatusForbidden,
			Message: "Invalid app_id `" + c.who.name() + "` - check run can only be modified by the GitHub App that created it.",
		}
	}
	was := ch.status
	next := *ch
	if err := s.applyCheck(&next, in); err != nil {
		return 0, nil, err
	}
	*ch = next
	if was != "completed" && ch.status == "completed" {
		s.emit(c.repo, "check_run", "completed", c.who.author().user, obj{"check_run": s.checkJSON(c.repo, ch)})
	}
	return http.StatusOK, s.checkJSON(c.repo, ch), nil
}

func (s *Sim) getCheck(c *call) (int, any, error) {
	return http.StatusOK, s.checkJSON(c.repo, c.check), nil
}

func (s *Sim) listAnnotations(c *call) (int, any, error) {
	return list(c, c.check.annotations, func(a Annotation) Annotation { return a })
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
