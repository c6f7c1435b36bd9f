package handlers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/review"
	"github.com/org/ralph-action/internal/store"
)

// Intent is what an event asks for; the types below are all there are. It says
// what GitHub claims to have happened, not that it may be done or is still true.
type Intent interface{ intent() }

// Subject is the issue or pull request an event is about, and whoever made it
// happen.
type Subject struct {
	Owner, Repo string
	// RepoNode and IssueNode are node ids.
	RepoNode     string
	Installation int64
	// Issue is the issue's number, and Pull is 0; or it is the other way round.
	// Head is the pull request's branch, where the event names it.
	Issue, Pull int
	Head        string
	IssueNode   string
	// Sender is whose permission counts: who acted, not who wrote the issue.
	SenderLogin string
	SenderID    int64
	// SenderType is GitHub's: "User", "Bot" or "Organization".
	SenderType string
	// At is the issue's time of change, by GitHub's clock.
	At time.Time
}

// Author is who wrote a text that an event is about.
type Author struct {
	Login string
	ID    int64
	Type  string
}

// Text is an issue as it was at the moment of an event.
type Text struct {
	Title, Body string
	Author      Author
	// Closed: the issue, or the pull request, was closed.
	Closed bool
	Labels []string
}

// Comment is what somebody wrote, as it was at the moment of the event.
type Comment struct {
	ID     int64
	Body   string
	Author Author
	// App is the id of the GitHub App by which it was written, 0 for none.
	App int64
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
	Author        Author
}

// StopReason says what stopped a run.
type StopReason string

// The reasons to stop.
const (
	StopUnlabeled   StopReason = "unlabeled"
	StopClosed      StopReason = "closed"
	StopDeleted     StopReason = "deleted"
	StopTransferred StopReason = "transferred"
	StopLocked      StopReason = "locked"
	StopPullClosed  StopReason = "pull_closed"
	StopPullMerged  StopReason = "pull_merged"
)

// StopIntent asks the run of an issue or pull request, if there is one, to stop.
type StopIntent struct {
	Subject
	Reason StopReason
}

// EditIntent says that an issue's title or description was changed.
type EditIntent struct {
	Subject
	Text Text
}

// CommandIntent is a comment that is meant as a command. Problem says, for its
// author, why it is none, and Command is nothing then.
type CommandIntent struct {
	Subject
	Comment Comment
	Text    Text
	Command review.Command
	Problem string
	// Beside: the comment says something else as well.
	Beside bool
}

// RemarkIntent is a comment on an issue that is no command: maybe an answer.
type RemarkIntent struct {
	Subject
	Comment Comment
}

// WithdrawIntent says that what somebody wrote is no longer what it was, Source
// naming it as store.Input does.
type WithdrawIntent struct {
	Subject
	Source  string
	Deleted bool
}

// WakeIntent says that a pull request changed in a way that its run, if there is
// one, is to look at.
type WakeIntent struct {
	Subject
	What string
}

// FeedbackIntent is what people, or their checks, say of the work in a pull
// request. It is frozen and kept for the run.
type FeedbackIntent struct {
	Subject
	Kind store.InputKind
	// Source is unique for what was said; SourceID grows with time.
	Source   string
	SourceID int64
	Text     string
	Author   Author
	App      int64
	// Detail is what the kind needs besides: *Review, *ReviewComment, *Thread or
	// *Checks.
	Detail any
}

// Review is the detail of a store.InputReview.
type Review struct {
	ID       int64  `json:"id"`
	NodeID   string `json:"node_id,omitempty"`
	Verdict  string `json:"verdict"` // approved, changes_requested or commented
	CommitID string `json:"commit_id"`
}

// ReviewComment is the detail of a store.InputReviewComment.
type ReviewComment struct {
	ID       int64  `json:"id"`
	NodeID   string `json:"node_id"`
	ReviewID int64  `json:"review_id"`
	ReplyTo  int64  `json:"reply_to,omitempty"`
	Path     string `json:"path"`
	// Line and StartLine are lines of the file, 0 where the comment is on the whole
	// file or outdated.
	Line      int    `json:"line"`
	StartLine int    `json:"start_line"`
	DiffHunk  string `json:"diff_hunk"`
}

// Thread is the detail of a store.InputThread.
type Thread struct {
	NodeID   string  `json:"node_id"`
	Resolved bool    `json:"resolved"`
	Comments []int64 `json:"comments"`
}

// Checks is the detail of a store.InputChecks.
type Checks struct {
	SuiteID    int64  `json:"suite_id"`
	Head       string `json:"head"`
	Conclusion string `json:"conclusion"`
	App        string `json:"app"`
}

// RetryIntent says that somebody pressed the button on one of the App's own check
// runs, or asked to have the checks of a commit run again.
type RetryIntent struct {
	Subject
	// Run is what the check run was about, "" where a whole suite was meant.
	Run string
}

// InstallationIntent says that the App lost its access: to a whole installation,
// or to the repositories that are named.
type InstallationIntent struct {
	Subject
	// What happened, as people are told: "suspended".
	What string
	// Repositories are node ids; none means all of the installation's.
	Repositories []string
}

// RenameIntent says that a repository has another name from now on, or is gone,
// What saying how.
type RenameIntent struct {
	Subject
	What string
	Gone bool
}

