package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/supervise"
)

// Stage is the exact point a run has reached within its phase. Each one is
// persisted; a crash resumes there.
type Stage string

// The stages, in the order a run without failures goes through them.
const (
	stageOpen       Stage = "open"         // lay out the work tree, find the progress file
	stageBegin      Stage = "begin"        // tell people that the run has begun
	stageImage      Stage = "image"        // the image is built
	stageSetUp      Stage = "set_up"       // start the repository's set-up commands
	stageSetUpWatch Stage = "set_up_watch" // they run
	stagePick       Stage = "pick"         // exit conditions, then the next task
	stageStart      Stage = "start"        // start the agent
	stageWatch      Stage = "watch"        // the agent works
	stageJudge      Stage = "judge"        // read what it says in progress.md
	stagePlanned    Stage = "planned"      // take the plan it wrote, and nothing else it did
	stageEnded      Stage = "ended"        // act on a call that came to nothing
	stageRejected   Stage = "rejected"     // put back what must not be looked at
	stageSplit      Stage = "split"        // put the parts it wrote in the place of a task
	stageReviewed   Stage = "reviewed"     // take the tasks a review asks for
	stagePropose    Stage = "propose"      // verify what it did, and store it as a tree
	stageGate       Stage = "gate"         // start the next check
	stageGateWatch  Stage = "gate_watch"   // the check runs
	stageLand       Stage = "land"         // commit
	stageShow       Stage = "show"         // bring what people see up to date
	stageFinalGates Stage = "final_gates"  // start the next final check
	stageFinalWatch Stage = "final_watch"  // the final check runs
	stageReview     Stage = "review"       // have the whole change read once more
	stageClose      Stage = "close"        // the closing commit
	stageEnd        Stage = "end"          // tell people how it ended
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
	// Ticked is the agent's own claim that the task is done.
	Ticked bool
	// Applied: it is a person's suggestion, and no agent had a part in it.
	Applied bool
	// Note is what was odd about a call that ended well.
	Note string

	// Tree holds the proposed files and the accepted progress.md.
	Tree string
	// Progress is progress.md as it will be once the proposal has landed.
	Progress string
	// Before is Tree with the existing tests that it changes, or took away, as they
	// were, "" where it changes none or was asked to.
	Before string
	// Gone says which tests it took away unasked, "" for none. It does not land,
	// whatever the checks say of it.
	Gone string
	// Done is the agent's own hint that everything is finished.
	Done bool
	// Findings are for people to look at.
	Findings []gate.Finding
	// Plan marks the result of plan mode.
	Plan bool
	// Own are the paths in Tree that the host itself changed.
	Own []string
	// Held is what is not in Tree because a person has to apply it.
	Held *Held
	// Final is the agent's last message on one line.
	Final string
	// Failed says why the call itself came to nothing, "" if it did not.
	Failed string
	// Added are the tasks of a call that was to write some.
	Added []run.Task
}

// Ended is how an agent call ended that came to nothing.
type Ended struct {
	Outcome Outcome
	Detail  string
	RetryAt time.Time
	// Worked: it had used the model before.
	Worked bool
}

// Iteration is the record of one agent call.
type Iteration struct {
	Number int
	TaskID string
	// Role is the part the agent played, Verdict the supervisor's before it.
	Role      run.Role
	Verdict   supervise.VerdictKind
	StartedAt time.Time
	Duration  time.Duration
	Outcome   string
	Landed    bool
	Note      string
	Model     string
	Usage     run.Usage
	// Models is what the call used of each model, Hosts what it and the checks
	// after it reached, or were kept from.
	Models   []run.ModelUse
	Hosts    []run.HostUse
	Evidence Evidence
}

// Bounds of an iteration's record; an agent chooses what it asks for.
const (
	maxModels = 8
	maxHosts  = 20
)

// Evidence is what the four layers of verification found about one call, one
// line each; "" where a layer was not reached. It is kept with the call, so that
// a verdict can be followed later.
type Evidence struct {
	// Contradiction is what the agent said against its own claim.
	Contradiction string `json:"contradiction,omitempty"`
	// Change is what differs from the last landed tree.
	Change string `json:"change,omitempty"`
	// Checkmark is what it did to the tasks and sections of progress.md.
	Checkmark string `json:"checkmark,omitempty"`
	// Signal is whether it said that it was done.
	Signal string `json:"signal,omitempty"`
}

