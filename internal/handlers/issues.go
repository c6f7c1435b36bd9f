package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// issuesActions are the actions of the issues event that start or stop.
func issuesActions() []string {
	return []string{"labeled", "unlabeled", "closed", "deleted", "transferred"}
}

// issuesPayload holds the fields we use of the issues event, as GitHub documents
// it under "Webhook events and payloads". Others are not looked at, so that a
// change to them does no harm.
type issuesPayload struct {
	Action string `json:"action"`
	Label  struct {
		Name string `json:"name"`
	} `json:"label"`
	Issue struct {
		Number  int    `json:"number"`
		NodeID  string `json:"node_id"`
		Title   string `json:"title"`
		Body    string `json:"body"` // null where there is none
		State   string `json:"state"`
		HTMLURL string `json:"html_url"`
		// PullRequest is there where the "issue" is a pull request.
		PullRequest *struct{} `json:"pull_request"`
		UpdatedAt   time.Time `json:"updated_at"`
	} `json:"issue"`
	Repository struct {
		NodeID        string `json:"node_id"`
		Name          string `json:"name"`
		Private       bool   `json:"private"`
		DefaultBranch string `json:"default_branch"`
		Owner         struct {
			Login string `json:"login"`
		} `json:"owner"`
	} `json:"repository"`
	Installation struct {
		ID int64 `json:"id"`
	} `json:"installation"`
	Sender struct {
		Login string `json:"login"`
		ID    int64  `json:"id"`
		Type  string `json:"type"`
	} `json:"sender"`
}

// issues decodes the issues event.
//
// Only people start runs. Taking the label off by a program is not taken for
// someone's wish either: swapping labels is what bots do, this one among them.
// An issue that is closed or gone stops its run whoever did it.
func (d *Decoder) issues(payload []byte) (Intent, error) {
	var p issuesPayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	if p.Issue.PullRequest != nil {
		return nil, nil
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	ours := strings.EqualFold(p.Label.Name, d.Label)
	person := p.Sender.Type == "User"
	switch p.Action {
	case "labeled":
		if !ours || !person || p.Issue.State == "closed" {
			return nil, nil
		}
		return StartIntent{
			Subject:       p.subject(),
			DefaultBranch: p.Repository.DefaultBranch,
			Private:       p.Repository.Private,
			Title:         p.Issue.Title,
			Body:          p.Issue.Body,
			Label:         p.Label.Name,
			IssueURL:      p.Issue.HTMLURL,
		}, nil
	case "unlabeled":
		if !ours || !person {
			return nil, nil
		}
		return StopIntent{Subject: p.subject(), Reason: StopUnlabeled}, nil
	case "closed":
		return StopIntent{Subject: p.subject(), Reason: StopClosed}, nil
	case "deleted":
		return StopIntent{Subject: p.subject(), Reason: StopDeleted}, nil
	case "transferred":
		return StopIntent{Subject: p.subject(), Reason: StopTransferred}, nil
	default:
		return nil, nil
	}
}

// check refuses a payload that lacks what every issues event to an App has.
func (p *issuesPayload) check() error {
	var errs []error
	need := func(ok bool, field string) {
		if !ok {
			errs = append(errs, fmt.Errorf("payload has no %s", field))
		}
	}
	need(p.Issue.Number > 0, "issue.number")
	need(p.Issue.NodeID != "", "issue.node_id")
	need(p.Repository.NodeID != "", "repository.node_id")
	need(p.Repository.Name != "", "repository.name")
	need(p.Repository.Owner.Login != "", "repository.owner.login")
	need(p.Installation.ID > 0, "installation.id")
	need(p.Sender.Login != "", "sender.login")
	need(p.Sender.ID > 0, "sender.id")
	return errors.Join(errs...)
}

func (p *issuesPayload) subject() Subject {
	return Subject{
		Owner:        p.Repository.Owner.Login,
		Repo:         p.Repository.Name,
		RepoNode:     p.Repository.NodeID,
		Installation: p.Installation.ID,
		Issue:        p.Issue.Number,
		IssueNode:    p.Issue.NodeID,
		SenderLogin:  p.Sender.Login,
		SenderID:     p.Sender.ID,
		SenderType:   p.Sender.Type,
		At:           p.Issue.UpdatedAt.UTC(),
	}
}
