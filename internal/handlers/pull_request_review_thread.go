package handlers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/store"
)

func threadActions() []string { return []string{"resolved", "unresolved"} }

type threadPayload struct {
	common

	PullRequest pullPayload `json:"pull_request"`
	UpdatedAt   string      `json:"updated_at"`
	Thread      struct {
		NodeID   string `json:"node_id"`
		Comments []struct {
			ID int64 `json:"id"`
		} `json:"comments"`
	} `json:"thread"`
}

// thread decodes the pull_request_review_thread event. A thread may be resolved
// and opened again any number of times, each of which is said anew.
func (d *Decoder) thread(payload []byte) (Intent, error) {
	var p threadPayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	var r required
	p.PullRequest.check(&r)
	r.need(p.Thread.NodeID != "", "thread.node_id")
	p.common.check(&r)
	if err := r.err(); err != nil {
		return nil, err
	}
	if p.Action != "resolved" && p.Action != "unresolved" {
		return nil, nil
	}
	detail := &Thread{NodeID: p.Thread.NodeID, Resolved: p.Action == "resolved"}
	for _, c := range p.Thread.Comments {
		detail.Comments = append(detail.Comments, c.ID)
	}
	subject := p.ofPull(p.PullRequest)
	// GitHub's description has the time as optional.
	at := cmp.Or(p.UpdatedAt, subject.At.Format(time.RFC3339))
	return FeedbackIntent{
		Subject: subject, Kind: store.InputThread, Source: fmt.Sprintf("thread:%s:%s:%s", p.Thread.NodeID, p.Action, at),
		SourceID: subject.At.Unix(), Author: p.Sender.author(), Detail: detail,
	}, nil
}
