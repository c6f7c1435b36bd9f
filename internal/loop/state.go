package loop

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// Stage is the exact point a run has reached within its phase. Each one is
// persisted; a crash resumes there.
type Stage string

// The stages, in the order a run without failures goes through them.
const (
	stageOpen      Stage = "open"       // say where the branch stands, find the progress file
	stageSetup     Stage = "setup"      // tell people that the run has begun, run the set-up commands
	stagePick      Stage = "pick"       // exit conditions, then the next task
	stageStart     Stage = "start"      // start the agent
	stageWatch     Stage = "watch"      // the agent works; when it ends, its tree is stored
	stagePropose   Stage = "propose"    // act on what it left and said
	stageGate      Stage = "gate"       // start the next check, of the task or of the end
	stageGateWatch Stage = "gate_watch" // the check runs
	stageLand      Stage = "land"       // commit
	stageShow      Stage = "show"       // bring what people see up to date
	stageFinal     Stage = "final"      // have the whole change read once more, then the closing commit
	stageEnd       Stage = "end"        // tell people how it ended
)

// Subject is what a run is about: an issue, or a plan file.
type Subject struct {
	// Key binds progress.md to the subject: "issue:<node id>" or "plan:<slug>".
	Key string
	// Slug is the folder below .ralph/ and, behind "ralph/", the branch.
	Slug string
	// Name is what people call it.
	Name string
	// PlanFile is how the agent is told where the plan comes from.
	PlanFile string
	// HostFiles are the paths in the repository of the file that the plan came
	// from and of what its system keeps beside it: only the host writes them.
	// Commits bring TaskFile and TaskNotes up to date, which are those of them
	// that may be part of commits, or "".
	HostFiles []string
	TaskFile  string
	TaskNotes string
	// RequestedBy is the login of the person who started the run, "" locally.
	RequestedBy   string
	RequestedByID int64
}

// ProcessKind says what a started process is.
type ProcessKind string

// The kinds of processes a run starts.
const (
	ProcessAgent ProcessKind = "agent"
	ProcessGate  ProcessKind = "gate"
	ProcessSetup ProcessKind = "setup"
)

// Process is something that was started and is observed.
type Process struct {
	Kind ProcessKind
	// Name is unique to this start; starting it twice is starting it once.
	Name      string
	Handle    Handle
	StartedAt time.Time
}

// Proposal is the tree an agent left behind and what was found about it.
type Proposal struct {
	// Left is the work tree as the agent left it, but for paths that cannot be stored:
	// the first of those are in Refused.
	Left    string
	Refused []Refusal `json:",omitempty"`
	// LeftOut names the directories of tools that are left out of the work, where that is news.
	LeftOut string `json:",omitempty"`
	// Claim is what the agent says of its task.
	Claim prompt.Claim
	// Already: nothing had to be changed, for it was there before.
	Already bool
	// Idle: the call itself changed nothing, and nobody has claimed what earlier ones left.
	Idle bool
	// Host: it is the host's own look at the tree, and no agent had a part in it.
	Host bool
	// Work is the whole work tree that it was made from, and Draft the record of the call,
	// while another call looks at it.
	Work  string
	Draft Seen
	// Criteria are what a call that looks at the task was asked, and Answer is what it
	// answered.
	Criteria []string
	Answer   *prompt.Verification
	// Note is what was odd about a call that ended well.
	Note string

	// Tree holds the proposed files and the accepted progress.md.
	Tree string
	// Progress is progress.md as it will be once the proposal has landed.
	Progress string
	// Gates are the checks that were found in Tree, none where they were named.
	Gates []gate.Gate
	// Recounts: it touches files that may hold or decide over tests, so that fewer of
	// them may run. Old are the trees that the checks run on again for that.
	Recounts bool
	Old      []OldTree `json:",omitempty"`
	// Findings are for people to look at.
	Findings []gate.Finding
	// Own are the paths in Tree that the host itself changed.
	Own []string
	// Held are the first of the paths that the call changed and that cannot be part of a commit
	// of an agent's: they were put back.
	Held []Refusal `json:",omitempty"`
	// Final is the agent's last message on one line.
	Final string
	// Failed says why the call itself came to nothing, "" if it did not.
	Failed string
	// Bare is Tree without what the host added.
	Bare string `json:",omitempty"`
}

