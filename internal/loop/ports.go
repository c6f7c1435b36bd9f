package loop

import (
	"context"
	"errors"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// Handle names a started process to whoever started it. It is stored with the
// state and must be good in another process after a restart.
type Handle string

// Opened is what is found when a work tree is laid out.
type Opened struct {
	Branch     string // branch the work goes to
	BaseBranch string // branch it is to be merged into, "" locally
	Base       string // commit it starts from
	BaseTree   string
	Head       string // tip of the branch, equal to Base on a new one
	HeadTree   string
	// DefaultTree is the default branch's, "" where the run works on that branch itself,
	// or none is known: then agents may have written what is there.
	DefaultTree string
	// Templates are the prompts with the repository's own put in.
	Templates prompt.Templates
	Settings  Settings
	// Setup is what has to run first, nil for nothing; SetupKey is what it
	// makes, or has made before, is known by.
	Setup    *Setup
	SetupKey string
	// Earlier is what the branch tells of the runs before, without bounds.
	Earlier Earlier
	// LastProgress is the last progress file of the run's subject that the branch had, for
	// a state that is outdated; nil where there was none.
	LastProgress *progress.Doc
	// Findings are what people are to know of how the work is done.
	Findings []gate.Finding
}

// Settings are what a repository's own configuration says of a run, already
// reconciled with what the door allows. Zero fields say nothing.
type Settings struct {
	Limits  run.Limits
	Gates   []gate.Gate
	Quality gate.Quality
	Image   string
	// Egress are the hosts that the repository lets sandboxes reach, of those that
	// the operator does; nil leaves it to the operator.
	Egress []string
	Model  string
	// Ask says whether a planner may ask a person instead of planning.
	Ask plan.Ask
	// NeedsApproval: a person approves the plan before it is worked.
	NeedsApproval bool
	// KeepProgress leaves progress.md on the branch when the run completes.
	KeepProgress bool
	// Roles and Review are how the run is worked.
	Roles  map[run.Role]RoleSettings
	Review ReviewPolicy
	// MergedNotes are what earlier, merged work in the repository noted. Others wrote it.
	MergedNotes string
	// Protected are patterns of paths that only a person may change, besides those that
	// always are.
	Protected []string
}

// RoleSettings are the model and the limits of a role; zero fields leave the
// run's model and the agent's own limits.
type RoleSettings struct {
	Model     string
	MaxTurns  int
	DenyTools []string
}

// Change is one path that differs between two trees.
type Change struct {
	Path string
	// Status is A (added), M (modified), D (deleted) or T (type changed).
	Status string
	// OldMode and NewMode are git file modes, 0 where there is no file.
	OldMode, NewMode uint32
}

// Refusal is a path that must not be read or published, and why.
type Refusal struct {
	// Path is "." where nothing of the work tree could be stored.
	Path   string
	Reason string
	// LeftOut: it is what tools make beside the work, and no fault.
	LeftOut bool `json:",omitempty"`
}

// ErrNoWorkTree is returned where the work tree is gone: this machine is
// another one, or somebody has tidied it up. It is laid out again from the branch.
var ErrNoWorkTree = errors.New("loop: the work tree is gone")

// Work is the directory that agents work in, as the host sees it, and the git trees that the host
// has stored. Everything in the directory is hostile data. Trees never change; what makes one of
// another gives its name. All that reads them sees plain files only.
type Work interface {
	// Open says where the branch stands. The tree of its tip is laid out then or when it is
	// first needed: a run that waits for its place need not hold one. Opening again brings
	// the tree back to the tip.
	Open(ctx context.Context, s State) (Opened, error)
	// Reset makes the work tree exactly the given tree.
	Reset(ctx context.Context, tree string) error
	// Snapshot stores the work tree as a git tree. Refused paths are not in it, nor
	// is the .git of nested folders, which were made repositories of their own.
	Snapshot(ctx context.Context) (tree string, refused []Refusal, err error)

	// Has says whether a tree is still there: they last as long as the run's directory.
	Has(ctx context.Context, tree string) (bool, error)
	// File reads a file of a tree; ok is false where there is no plain file of
	// at most limit bytes at that path.
	File(ctx context.Context, tree, path string, limit int64) (content []byte, ok bool, err error)
	// Progress reads a progress file of a tree, without secrets that agents wrote into it. nil where
	// there is none that can be read: unreadable then says why, and is "" where nothing stands there.
	Progress(ctx context.Context, tree, path string) (_ *progress.Doc, unreadable string, _ error)
	// Names lists the root of a tree; names of folders end in "/".
	Names(ctx context.Context, tree string) ([]string, error)
	// Changes lists what differs from one tree to another.
	Changes(ctx context.Context, from, to string) ([]Change, error)
	// Patch is the difference between two trees as text, the first limit bytes
	// of it where it is longer, and nothing where it takes too long to make.
	Patch(ctx context.Context, from, to string, limit int) (string, error)
	// Secrets finds what looks like a secret in the files that differ from one
	// tree to another and was in none of them before.
	Secrets(ctx context.Context, from, to string) ([]gate.Leak, error)
	// With is tree with content as the plain file at path, whatever stands there.
	With(ctx context.Context, tree, path string, content []byte) (string, error)
	// Without is tree with everything below the folder dir taken out.
	Without(ctx context.Context, tree, dir string) (string, error)
	// Restore is tree with the files at paths as they are in from.
	Restore(ctx context.Context, tree, from string, paths []string) (string, error)
	// Fold merges what theirs changed of base into ours. Where both changed the same lines
	// there is no tree, and conflicts are the paths.
	Fold(ctx context.Context, base, ours, theirs string) (tree string, conflicts []string, err error)
}

// AgentStart asks for one fresh agent process on the work tree.
type AgentStart struct {
	Name   string
	Mode   run.Mode
	Role   run.Role
	Prompt string
	// Model is "" for the agent's own default; MaxTurns is 0 for no limit.
	Model     string
	MaxTurns  int
	DenyTools []string
	// Progress is what the agent finds at ProgressPath. It is written before
	// the process starts, and not again where the process is there already.
	Progress     *progress.Doc
	ProgressPath string
	Wall, Idle   time.Duration
	Attempt      int
}

// GateStart asks for one check on one tree.
type GateStart struct {
	Name string
	Gate gate.Gate
	Tree string
	// Of says for people what the tree is, where that is not what was proposed.
	Of string
	// Trust says whose code is in the tree.
	Trust Trust
}

// Trust says whose code a check executes. What one kind leaves behind, such as
// build caches, must never reach one that is trusted more.
type Trust string

// The kinds of code, least trusted first.
const (
	// TrustRun: agents of this run wrote some of it.
	TrustRun Trust = ""
	// TrustBase: it is what the run began from, which is the default branch.
	TrustBase Trust = "base"
	// TrustDefault: these are the set-up commands, on the default branch.
	TrustDefault Trust = "default"
)

// Outcome says how an agent call ended, in the terms the loop decides by.
type Outcome string

// How an agent call may end.
const (
	// AgentCompleted: it ended by itself and says it went well.
	AgentCompleted Outcome = "completed"
	// AgentGaveUp: it ended by itself with an error of its own making, such as
	// too many turns, or without any result. An attempt at the task.
	AgentGaveUp Outcome = "gave_up"
	// AgentTimedOut: it was stopped for silence or for taking too long.
	AgentTimedOut Outcome = "timed_out"
	// AgentBroken: it crashed, could not be started, or the provider refused it
	// (see AgentStatus.DoFirst). Not an attempt at the task.
	AgentBroken Outcome = "broken"
	// AgentRateLimited: the provider asked to come back later. A wait.
	AgentRateLimited Outcome = "rate_limited"
	// AgentOverBudget: the gateway refused a request that the budget does not
	// cover.
	AgentOverBudget Outcome = "over_budget"
	// AgentOverTaskBudget: as AgentOverBudget, where only the task's own budget
	// is used up.
	AgentOverTaskBudget Outcome = "over_task_budget"
	// AgentCrowded: it was stopped because the machine's disk is nearly full. Not an
	// attempt at the task.
	AgentCrowded Outcome = "crowded"
)

// AgentStatus is what is known of an agent process.
type AgentStatus struct {
	Running bool
	Outcome Outcome
	// Final is the last text the agent said.
	Final string
	// Detail is what went wrong, in the agent's or the provider's words.
	Detail string
	// DoFirst is set where it is broken for a reason that the next call meets, too,
	// such as an account without credit: what a person does first about it.
	DoFirst string
	// Lasts is set beside DoFirst where the next call cannot go better before a
	// person has done that: a wrong key is not right the second time.
	Lasts bool
	// Limit says in a word or two what the provider limits, on AgentRateLimited, such as
	// "Rate limited"; "" where that is not known.
	Limit string
	// Activity is what it did, counted.
	Activity run.Activity
	Usage    run.Usage
	Model    string
	// Models is what was used of each model, and Hosts what was reached or
	// blocked, as far as a gateway knows.
	Models   []run.ModelUse
	Hosts    []run.HostUse
	RetryAt  time.Time
	Started  time.Time
	Finished time.Time
}

// GateStatus is what is known of a running check.
type GateStatus struct {
	Running bool
	Result  gate.Result
	// Hosts is what was reached or blocked, as far as a gateway knows.
	Hosts []run.HostUse
}

// Errors of Observe for a process whose end nobody can tell of. The iteration
// is repeated.
var (
	// ErrGone: it and what it left behind no longer exist, or it ended with the
	// process that owned it: not its fault.
	ErrGone = errors.New("loop: the process and its record are gone")
	// ErrLost: it was ended from outside, or ended its own parent.
	ErrLost = errors.New("loop: the process was lost")
)

// Runner starts and observes agents and checks in sandboxes.
type Runner interface {
	// StartAgent starts a fresh agent, or finds the one of that name.
	StartAgent(ctx context.Context, s State, a AgentStart) (Handle, error)
	ObserveAgent(ctx context.Context, h Handle) (AgentStatus, error)
	// StartGate starts a check on a clean copy of the tree.
	StartGate(ctx context.Context, s State, g GateStart) (Handle, error)
	ObserveGate(ctx context.Context, h Handle) (GateStatus, error)
	// Stop ends the process and all it started. Stopping twice is fine.
	Stop(ctx context.Context, h Handle, reason string) error
	// Remove forgets the process; nothing of it is left but its transcript.
	Remove(ctx context.Context, h Handle) error
	// Abandon ends and forgets what may have been started under the name,
	// where the start was not noted any more.
	Abandon(ctx context.Context, name string) error
}

// FailedAttempt is what a call changed, and why that is not committed.
type FailedAttempt struct {
	Run       run.ID
	Iteration int
	Task      run.Task
	// Head is the commit that it began from, From the tree that the work stood at, To the
	// same with the call's changes.
	Head, From, To string
	Why            string
}

// Landing is a proposal that passed and is to become a commit.
type Landing struct {
	State     State
	Iteration int
	Task      run.Task
	Tree      string
	Model     string
	// CostUSD is what the run has cost since its last commit, whatever for.
	CostUSD float64
	// Own are the paths that the host itself changed, which policy would keep
	// from an agent.
	Own []string
	// Closing marks the commit that removes progress.md at the end.
	Closing bool
	// Planned marks the commit that holds a plan and nothing else, Recorded the
	// one that keeps the notes of a run that stopped short.
	Planned  bool
	Recorded bool
}

// Landed is a commit on the branch.
type Landed struct {
	// OID is "" where the tree was put in place and commits are not wanted.
	OID     string
	Tree    string
	Subject string
	TaskID  string
	// Verified is GitHub's word that the commit is signed; nil where nobody
	// signs.
	Verified *bool
	// Summary is what the agent said of its work at its end, on one line, "" where
	// that is not known.
	Summary string `json:",omitempty"`
}

// Publisher brings results to where people see them.
type Publisher interface {
	// Begin tells that the run has begun.
	Begin(ctx context.Context, s State) error
	// Land makes the tree a commit on the branch. Landing the same iteration
	// and tree again finds the commit that is there.
	Land(ctx context.Context, l Landing) (Landed, error)
	// Show brings the pull request up to date with the state; nil where there
	// is none. Where people have edited its task list since the state's own
	// PullRequest.Body, it leaves the text alone and hands the Edit over; shown
	// again with that Body, it goes on. As long as the run has not ended it may
	// put it off and give what the state has: see PullRequest.Head and
	// Engine.Refresh.
	Show(ctx context.Context, s State) (*PullRequest, error)
	// Screen says which changes cannot be part of a commit of an agent's: they are put back, and
	// the rest goes on without them.
	Screen(s State, changes []Change) []Refusal
}
