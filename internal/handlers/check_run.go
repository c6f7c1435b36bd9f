package handlers

import (
	"encoding/json"
)

// ButtonRetry is the identifier of the button on the App's check runs.
const ButtonRetry = "retry"

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
	if p.Action != "rerequested" && (p.Action != "requested_action" || p.RequestedAction.Identifier != ButtonRetry) {
		return nil, nil
	}
	subject := p.subject()
	subject.Head = p.CheckRun.Suite.HeadBranch
	return RetryIntent{Subject: subject, Run: p.CheckRun.ExternalID}, nil
}