// Need is what an agent said is missing for a task, which only a person can get.
type Need struct{ TaskID, Words string }

// Kept is unfinished work at a task, which goes on in the next call. It is in no
// commit.
type Kept struct {
	TaskID string
	// Tree is the work, made on the commit Head with the tree HeadTree.
	Tree, Head, HeadTree string
	// Left is what is left of the task, in the words of the last call, and Blocked says
	// that it waits for a person.
	Left    string
	Blocked bool
}

// ReviewPolicy says when all of the work is read once more at the end of a run.
type ReviewPolicy string

// The policies.
const (
	// ReviewAlways: whenever something was committed.
	ReviewAlways ReviewPolicy = "always"
	// ReviewUnproven: once, and only where no check has shown that the work is right.
	ReviewUnproven ReviewPolicy = "unproven"
	// ReviewNever: not at all.
	ReviewNever ReviewPolicy = "never"
)

// State is all a run needs to go on in another process. It holds no secrets. Each of
// its parts says when it changes; they are stored as one flat object, so that no two of
// them may have a field of the same name.
type State struct {
	Request
	Position
	Checkout
	Environment
	Call
	Counts
	Watch
	Result
	Conversation

	// Calls are the tasks at which agents work side by side, or whose work waits for its turn;
	// none where the run works one after the other.
	Calls []Call `json:",omitempty"`

	// read is Progress, once it was read; it is not stored.
	read readProgress
}

// Position is where a run stands: each step moves it on.
type Position struct {
	Phase     run.Phase
	StartedAt time.Time
	EndedAt   time.Time
	// NonceKey is what the nonces of this run's prompts are made of, at random.
	NonceKey string

	// Delayed is why the next step cannot be taken at the moment, nil where it can, and
	// Waited what the run has waited like that, which is none of its time.
	Delayed *Delayed      `json:",omitempty"`
	Waited  time.Duration `json:",omitempty"`

	CancelRequested bool
	CancelReason    string
	// StopAfterCall is why the run ends before its next call, "" where it does not, and
	// StopReason how, "" for a person's wish.
	StopAfterCall string        `json:",omitempty"`
	StopReason    run.EndReason `json:",omitempty"`

	// Outdated: the branch may have gone further than this state knows. The next step
	// catches up with it.
	Outdated bool `json:",omitempty"`

	End       run.EndReason
	EndDetail string
	// EndCause is the same for all runs of an issue that ended for one and the same
	// cause, which people are told of once; "" where each is told of.
	EndCause string `json:",omitempty"`
	// Diagnostics tell a person why a task or the run was given up.
	Diagnostics string
}

// Checkout is the branch and what is laid out of it. It moves on with each commit, of
// ours or of other people.
type Checkout struct {
	Base      string // commit the branch started from
	BaseTree  string
	StartTree string // tip of the branch when the tree was laid out
	// DefaultTree is the default branch's; see Opened.
	DefaultTree string
	Head        string // last commit of the branch that is ours or taken in
	HeadTree    string
	Branch      string
	BaseBranch  string

	ProgressPath string
	Progress     string // the accepted progress.md
	// LandedProgress is the one of the last commit that is ours.
	LandedProgress string
	// Merged says what became of people's edits of that file, one sentence each.
	Merged []string
}

// Environment is what processes of the run are started with. It is settled before the
// first agent starts.
type Environment struct {
	Templates prompt.Templates
	// DetectedGates are those of the default branch, and what the branch has added to them
	// when the run began.
	DetectedGates []gate.Gate
	// Setup is what has to run before the first agent, until it has; SetupKey
	// is what it made is known by, "" where there is none.
	Setup    *Setup
	SetupKey string
	// SeenModel is the model that the agent says it used.
	SeenModel string
	// EarlyHosts is what was reached or blocked before the first call; it goes into
	// the record of that.
	EarlyHosts []run.HostUse
}

