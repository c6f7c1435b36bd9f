package handlers

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Intent is what an event asks for: a StartIntent or a StopIntent. It says what
// GitHub claims to have happened, not that it may be done or is still true.
type Intent interface{ intent() }

// Subject is the issue an event is about, and whoever made it happen.
type Subject struct {
	Owner, Repo string
	// RepoNode and IssueNode are node ids.
	RepoNode     string
	Installation int64
	Issue        int
	IssueNode    string
	// Sender is whose permission counts: who acted, not who wrote the issue.
	SenderLogin string
	SenderID    int64
	// SenderType is GitHub's: "User", "Bot" or "Organization".
	SenderType string
	// At is the issue's time of change, by GitHub's clock.
	At time.Time
}

// StartIntent asks for a run: the label was put on an issue. Title and Body are
// the issue's at that moment, which is what a person approved by labelling it.
type StartIntent struct {
	Subject
	DefaultBranch string
	Private       bool
	Title         string
	Body          string
	Label         string
	IssueURL      string
}

// StopReason says what stopped a run.
type StopReason string

// The reasons to stop.
const (
	StopUnlabeled   StopReason = "unlabeled"
	StopClosed      StopReason = "closed"
	StopDeleted     StopReason = "deleted"
	StopTransferred StopReason = "transferred"
)

// StopIntent asks the issue's run, if there is one, to stop.
type StopIntent struct {
	Subject
	Reason StopReason
}

func (StartIntent) intent() {}
func (StopIntent) intent()  {}

// Decoder turns stored deliveries into intents. The zero value is of no use:
// it wants the label.
type Decoder struct {
	// Label is the name of the label that starts a run. GitHub's label names
	// differ in more than case, so case is ignored.
	Label string
}

// maxDepth is far beyond the nesting of any of GitHub's payloads, which stay
// below ten.
const maxDepth = 64

// errTooDeep: the payload was not made by GitHub.
var errTooDeep = errors.New("payload nests too deep")

// event says how one kind of webhook event is handled.
type event struct {
	name string
	// actions are those worth storing; others say nothing to us.
	actions []string
	decode  func(d *Decoder, payload []byte) (Intent, error)
}

// events lists what is handled.
func events() []event {
	return []event{
		{name: "issues", actions: issuesActions(), decode: (*Decoder).issues},
	}
}

func eventNames() []string {
	var names []string
	for _, e := range events() {
		names = append(names, e.name)
	}
	return names
}

func handles(name, action string) bool {
	return slices.ContainsFunc(events(), func(e event) bool {
		return e.name == name && slices.Contains(e.actions, action)
	})
}

// Decode says what the payload of an event asks for; nil is nothing. An error
// means that the payload is not one that GitHub sends for this event, and that
// decoding it again would not help.
func (d *Decoder) Decode(name string, payload []byte) (Intent, error) {
	if nestsTooDeep(payload) {
		return nil, fmt.Errorf("decode %s event: %w", name, errTooDeep)
	}
	for _, e := range events() {
		if e.name != name {
			continue
		}
		intent, err := e.decode(d, payload)
		if err != nil {
			return nil, fmt.Errorf("decode %s event: %w", name, err)
		}
		return intent, nil
	}
	return nil, nil
}

// nestsTooDeep says whether JSON nests deeper than maxDepth, without recursion
// and before anything else looks at it. On what is not JSON the answer is of no
// use, and of no harm.
func nestsTooDeep(payload []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(payload); i++ {
		switch c := payload[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
