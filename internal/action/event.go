package action

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// maxEvent is the most that GitHub delivers.
const maxEvent = 25 << 20

// installation stands for the one that a job's token belongs to, whose number a job is not told.
const installation = 1

// event is what started the workflow.
type event struct {
	// name is the event's: "issues".
	name string
	// payload is GitHub's webhook payload, as an App would get it.
	payload []byte
	action  string
	// login is who made it happen, "" for nobody.
	login string
	// repoNode is the repository's node id. private: only members see it; false where it is not said.
	repoNode string
	private  bool
	// issue is the number of the issue that a person names by hand, 0 for none.
	issue int
	// pull and review are the pull request and the review that was submitted of it, 0 for none.
	pull   int
	review int64
}

// readEvent reads the event of the job.
func readEvent(e environment) (event, error) {
	f, err := os.Open(e.eventPath)
	if err != nil {
		return event{}, &run.UserError{
			Message: "cannot read the job's event: " + err.Error(), Hint: "run this as a step of a GitHub Actions workflow",
			Err: err,
		}
	}
	defer func() { _ = f.Close() }()
	payload, err := io.ReadAll(io.LimitReader(f, maxEvent+1))
	if err != nil {
		return event{}, fmt.Errorf("read the event: %w", err)
	}
	if len(payload) > maxEvent {
		return event{}, fmt.Errorf("the event is larger than %d MiB", maxEvent>>20)
	}
	return parseEvent(e.eventName, payload)
}

func parseEvent(name string, payload []byte) (event, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(payload, &fields); err != nil {
		return event{}, fmt.Errorf("read the event: %w", err)
	}
	if fields == nil { // null
		return event{}, errors.New("read the event: it is not an object")
	}
	var p struct {
		Action string `json:"action"`
		Sender struct {
			Login string `json:"login"`
		} `json:"sender"`
		PullRequest struct {
			Number int `json:"number"`
		} `json:"pull_request"`
		Review struct {
			ID int64 `json:"id"`
		} `json:"review"`
		Repository struct {
			NodeID  string `json:"node_id"`
			Private bool   `json:"private"`
		} `json:"repository"`
		Installation struct {
			ID int64 `json:"id"`
		} `json:"installation"`
		Inputs struct {
			Issue json.RawMessage `json:"issue"`
		} `json:"inputs"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return event{}, fmt.Errorf("read the event: %w", err)
	}
	if p.Installation.ID == 0 {
		fields["installation"] = json.RawMessage(fmt.Sprintf(`{"id":%d}`, installation))
		var err error
		if payload, err = json.Marshal(fields); err != nil {
			return event{}, fmt.Errorf("read the event: %w", err)
		}
	}
	e := event{
		name: name, payload: payload, action: p.Action, login: p.Sender.Login, repoNode: p.Repository.NodeID, private: p.Repository.Private,
	}
	switch name {
	case "pull_request_review":
		if p.Action == "submitted" {
			e.pull, e.review = p.PullRequest.Number, p.Review.ID
		}
	case "workflow_dispatch":
		number := string(p.Inputs.Issue)
		if text, err := strconv.Unquote(number); err == nil { // GitHub gives numbers as text
			number = text
		}
		var err error
		if e.issue, err = strconv.Atoi(number); err != nil || e.issue < 1 {
			return event{}, &run.UserError{
				Message: "the workflow was started by hand without the number of an issue",
				Hint:    "give the workflow an input `issue`, as examples/workflows/ralph.yml does, and fill it in",
			}
		}
	}
	return e, nil
}

// delivery is the event as a webhook would bring it.
func (e event) delivery(guid string) store.Delivery {
	return store.Delivery{
		GUID: guid, Event: e.name, Action: e.action, Installation: installation, RepoNode: e.repoNode, Body: e.payload,
		ReceivedAt: time.Now(),
	}
}

// as is another event of the same repository, as an App would get it: fields take the place of
// what the payload has by their names.
func (e event) as(name, action string, fields object) (event, error) {
	var had map[string]json.RawMessage
	if err := json.Unmarshal(e.payload, &had); err != nil {
		return event{}, fmt.Errorf("read the event: %w", err)
	}
	payload := object{}
	for field, value := range had { // as it is: numbers may be larger than a float64 can hold
		payload[field] = value
	}
	maps.Copy(payload, fields)
	payload["action"] = action
	body, err := json.Marshal(payload)
	if err != nil {
		return event{}, fmt.Errorf("describe an event: %w", err)
	}
	e.name, e.action, e.payload = name, action, body
	return e, nil
}

type object = map[string]any