// State is all a run needs to go on in another process. It holds no secrets.
type State struct {
	Run     run.ID
	Subject Subject
	Plan    plan.Plan
	// Mode is what was asked for; whether the run plans first follows from it
	// and from the tasks that are there.
	Mode run.Mode
	// Ask says whether a vague plan makes the run ask instead of planning.
	Ask      plan.Ask
	Once     bool
	NoCommit bool
	// KeepProgress leaves progress.md on the branch when the run completes.
	KeepProgress bool
	Limits       run.Limits
	// Gates are those asked for; DetectedGates those the base brings along.
	Gates         []gate.Gate
	DetectedGates []gate.Gate
	NoDetect      bool
	// Quality is what the repository asks of the work beyond its gates.
	Quality gate.Quality
	Image   string
	// Egress are the hosts that the repository lets sandboxes reach, of those that
	// the operator does; nil leaves it to the operator.
	Egress []string
	// EarlyHosts is what was reached or blocked before the first call; it goes into
	// the record of that.
	EarlyHosts []run.HostUse
	Agent      string
	// Model is the one asked for, SeenModel the one the agent says it used.
	Model     string
	SeenModel string

	Phase     run.Phase
	Stage     Stage
	StartedAt time.Time
	EndedAt   time.Time

	Templates prompt.Templates
	Base      string // commit the branch started from
	BaseTree  string
	StartTree string // tip of the branch when the tree was laid out
	Head      string // last commit of the branch that is ours or taken in
	HeadTree  string
	// Build is how Image is made, nil where it is somebody else's.
	Build *Image `json:",omitempty"`
	// Setup is what has to run before the first agent, until it has; SetupKey
	// is what it made is known by, "" where there is none.
	Setup        *Setup
	SetupKey     string
	Branch       string
	BaseBranch   string
	ProgressPath string
	Progress     string // the accepted progress.md
	// LandedProgress is the one of the last commit that is ours.
	LandedProgress string
	// Merged says what became of people's edits of that file, one sentence each.
	Merged []string

	// Job is what the agent at work is for, Role the part it plays.
	Job  prompt.Job
	Role run.Role
	// Roles are the models and limits of single roles.
	Roles map[run.Role]RoleSettings

	// Supervision are the thresholds by which the run is judged, Watched what
	// it is judged by, oldest first, and Draft the record of the iteration at
	// hand, with the tree that it proposed.
	Supervision supervise.Config
	Watched     []supervise.Iteration
	Draft       supervise.Iteration
	DraftTree   string
	// Laid is the tree as the next agent finds it, "" where that is not known.
	Laid        string
	Checkpoints []supervise.Checkpoint
	// Verdict is the supervisor's on the iteration at hand, and Guidance what
	// it says to the agent.
	Verdict  supervise.VerdictKind
	Guidance []string
	// Diagnostics tell a person why a task or the run was given up.
	Diagnostics string
	// Decomposed are the tasks that were split, and Parents names for each part
	// the task it comes from.
	Decomposed map[string]bool
	Parents    map[string]string
	// Acknowledged is the last iteration before people changed a task, by task.
	Acknowledged map[string]int
	// Forget: lessons are neither kept nor used.
	Forget bool
	// Insight is what the agents noted while at the task at hand, and Patterns
	// what they noted of the code base; with AgentsMD these are suggested for
	// the repository's own file.
	Insight  string
	Patterns []string
	AgentsMD bool
	// Review: all of the work is read once more at the end; Reviews counts how
	// often it was, and ReviewNote says why it was not.
	Review bool
	// ReviewFixed: the door chose, and the repository does not.
	ReviewFixed bool
	Reviews     int
	ReviewNote  string

	Iteration int
	Starts    int // processes started so far; makes their names unique
	TaskID    string
	Attempts  map[string]int
	Strikes   int // broken agent calls in a row, across tasks
	Idle      int // those of them, in a row, that broke before they did anything
	Troubles  int // steps in a row that failed; counted by the driver
	Waits     int // rate-limit waits in a row
	Lost      int // processes in a row that nobody saw end
	Gone      int // processes in a row that were gone with their record
	Ended     *Ended
	Failure   string
	// Objection is what a check last said of the task at hand. It goes on being
	// told while later calls show nothing new.
	Objection  string
	Violations []string
	// Challenged is the task of which a proposal was doubted for changing nothing
	// near what the task names, and Upheld how many calls that changed nothing more
	// have claimed since that it is done all the same.
	Challenged string
	Upheld     int
	// OnlyHeld is the task of which a proposal held nothing but changes that a
	// person has to apply.
	OnlyHeld  string
	Process   *Process
	Proposal  *Proposal
	GateIndex int
	GateMemo  map[string]gate.Result
	// Baseline is how the gates stood on StartTree, or on what has landed since.
	Baseline map[string]gate.Result
	GateLast []gate.Result // of the last proposal, for the PR
	// Stuck: no task is left that could be worked, and the final checks run on what
	// has landed before the run ends as blocked, for people to see.
	Stuck bool
	// Flaky are the tests that were seen to pass and fail on one tree, in order.
	Flaky    []string
	Reopened map[string]int
	Findings []gate.Finding // about what has landed, for people to look at
	// Merge is the merge that is being worked, nil for none, and Merges how often
	// there was one.
	Merge  *Merge
	Merges int
	// Protected says what becomes of changes to protected paths, and Held is what
	// was held back so far.
	Protected run.Protection
	Held      []Held
	// Notices is what the repository wants told of its runs.
	Notices run.NoticeChoice

	Commits     []Landed
	Closing     *Landed
	PullRequest *PullRequest
	History     []Iteration
	Usage       run.Usage
	// LandedUSD is what of Usage.CostUSD the commits tell.
	LandedUSD float64
	HintDone  bool

	CancelRequested bool
	CancelReason    string
	WaitUntil       time.Time
	Resume          Stage // where to go on after WaitUntil

	End       run.EndReason
	EndDetail string
	// EndCause is the same for all runs of an issue that ended for one and the same
	// cause, which people are told of once; "" where each is told of.
	EndCause string `json:",omitempty"`
	// Questions are what a person has to answer before the plan can be worked.
	Questions []string

	// NeedsApproval: the plan is worked only as somebody approved it. Approved is
	// the hash of the plan that was (progress.Doc.PlanSHA256), ApprovedBy the login
	// of whoever did, and Approval the hash of the one that the run leaves to people
	// to approve.
	NeedsApproval      bool
	Approved, Approval string
	ApprovedBy         string `json:",omitempty"`
	// Attended: whoever would approve the plan started the run by hand.
	Attended bool
	// Carried is the progress.md of an earlier run, for a branch that no longer
	// has it.
	Carried string
	// Credits are the people who asked for single tasks.
	Credits map[string]Person

	// Feedback is what was said of the work, in this run and in those before, the
	// newest last. FeedbackSeen is the newest of it that was looked at, as the door
	// counts, and FeedbackRounds how often in a row nobody but a bot or a check had
	// a part in it.
	Feedback       []Feedback
	FeedbackSeen   int64
	FeedbackRounds int

	// read is the progress file that was read last; it is not stored.
	read readProgress
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
	if !t.Actionable() || t.ID != s.TaskID || t.ID == "" || s.End != "" {
		return t.Status
	}
	switch s.Stage { //nolint:exhaustive // in every other stage it is being worked on
	case stageGate, stageGateWatch, stageLand:
		return run.TaskInReview
	default:
		return run.TaskInProgress
	}
}

