package handlers

import (
	"encoding/json"

	"github.com/org/ralph-action/internal/review"
)

// The identifiers of the buttons on the App's check runs.
const (
	ButtonStop  = "stop"
	ButtonRetry = "retry"
)

func checkRunActions() []string { return []string{"rerequested", "requested_action"} }

type checkRunPayload struct {
	common

	CheckRun struct {
		ExternalID string     `json:"external_id"`
		App        appPayload `json:"app"`
		Suite      struct {
			HeadBranch string `json:"head_branch"` // null for forks
		} `json:"check_suite"`
	} `json:"check_run"`
	RequestedAction struct {
		Identifier string `json:"identifier"`
	} `json:"requested_action"`
}

// checkRun decodes the check_run event: buttons on check runs of the App's own.
func (d *Decoder) checkRun(payload []byte) (Intent, error) {
	var p checkRunPayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	if p.CheckRun.App.ID != d.App {
		return nil, nil
	}
	var r required
	p.common.check(&r)
	if err := r.err(); err != nil {
		return nil, err
	}
	verb := review.VerbRetry
	switch {
	case p.Action == "rerequested":
	case p.Action == "requested_action" && p.RequestedAction.Identifier == ButtonRetry:
	case p.Action == "requested_action" && p.RequestedAction.Identifier == ButtonStop:
		verb = review.VerbStop
	default:
		return nil, nil
	}
	subject := p.subject()
	subject.Head = p.CheckRun.Suite.HeadBranch
	return ButtonIntent{Subject: subject, Verb: verb, Run: p.CheckRun.ExternalID}, nil
}
