package handlers

import (
	"encoding/json"
	"errors"
	"strings"
)

// issuesActions are the actions of the issues event that start, stop or are
// worth a word. One that is opened again does not start: its label is old.
func issuesActions() []string {
	return []string{"labeled", "unlabeled", "edited", "closed", "deleted", "transferred", "locked"}
}

type issuesPayload struct {
	common

	Label struct {
		Name string `json:"name"`
	} `json:"label"`
	Issue issuePayload `json:"issue"`
	// Comment is there where the payload is that of another event.
	Comment json.RawMessage `json:"comment"`
}

// errOfComment: the event's name is a header, which GitHub does not sign, and a comment
// that is deleted is no issue that is.
var errOfComment = errors.New("payload is that of a comment")

// issues decodes the issues event.
//
// Who may start runs is not asked here. Taking the label off by a program is not
// taken for someone's wish: swapping labels is what bots do, this one among
// them. An issue that is closed, locked or gone stops its run whoever did it; one
// that is made a discussion is both closed and locked.
func (d *Decoder) issues(payload []byte) (Intent, error) {
	var p issuesPayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	if p.Comment != nil {
		return nil, errOfComment
	}
	if p.Issue.PullRequest != nil {
		return nil, nil
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	subject := p.ofIssue(p.Issue)
	ours := strings.EqualFold(p.Label.Name, d.Label)
	switch p.Action {
	case "labeled":
		if !ours || p.Issue.State == "closed" {
			return nil, nil
		}
		return StartIntent{
			Subject:       subject,
			DefaultBranch: p.Repository.DefaultBranch,
			Private:       p.Repository.Private,
			Title:         p.Issue.Title,
			Body:          p.Issue.Body,
			Label:         p.Label.Name,
			IssueURL:      p.Issue.HTMLURL,
			Author:        p.Issue.User.author(),
		}, nil
	case "unlabeled":
		if !ours || p.Sender.Type != "User" {
			return nil, nil
		}
		return StopIntent{Subject: subject, Reason: StopUnlabeled}, nil
	case "edited":
		return EditIntent{Subject: subject, Text: p.Issue.text()}, nil
	case "closed":
		return StopIntent{Subject: subject, Reason: StopClosed}, nil
	case "deleted":
		return StopIntent{Subject: subject, Reason: StopDeleted}, nil
	case "transferred":
		return StopIntent{Subject: subject, Reason: StopTransferred}, nil
	case "locked":
		return StopIntent{Subject: subject, Reason: StopLocked}, nil
	default:
		return nil, nil
	}
}

// check refuses a payload that lacks what every issues event to an App has.
func (p *issuesPayload) check() error {
	var r required
	r.need(p.Issue.Number > 0, "issue.number")
	r.need(p.Issue.NodeID != "", "issue.node_id")
	p.common.check(&r)
	return r.err()
}