// Call is the work on one task, and how far it is: that which the run is at, or one that waits
// beside it.
type Call struct {
	// WorkTree is the number of the work tree, 0 for the run's own.
	WorkTree int `json:",omitempty"`
	// Number is that of the iteration.
	Number int
	Stage  Stage
	// WaitUntil is when it goes on, with the stage Resume.
	WaitUntil time.Time
	Resume    Stage
	// Laid is the tree as the agent finds it, "" where that is not known, and From the tip of
	// the branch at that time, where it is worked beside others.
	Laid string
	From string `json:",omitempty"`
	Attempt
	Brief
	// Dropped: a person has changed its task.
	Dropped bool `json:",omitempty"`
}

// Attempt is the work on one task from the start of a call until what it proposes has
// landed or failed.
type Attempt struct {
	TaskID string
	// Began is the progress file that the agent at work found, "" where nobody but the
	// run changes it meanwhile.
	Began string `json:",omitempty"`
	// Job is what the agent at work is for, Role the part it plays.
	Job  prompt.Job
	Role run.Role
	// Verdict is the policy's on the iteration at hand.
	Verdict  Verdict
	Process  *Process
	Proposal *Proposal
	// Ended is how a call ended that came to nothing, without its words.
	Ended *AgentStatus
	// Draft is the record of the iteration at hand.
	Draft     Seen
	GateIndex int

	// Kept is the unfinished work at the task at hand, nil for none.
	Kept *Kept
	// Advanced says that a call at the task at hand has got further since one failed,
	// and said what is left.
	Advanced bool
	// Challenged is the task of which a proposal was doubted for changing nothing
	// near what the task names.
	Challenged string
}

// dropCall ends the part of a call in the attempt, in which nothing is left to do.
func (s *State) dropCall() {
	s.Process, s.Proposal, s.Ended, s.WaitUntil = nil, nil, nil, time.Time{}
}

// Brief is what the next call at a task is told of those before it. It is emptied as a
// whole when the run turns to another task.
type Brief struct {
	// Failure is why the last call failed.
	Failure string
	// Objection is what a check last said of the task at hand. It goes on being
	// told while later calls show nothing new.
	Objection string
	// Violations are what the last call did against the rules of progress.md.
	Violations []string
	// Guidance says how to go on after a failure.
	Guidance []string
}

// Counts only grow within a run, or begin again at zero where a row is broken. What is
// counted by task has the task's id as its key.
type Counts struct {
	// Iteration is the number of the last iteration that was begun, which counts on
	// from those of Earlier; 0 before the first.
	Iteration int
	Starts    int // processes started so far; makes their names unique
	// Attempts counts those at a task that failed.
	Attempts map[string]int
	// Plannings counts the calls that wrote no plan, and Moves how often in a row somebody
	// else moved the branch.
	Plannings, Moves int `json:",omitempty"`
	// Crowded counts agents in a row that were stopped because the disk of the machine is full.
	Crowded  int `json:",omitempty"`
	Strikes  int // broken agent calls in a row, across tasks
	Idle     int // those of them, in a row, that broke before they did anything
	Troubles int // steps in a row that failed; counted by the driver
	// TroubledSince is when the first of them did.
	TroubledSince time.Time `json:",omitzero"`
	Waits         int       // rate-limit waits in a row
	Lost          int       // processes in a row that nobody saw end
	Gone          int       // processes in a row that were gone with their record
	// Reviews counts how often all of the work was read; ReviewNote says why it was not.
	Reviews    int
	ReviewNote string
	// Reviewed is the tree that was read last.
	Reviewed string `json:",omitempty"`
}

// Watch is what the run is judged by.
type Watch struct {
	// Seen are the last calls, oldest first; the policy decides by them.
	Seen []Seen
	// Records are what is remembered of single tasks, and of final checks by their commands.
	Records map[string]*TaskRecord
	// GateMemo are results of checks that need not run again, Baseline is how the checks
	// stood on StartTree, or on what has landed since.
	GateMemo map[string]gate.Result
	Baseline map[string]gate.Result
}