// record keeps a call in the history. Waits in a row are one entry.
func (s *State) record(it Iteration) {
	n := len(s.History)
	if n > 0 && it.Outcome == string(AgentRateLimited) {
		if last := s.History[n-1]; last.Outcome == it.Outcome && last.Number == it.Number {
			it.StartedAt, it.Duration, it.Usage = last.StartedAt, last.Duration+it.Duration, last.Usage.Add(it.Usage)
			it.Models, it.Hosts = run.AddModels(last.Models, it.Models, maxModels), run.AddHosts(last.Hosts, it.Hosts, maxHosts)
			n--
		}
	}
	it.Hosts = run.AddHosts(s.EarlyHosts, it.Hosts, maxHosts)
	s.EarlyHosts = nil
	s.History = append(s.History[:n:n], it)
}

// evidence adds to what was found about the call that ended last.
func (s *State) evidence(note func(*Evidence)) {
	n := len(s.History)
	if n == 0 {
		return
	}
	h := s.History[n-1]
	note(&h.Evidence)
	s.History = append(s.History[:n-1:n-1], h)
}

// reached adds the hosts of a check to the record of the call it followed, or of
// the first one.
func (s *State) reached(hosts []run.HostUse) {
	n := len(s.History)
	if len(hosts) == 0 {
		return
	}
	if n == 0 {
		s.EarlyHosts = run.AddHosts(s.EarlyHosts, hosts, maxHosts)
		return
	}
	h := s.History[n-1]
	h.Hosts = run.AddHosts(h.Hosts, hosts, maxHosts)
	s.History = append(s.History[:n-1:n-1], h)
}

// document reads a progress file of this state. Most steps read the text that
// the step before has read. The document is the caller's own.
func (s *State) document(text string) (*progress.Doc, error) {
	if s.read.doc == nil || s.read.text != text {
		doc, err := progress.Parse([]byte(text))
		if err != nil {
			return nil, err
		}
		s.read = readProgress{text, doc}
	}
	return s.read.doc.Clone(), nil
}

// text is the text of doc, which is known by it from then on.
func (s *State) text(doc *progress.Doc) string {
	s.read = readProgress{string(doc.Bytes()), doc.Clone()}
	return s.read.text
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
	// Edit is what people made of the task list in Body, nil for nothing. It is
	// only handed over, never stored.
	Edit *PlanEdit `json:",omitempty"`
}

// PlanEdit is a task list as people were shown it, and as they left it.
type PlanEdit struct{ Was, Now []run.Task }

