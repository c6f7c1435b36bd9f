package handlers

import (
	"time"

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
	Title, Body string
	Author      Author
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
	Command Command
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
