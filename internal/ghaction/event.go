package ghaction

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// maxEvent is the most that GitHub delivers.
const maxEvent = 25 << 20

// Installation stands for the one that a job's token belongs to, whose number a
// job is not told.
const Installation = 1

// Schedule is the name of the event that nobody makes happen.
const Schedule = "schedule"

// Event is what started the workflow.
type Event struct {
	// Name is the event's: "issues".
	Name string
	// Payload is GitHub's webhook payload, as an App would get it.
	Payload []byte
	Action  string
	// Sender is who made it happen, "" for a schedule.
	Sender   string
	SenderID int64
	// Repository is what the event says of it.
	RepoNode      string
	DefaultBranch string
	// Private: only members see the repository. False where it is not said.
	Private bool
	// Issue is the number of the issue or pull request it is about, 0 for none.
	Issue int
	// Review is the id of the review of the pull request that it is about, 0 for
	// none.
	Review int64
}

// relayed is the name of a run of the workflow that hands reviews on.
var relayed = strs.Lazy(`^ralph review ([1-9][0-9]{0,17}) of #([1-9][0-9]{0,8})$`)

// ReadEvent reads the event of the job.
func ReadEvent(e Env) (Event, error) {
	f, err := os.Open(e.EventPath)
	if err != nil {
		return Event{}, &run.UserError{
			Message: "cannot read the job's event: " + err.Error(), Hint: "run this as a step of a GitHub Actions workflow",
			Err: err,
		}
	}
	defer func() { _ = f.Close() }()
	payload, err := io.ReadAll(io.LimitReader(f, maxEvent+1))
	if err != nil {
		return Event{}, fmt.Errorf("read the event: %w", err)
	}
	if len(payload) > maxEvent {
		return Event{}, fmt.Errorf("the event is larger than %d MiB", maxEvent>>20)
	}
	return parseEvent(e.EventName, payload)
}

func parseEvent(name string, payload []byte) (Event, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(payload, &fields); err != nil {
		return Event{}, fmt.Errorf("read the event: %w", err)
	}
	if fields == nil { // null
		return Event{}, errors.New("read the event: it is not an object")
	}
	var p struct {
		Action string `json:"action"`
		Sender struct {
			Login string `json:"login"`
			ID    int64  `json:"id"`
		} `json:"sender"`
		Issue struct {
			Number int `json:"number"`
		} `json:"issue"`
		PullRequest struct {
			Number int `json:"number"`
		} `json:"pull_request"`
		Review struct {
			ID int64 `json:"id"`
		} `json:"review"`
		WorkflowRun struct {
			Event          string `json:"event"`
			Conclusion     string `json:"conclusion"`
			DisplayTitle   string `json:"display_title"`
			HeadRepository struct {
				NodeID string `json:"node_id"`
			} `json:"head_repository"`
		} `json:"workflow_run"`
		Repository struct {
			NodeID        string `json:"node_id"`
			DefaultBranch string `json:"default_branch"`
			Private       bool   `json:"private"`
		} `json:"repository"`
		Installation struct {
			ID int64 `json:"id"`
		} `json:"installation"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return Event{}, fmt.Errorf("read the event: %w", err)
	}
	if p.Installation.ID == 0 {
		fields["installation"] = json.RawMessage(fmt.Sprintf(`{"id":%d}`, Installation))
		var err error
		if payload, err = json.Marshal(fields); err != nil {
			return Event{}, fmt.Errorf("read the event: %w", err)
		}
	}
	e := Event{
		Name: name, Payload: payload, Action: p.Action, Sender: p.Sender.Login, SenderID: p.Sender.ID,
		RepoNode: p.Repository.NodeID, DefaultBranch: p.Repository.DefaultBranch, Private: p.Repository.Private,
		Issue: p.Issue.Number,
	}
	if e.Issue == 0 {
		e.Issue = p.PullRequest.Number
	}
	if name == "pull_request_review" && p.Action == "submitted" {
		e.Review = p.Review.ID
	}
	// Only who may push to the repository has a workflow run from a branch of it; a
	// fork's could be called anything.
	if w := p.WorkflowRun; name == "workflow_run" && w.Event == "pull_request_review" && w.Conclusion == "success" &&
		w.HeadRepository.NodeID == e.RepoNode && e.RepoNode != "" {
		if m := relayed().FindStringSubmatch(w.DisplayTitle); m != nil {
			e.Review, _ = strconv.ParseInt(m[1], 10, 64) // so many digits fit
			e.Issue, _ = strconv.Atoi(m[2])
		}
	}
	return e, nil
}