func (StartIntent) intent()        {}
func (StopIntent) intent()         {}
func (EditIntent) intent()         {}
func (CommandIntent) intent()      {}
func (RemarkIntent) intent()       {}
func (WithdrawIntent) intent()     {}
func (WakeIntent) intent()         {}
func (FeedbackIntent) intent()     {}
func (RetryIntent) intent()        {}
func (InstallationIntent) intent() {}
func (RenameIntent) intent()       {}

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
		{"issues", issuesActions(), (*Decoder).issues},
		{"issue_comment", issueCommentActions(), (*Decoder).issueComment},
		{"pull_request", pullRequestActions(), (*Decoder).pullRequest},
		{"pull_request_review", reviewActions(), (*Decoder).review},
		{"pull_request_review_comment", reviewCommentActions(), (*Decoder).reviewComment},
		{"pull_request_review_thread", threadActions(), (*Decoder).thread},
		{"check_run", checkRunActions(), (*Decoder).checkRun},
		{"check_suite", checkSuiteActions(), (*Decoder).checkSuite},
		{"installation", installationActions(), (*Decoder).installation},
		{"installation_repositories", installationRepositoriesActions(), (*Decoder).installationRepositories},
		{"repository", repositoryActions(), (*Decoder).repository},
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

// common holds what every payload to an App has. Of each payload, only the
// fields we use are described, as GitHub documents them under "Webhook events
// and payloads", so that a change to others does no harm.
type common struct {
	Action       string            `json:"action"`
	Repository   repositoryPayload `json:"repository"`
	Installation struct {
		ID int64 `json:"id"`
	} `json:"installation"`
	Sender userPayload `json:"sender"`
}

type repositoryPayload struct {
	NodeID        string      `json:"node_id"`
	Name          string      `json:"name"`
	Private       bool        `json:"private"`
	DefaultBranch string      `json:"default_branch"`
	Owner         userPayload `json:"owner"`
}

type userPayload struct {
	Login string `json:"login"`
	ID    int64  `json:"id"`
	Type  string `json:"type"`
}

func (u userPayload) author() Author { return Author(u) }

// appPayload is the App by which something was written; GitHub has null where a
// person wrote it.
type appPayload struct {
	ID int64 `json:"id"`
}

type issuePayload struct {
	Number  int         `json:"number"`
	NodeID  string      `json:"node_id"`
	Title   string      `json:"title"`
	Body    string      `json:"body"` // null where there is none
	State   string      `json:"state"`
	HTMLURL string      `json:"html_url"`
	User    userPayload `json:"user"`
	Labels  []struct {
		Name string `json:"name"`
	} `json:"labels"`
	// PullRequest is there where the "issue" is a pull request.
	PullRequest *struct{} `json:"pull_request"`
	UpdatedAt   time.Time `json:"updated_at"`
}

func (i issuePayload) text() Text {
	t := Text{Title: i.Title, Body: i.Body, Author: i.User.author(), Closed: i.State == "closed"}
	for _, l := range i.Labels {
		t.Labels = append(t.Labels, l.Name)
	}
	return t
}

type pullPayload struct {
	Number int    `json:"number"`
	NodeID string `json:"node_id"`
	Merged bool   `json:"merged"`
	Base   struct {
		Ref string `json:"ref"`
	} `json:"base"`
	Head struct {
		Ref  string             `json:"ref"`
		Repo *repositoryPayload `json:"repo"` // null where it was deleted
	} `json:"head"`
	UpdatedAt time.Time `json:"updated_at"`
}

// required collects what a payload lacks.
type required []error

func (r *required) need(ok bool, field string) {
	if !ok {
		*r = append(*r, fmt.Errorf("payload has no %s", field))
	}
}

func (r *required) err() error { return errors.Join(*r...) }

// check refuses a payload that lacks what every one to an App has.
func (c *common) check(r *required) {
	r.need(c.Repository.NodeID != "", "repository.node_id")
	r.need(c.Repository.Name != "", "repository.name")
	r.need(c.Repository.Owner.Login != "", "repository.owner.login")
	r.need(c.Installation.ID > 0, "installation.id")
	c.checkSender(r)
}

func (c *common) checkSender(r *required) {
	r.need(c.Sender.Login != "", "sender.login")
	r.need(c.Sender.ID > 0, "sender.id")
}

func (c *common) subject() Subject {
	return Subject{
		Owner: c.Repository.Owner.Login, Repo: c.Repository.Name, RepoNode: c.Repository.NodeID,
		Installation: c.Installation.ID,
		SenderLogin:  c.Sender.Login, SenderID: c.Sender.ID, SenderType: c.Sender.Type,
	}
}

// ofIssue is the subject of an event about an issue or a pull request.
func (c *common) ofIssue(i issuePayload) Subject {
	s := c.subject()
	s.IssueNode, s.At = i.NodeID, i.UpdatedAt.UTC()
	if i.PullRequest != nil {
		s.Pull = i.Number
	} else {
		s.Issue = i.Number
	}
	return s
}

func (c *common) ofPull(p pullPayload) Subject {
	s := c.subject()
	s.Pull, s.Head, s.IssueNode, s.At = p.Number, p.Head.Ref, p.NodeID, p.UpdatedAt.UTC()
	if p.Head.Repo == nil || p.Head.Repo.NodeID != c.Repository.NodeID {
		s.Head = "" // a fork's branch says nothing about ours
	}
	return s
}

func (p pullPayload) check(r *required) {
	r.need(p.Number > 0, "pull_request.number")
	r.need(p.NodeID != "", "pull_request.node_id")
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