// TaskRecord is what a run remembers of one task.
type TaskRecord struct {
	// Partial counts the calls that got it further and did not finish it, since it last began,
	// Verified those that looked whether it is done already, and Reopened the tasks to fix it.
	Partial, Verified, Reopened int `json:",omitempty"`
	// Split: a planner was asked for its parts. Parent is the task that it is a part of.
	Split  bool   `json:",omitempty"`
	Parent string `json:",omitempty"`
	// Behind is set where no person wrote it: what a person wants behind it.
	Behind *run.Task `json:",omitempty"`
	// Since is the last iteration before a person changed it.
	Since int `json:",omitempty"`
	// Asked is who asked for it, where that is not who asked for the run.
	Asked *Person `json:",omitempty"`
}

// of is the record of a task, to read.
func (s *State) of(id string) TaskRecord {
	if r := s.Records[id]; r != nil {
		return *r
	}
	return TaskRecord{}
}

// record is the record of a task, to change.
func (s *State) record(id string) *TaskRecord {
	if s.Records[id] == nil {
		s.Records[id] = &TaskRecord{}
	}
	return s.Records[id]
}

// AskedBy is who asked for a task.
func (s *State) AskedBy(task string) Person {
	if by := s.of(task).Asked; by != nil {
		return *by
	}
	return Person{Login: s.Subject.RequestedBy, ID: s.Subject.RequestedByID}
}

// Result is what came of the run so far, for people.
type Result struct {
	Commits     []Landed
	GateLast    []gate.Result // of the last proposal
	LandedGates []gate.Result // of the last one that landed, and of the end
	// Unchecked: somebody's commits came after the last landing, and the checks of it say nothing of them.
	Unchecked   bool
	Closing     *Landed
	PullRequest *PullRequest
	History     []Iteration
	Usage       run.Usage
	// LandedUSD is what of Usage.CostUSD the commits tell.
	LandedUSD float64
	// Needs are what agents said they lack.
	Needs    []Need
	Findings []gate.Finding // about what has landed, for people to look at
}

// Conversation is what people said of the plan and of the work.
type Conversation struct {
	// Questions are what a person has to answer before the plan can be worked.
	Questions []string
	// Approval is the hash of the plan that the run leaves to people to approve.
	Approval string
	// FeedbackSeen is the newest of the Feedback that was looked at, as the entry point
	// counts.
	FeedbackSeen int64
}

// readProgress is a progress file with its text. States share the document:
// nobody changes it.
type readProgress struct {
	text string
	doc  *progress.Doc
}

// Standing is where a task stands at this moment: progress.md knows only open
// and done.
func (s *State) Standing(t run.Task) run.TaskStatus {
	for _, c := range s.Calls {
		if c.TaskID == t.ID && t.Actionable() && s.End == "" {
			return standing(c.Stage)
		}
	}
	if !t.Actionable() || t.ID != s.TaskID || t.ID == "" || s.End != "" {
		return t.Status
	}
	return standing(s.Stage)
}

func standing(at Stage) run.TaskStatus {
	switch at { //nolint:exhaustive // in every other stage it is being worked on
	case stagePropose, stageGate, stageGateWatch, stageLand:
		return run.TaskInReview
	default:
		return run.TaskInProgress
	}
}

// load reads the accepted progress file, where the state has not read it yet.
func (s *State) load() error {
	if s.read.doc != nil && s.read.text == s.Progress {
		return nil
	}
	doc, err := progress.Parse([]byte(s.Progress))
	if err != nil {
		return fmt.Errorf("read the accepted progress: %w", err)
	}
	s.read = readProgress{s.Progress, doc}
	return nil
}

// doc is the accepted progress file, the caller's own. What takes a step has loaded it.
func (s *State) doc() *progress.Doc { return s.read.doc.Clone() }

// accept makes doc the accepted progress file.
func (s *State) accept(doc *progress.Doc) {
	s.read = readProgress{string(doc.Bytes()), doc.Clone()}
	s.Progress = s.read.text
}

