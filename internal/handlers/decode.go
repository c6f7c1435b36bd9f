package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"
)

// Decoder turns stored deliveries into intents. The zero value is of no use:
// it wants the label.
type Decoder struct {
	// Label is the name of the label that starts a run. GitHub's label names
	// differ in more than case, so case is ignored.
	Label string
	// App is the App's own id.
	App int64
}

// maxDepth is far beyond the nesting of any of GitHub's payloads, which stay
// below ten.
const maxDepth = 64

var (
	// errTooDeep: the payload was not made by GitHub.
	errTooDeep = errors.New("payload nests too deep")
	// errOfComment: the event's name is a header, which GitHub does not sign, and a comment
	// that is deleted is no issue that is.
	errOfComment = errors.New("payload is that of a comment")
)

// event says how one kind of webhook event is handled.
type event struct {
	name string
	// actions are those worth storing; others say nothing to us.
	actions []string
	decode  func(d *Decoder, payload []byte) (Intent, error)
}

// extra is what go-github does not know of payloads.
type extra struct {
	// Comment is there where the payload is that of a comment.
	Comment   *written `json:"comment"`
	Review    *written `json:"review"`
	UpdatedAt string   `json:"updated_at"`
}

// written is a text; App is the App by which it was, null where a person wrote it.
type written struct {
	App *struct {
		ID int64 `json:"id"`
	} `json:"performed_via_github_app"`
}

// app is the id of the App by which a text was written, 0 for none.
func (w *written) app() int64 {
	if w == nil || w.App == nil {
		return 0
	}
	return w.App.ID
}

// of reads a payload as one of go-github's types.
func of[E any](decode func(d *Decoder, e *E, more extra) (Intent, error)) func(*Decoder, []byte) (Intent, error) {
	return func(d *Decoder, payload []byte) (Intent, error) {
		var e E
		var more extra
		if err := errors.Join(json.Unmarshal(payload, &e), json.Unmarshal(payload, &more)); err != nil {
			return nil, err
		}
		return decode(d, &e, more)
	}
}

// events lists what is handled. An issue that is opened again does not start: its label is old.
// Only a new comment can command; one that is edited or deleted withdraws what it said, as
// long as nobody has acted on it. What the App gains access to is found when it is used.
func events() []event {
	return []event{
		{"issues", []string{"labeled", "unlabeled", "edited", "closed", "deleted", "transferred", "locked"},
			of((*Decoder).issues)},
		{"issue_comment", []string{"created", "edited", "deleted"}, of((*Decoder).issueComment)},
		{"pull_request", []string{"closed", "edited", "synchronize", "converted_to_draft", "ready_for_review"},
			of((*Decoder).pullRequest)},
		{"pull_request_review", []string{"submitted", "edited", "dismissed"}, of((*Decoder).review)},
		{"pull_request_review_comment", []string{"created", "edited", "deleted"}, of((*Decoder).reviewComment)},
		{"pull_request_review_thread", []string{"resolved", "unresolved"}, of((*Decoder).thread)},
		{"check_run", []string{"rerequested", "requested_action"}, of((*Decoder).checkRun)},
		{"check_suite", []string{"rerequested", "completed"}, of((*Decoder).checkSuite)},
		{"installation", []string{"deleted", "suspend"}, of((*Decoder).installation)},
		{"installation_repositories", []string{"removed"}, of((*Decoder).installationRepositories)},
		{"repository", []string{"renamed", "transferred", "deleted", "archived"}, of((*Decoder).repository)},
	}
}

func eventNames() []string {
	var names []string
	for _, e := range events() {
		names = append(names, e.name)
	}
	return names
}

// Subscriptions are the events that an App has to subscribe to. GitHub sends
// those of its installations to every App.
func Subscriptions() []string {
	return slices.DeleteFunc(eventNames(), func(name string) bool { return strings.HasPrefix(name, "installation") })
}

// Handles says whether an event is taken in.
func Handles(name, action string) bool {
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

// hook is what every payload to an App has.
type hook interface {
	GetSender() *github.User
	GetInstallation() *github.Installation
}

// repoHook is a hook about a repository.
type repoHook interface {
	hook
	GetRepo() *github.Repository
}

// field is a part of a payload that has to be there.
type field struct {
	name  string
	there bool
}

// require refuses a payload that lacks something.
func require(fields ...field) error {
	var errs []error
	for _, f := range fields {
		if !f.there {
			errs = append(errs, fmt.Errorf("payload has no %s", f.name))
		}
	}
	return errors.Join(errs...)
}

// senderOf is who made an event happen.
func senderOf(h hook) (Subject, error) {
	by := h.GetSender()
	s := Subject{
		Installation: h.GetInstallation().GetID(),
		SenderLogin:  by.GetLogin(), SenderID: by.GetID(), SenderType: by.GetType(),
	}
	return s, require(field{"installation.id", s.Installation > 0}, field{"sender.login", s.SenderLogin != ""},
		field{"sender.id", s.SenderID > 0})
}

// subjectOf is the subject of an event in a repository.
func subjectOf(h repoHook) (Subject, error) {
	s, err := senderOf(h)
	repo := h.GetRepo()
	s.Owner, s.Repo, s.RepoNode = repo.GetOwner().GetLogin(), repo.GetName(), repo.GetNodeID()
	return s, errors.Join(err, require(field{"repository.node_id", s.RepoNode != ""}, field{"repository.name", s.Repo != ""},
		field{"repository.owner.login", s.Owner != ""}))
}

// ofIssue is the subject of an event about an issue or a pull request.
func ofIssue(h repoHook, i *github.Issue) (Subject, error) {
	s, err := subjectOf(h)
	s.IssueNode, s.At = i.GetNodeID(), i.GetUpdatedAt().UTC()
	if i.GetPullRequestLinks() != nil {
		s.Pull = i.GetNumber()
	} else {
		s.Issue = i.GetNumber()
	}
	return s, errors.Join(err, require(field{"issue.number", i.GetNumber() > 0}, field{"issue.node_id", s.IssueNode != ""}))
}

// ofPull is the subject of an event about a pull request.
func ofPull(h repoHook, p *github.PullRequest) (Subject, error) {
	s, err := subjectOf(h)
	s.Pull, s.Head, s.IssueNode, s.At = p.GetNumber(), p.GetHead().GetRef(), p.GetNodeID(), p.GetUpdatedAt().UTC()
	if p.GetHead().GetRepo().GetNodeID() != s.RepoNode {
		s.Head = "" // a fork's branch says nothing about ours
	}
	return s, errors.Join(err, require(field{"pull_request.number", s.Pull > 0}, field{"pull_request.node_id", s.IssueNode != ""}))
}

func authorOf(u *github.User) Author {
	return Author{Login: u.GetLogin(), ID: u.GetID(), Type: u.GetType()}
}

func textOf(i *github.Issue) Text {
	t := Text{Title: i.GetTitle(), Body: i.GetBody(), Author: authorOf(i.GetUser()), Closed: i.GetState() == "closed"}
	for _, l := range i.Labels {
		t.Labels = append(t.Labels, l.GetName())
	}
	return t
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