// Request is what a door asks a new run to do.
type Request struct {
	Run     run.ID
	Subject Subject
	Plan    plan.Plan
	Mode    run.Mode
	// Ask is "" where the repository may choose.
	Ask          plan.Ask
	Once         bool
	NoCommit     bool
	KeepProgress bool
	Limits       run.Limits
	Gates        []gate.Gate
	NoDetect     bool
	Image        string
	Agent        string
	Model        string
	// Review asks for a review; nil leaves the choice to the repository.
	Review *bool
	// Approved is the hash of the plan that a person approved, "" for none, and
	// ApprovedBy their login.
	Approved, ApprovedBy string
	// Attended: starting the run was approval enough.
	Attended bool
	// Progress is the progress.md of an earlier run, for a branch from which that
	// run has removed it when it completed.
	Progress string
	// Feedback and FeedbackRounds are those of the run before.
	Feedback       []Feedback
	FeedbackRounds int
}

// NewState is the state of a run that has not begun.
func NewState(r Request, now time.Time) State {
	gates := make([]gate.Gate, len(r.Gates))
	for i, g := range r.Gates {
		gates[i] = g.WithDefaults()
	}
	return State{
		Run: r.Run, Subject: r.Subject, Plan: r.Plan, Mode: r.Mode, Ask: r.Ask, Once: r.Once,
		NoCommit: r.NoCommit || r.Plan.NoCommit, KeepProgress: r.KeepProgress,
		Limits: r.Limits.WithDefaults(run.DefaultLimits()),
		Gates:  gates, NoDetect: r.NoDetect, Image: r.Image, Agent: r.Agent, Model: r.Model,
		Review: r.Review != nil && *r.Review, ReviewFixed: r.Review != nil, Approved: r.Approved, ApprovedBy: r.ApprovedBy, Attended: r.Attended, Carried: r.Progress,
		Feedback: r.Feedback, FeedbackRounds: r.FeedbackRounds,
		Phase: run.PhaseQueued, Stage: stageOpen, StartedAt: now,
		Attempts: map[string]int{}, GateMemo: map[string]gate.Result{}, Baseline: map[string]gate.Result{}, Reopened: map[string]int{},
		Acknowledged: map[string]int{},
	}
}

// apply takes the repository's settings where the door left a choice.
func (s *State) apply(set Settings) {
	if set.Limits != (run.Limits{}) {
		s.Limits = set.Limits
	}
	if len(s.Gates) == 0 {
		for _, g := range set.Gates {
			s.Gates = append(s.Gates, g.WithDefaults())
		}
	}
	if s.Image == "" {
		s.Image = set.Image
	}
	s.Egress = set.Egress
	if s.Model == "" {
		s.Model = set.Model
	}
	if s.Ask == "" {
		s.Ask = set.Ask
	}
	s.Quality, s.Protected, s.Notices = set.Quality, set.Protected, set.Notices
	s.NeedsApproval = set.NeedsApproval && !s.Attended
	s.KeepProgress = s.KeepProgress || set.KeepProgress
	s.Supervision, s.Roles, s.Forget, s.AgentsMD = set.Supervision, set.Roles, set.Forget, set.AgentsMD
	if s.Supervision == (supervise.Config{}) {
		s.Supervision = supervise.Defaults()
	}
	s.Supervision.MaxTaskAttempts = s.Limits.TaskAttempts
	if !s.ReviewFixed {
		s.Review = set.Review
	}
}

// stateVersion changes when a stored state can no longer be read as it stands.
const stateVersion = 1

type storedState struct {
	Version int
	State   State
}

// Encode gives the stored form of s.
func Encode(s State) ([]byte, error) {
	b, err := json.Marshal(storedState{Version: stateVersion, State: s})
	if err != nil {
		return nil, fmt.Errorf("encode run state: %w", err)
	}
	return b, nil
}

// ErrStateVersion is returned for a state another version of this program
// stored in a form this one does not know.
var ErrStateVersion = errors.New("loop: unknown version of the stored state")

// Decode reads the stored form of a state.
func Decode(b []byte) (State, error) {
	var stored storedState
	if err := json.Unmarshal(b, &stored); err != nil {
		return State{}, fmt.Errorf("decode run state: %w", err)
	}
	if stored.Version != stateVersion {
		return State{}, fmt.Errorf("%w: %d", ErrStateVersion, stored.Version)
	}
	s := stored.State
	if s.Attempts == nil {
		s.Attempts = map[string]int{}
	}
	if s.GateMemo == nil {
		s.GateMemo = map[string]gate.Result{}
	}
	if s.Baseline == nil {
		s.Baseline = map[string]gate.Result{}
	}
	if s.Reopened == nil {
		s.Reopened = map[string]int{}
	}
	if s.Acknowledged == nil {
		s.Acknowledged = map[string]int{}
	}
	return s, nil
}