// PullRequest is where the run's work is reviewed.
type PullRequest struct {
	Number int
	NodeID string
	URL    string
	Draft  bool
	Body   string
	// Head is the last commit that the text tells of.
	Head string
	// Base is the branch it asks to be merged into. Closed holds for one that was
	// merged, too.
	Base           string
	Closed, Merged bool
	// Ticks are the boxes in Body that people ticked or emptied, by the ids of their
	// tasks. They are only handed over, never stored.
	Ticks map[string]bool `json:",omitempty"`
}

// Request is what an entry point asks a new run to do, with the settings that it asks
// for. Of those, what is left empty is the repository's to choose.
type Request struct {
	Run     run.ID
	Subject Subject
	Plan    plan.Plan
	// Mode is what was asked for; whether the run plans first follows from it
	// and from the tasks that are there.
	Mode     run.Mode
	Once     bool
	NoCommit bool
	NoDetect bool
	Agent    string
	// Promise are the words between <promise> and </promise> with which agents claim
	// that the prompt is done, which is the plan's one task then; "" where they claim
	// as usual. See [prompt.ReadClaim].
	Promise string `json:",omitempty"`
	// Approved is the hash of the plan that a person approved (progress.Doc.PlanSHA256),
	// "" for none, and ApprovedBy their login. Covered is the hash of what came of that
	// plan since by edits of people and of the host; "" for none.
	Approved   string
	ApprovedBy string `json:",omitempty"`
	Covered    string `json:",omitempty"`
	// Attended: whoever would approve the plan started the run by hand.
	Attended bool
	// Carried is the progress.md of an earlier run, for a branch from which that
	// run has removed it when it completed.
	Carried string
	// Earlier is what the runs before did, as far as the entry point knows.
	Earlier Earlier
	// Feedback is what was said of the work, in this run and in those before, the
	// newest last, and FeedbackRounds how often in a row nobody but a bot or a check
	// had a part in it.
	Feedback       []Feedback
	FeedbackRounds int

	Settings
}

// NewState is the state of a run that has not begun.
func NewState(r Request, now time.Time) State {
	r.NoCommit = r.NoCommit || r.Plan.NoCommit
	r.Limits = r.Limits.WithDefaults(run.DefaultLimits())
	r.Gates = withDefaults(r.Gates)
	r.Earlier = r.Earlier.cutOff()
	s := State{
		Request:  r,
		Position: Position{Phase: run.PhaseQueued, StartedAt: now, NonceKey: rand.Text()},
		Call:     Call{Stage: stageOpen},
	}
	s.makeMaps()
	return s
}

func withDefaults(gates []gate.Gate) []gate.Gate {
	out := make([]gate.Gate, len(gates))
	for i, g := range gates {
		out[i] = g.WithDefaults()
	}
	return out
}

// mergeWith gives the settings of a run: what was asked for, and what the repository says
// of the rest.
func (asked Settings) mergeWith(repo Settings, attended bool) Settings {
	out := repo
	if repo.Limits == (run.Limits{}) {
		out.Limits = asked.Limits
	}
	out.Limits = out.Limits.WithDefaults(run.DefaultLimits())
	if out.Gates = asked.Gates; len(asked.Gates) == 0 {
		out.Gates = withDefaults(repo.Gates)
	}
	out.Image = cmp.Or(asked.Image, repo.Image)
	out.Model = cmp.Or(asked.Model, repo.Model)
	out.Ask = cmp.Or(asked.Ask, repo.Ask)
	out.NeedsApproval = repo.NeedsApproval && !attended
	out.KeepProgress = asked.KeepProgress || repo.KeepProgress
	if asked.Review != "" && (asked.Review != ReviewUnproven || repo.Review != ReviewNever) {
		out.Review = asked.Review
	}
	return out
}

// StartsAgent says whether the next step may be the first or may start an agent: whoever
// holds the run back before it leaves no work half done.
func (s State) StartsAgent() bool {
	at := s.Stage
	if !s.WaitUntil.IsZero() {
		at = s.Resume
	}
	if len(s.Calls) > 0 && at == stagePick {
		return !slices.ContainsFunc(s.Calls, func(c Call) bool { return c.Stage != stageStart })
	}
	return at == stageStart || s.Phase == run.PhaseQueued
}
