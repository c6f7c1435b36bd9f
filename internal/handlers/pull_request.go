package handlers

import "encoding/json"

// pullRequestActions are those that concern a run that works on the pull
// request.
func pullRequestActions() []string {
	return []string{"closed", "edited", "synchronize", "converted_to_draft", "ready_for_review"}
}

type pullRequestPayload struct {
	common

	PullRequest pullPayload `json:"pull_request"`
}

// pullRequest decodes the pull_request event. Nobody's permission is asked:
// closing stops, which costs nobody anything, and all else only makes the run
// look at what is there.
func (d *Decoder) pullRequest(payload []byte) (Intent, error) {
	var p pullRequestPayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	var r required
	p.PullRequest.check(&r)
	p.common.check(&r)
	if err := r.err(); err != nil {
		return nil, err
	}
	subject := p.ofPull(p.PullRequest)
	switch p.Action {
	case "closed":
		stop := StopIntent{Subject: subject, Reason: StopPullClosed}
		if p.PullRequest.Merged {
			stop.Reason = StopPullMerged
		}
		return stop, nil
	case "edited", "synchronize", "converted_to_draft", "ready_for_review":
		return WakeIntent{Subject: subject, What: p.Action}, nil
	default:
		return nil, nil
	}
}
