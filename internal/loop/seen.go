package loop

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Seen is what one agent call showed of how the work goes, as far as the policy looks at it.
type Seen struct {
	Number  int
	TaskID  string
	Role    run.Role
	Verdict Verdict // what the policy had said before it
	Outcome Outcome
	// Duration is how long the call took.
	Duration time.Duration
	// Landed: the result was accepted. For a planner that is its plan.
	Landed bool

	// Class and Error say why it did not land, and Shown is by what two attempts are known to
	// show the same, "" where it shows nothing of its task.
	Class Class
	Error string `json:",omitempty"`
	Shown string `json:",omitempty"`
	// Failing are the tests that the failure is put down to.
	Failing []string `json:",omitempty"`

	// Files are the first of the changed paths, and Change is the id of the proposed content, ""
	// where that is what has landed.
	Files  []string `json:",omitempty"`
	Change string   `json:",omitempty"`
	// Unchanged: the call left the files as it had found them, whatever an earlier one had done.
	Unchanged bool `json:",omitempty"`
	// Advanced: calls before it got further, and said what is left.
	Advanced bool `json:",omitempty"`
	// Tampered: it changed or took away tests that would have told on it.
	Tampered bool `json:",omitempty"`
	// ClaimedDone: the agent said that the task, or all of it, is done, TooLarge that it is too
	// much for one call.
	ClaimedDone bool `json:",omitempty"`
	TooLarge    bool `json:",omitempty"`

	run.Signals
}

// attempt says whether the call counts as an attempt at its task.
func (c *Seen) attempt() bool { return c.Verdict != VerdictDecompose && c.Outcome != AgentBroken }

func (c *Seen) tooLarge() bool { return c.TooLarge || c.Class == FailTooLarge }

// repeats says whether a call shows what one before it has shown: the tests that failed fail
// still, or all but one, which may be chance.
func (c *Seen) repeats(before *Seen) bool {
	if len(c.Failing) == 0 || len(before.Failing) == 0 || c == before {
		return c != before && c.Shown != "" && c.Shown == before.Shown
	}
	mended := 0
	for _, name := range before.Failing {
		if !slices.Contains(c.Failing, name) {
			mended++
		}
	}
	return mended == 0 || mended == 1 && len(c.Failing) == len(before.Failing)-1
}

// Class says what kept a call from landing.
type Class string

// The classes of failures.
const (
	FailCompile  Class = "compile"   // a build or a type check fails
	FailTest     Class = "test"      // tests fail
	FailLint     Class = "lint"      // a linter objects
	FailCheck    Class = "check"     // another check fails
	FailHang     Class = "hang"      // a check ran out of time
	FailTimeout  Class = "timeout"   // the agent ran out of time
	FailCrash    Class = "crash"     // the agent or a check broke off
	FailRefused  Class = "refused"   // the change touches what it must not
	FailEmpty    Class = "empty"     // nothing was changed
	FailTooLarge Class = "too_large" // the agent says so, or used up its turns
	FailUnknown  Class = "unknown"   // none of these
)

// ofCheck says whether a check says what is wrong.
func (c Class) ofCheck() bool {
	return slices.Contains([]Class{FailCompile, FailTest, FailLint, FailCheck, FailHang}, c)
}

// failure is what is known of an attempt that did not land besides the agent's part.
type failure struct {
	// Check is the check that failed, nil where none did.
	Check *gate.Result
	// Refused: the host would not take the proposal; Unchanged: there is none.
	Refused, Unchanged bool
}

// classOf is the class of the failure of a call that ended with detail.
func classOf(c Seen, f failure, detail string) Class {
	switch {
	case c.Outcome == AgentBroken:
		return FailCrash
	case c.Outcome == AgentTimedOut:
		return FailTimeout
	case f.Refused:
		return FailRefused
	case f.Check != nil:
		return classOfCheck(*f.Check)
	case c.TooLarge || usedUpTurns().MatchString(detail):
		return FailTooLarge
	case c.Outcome == AgentGaveUp && c.Unchanged:
		return FailCrash
	case f.Unchanged:
		return FailEmpty
	default:
		return FailUnknown
	}
}

func classOfCheck(r gate.Result) Class {
	switch {
	case strings.HasSuffix(r.Reason, "_timeout"):
		return FailHang
	case r.Reason != "" && r.Reason != "exited":
		return FailCrash
	}
	switch r.Kind {
	case gate.Test:
		return FailTest
	case gate.Lint:
		return FailLint
	case gate.Typecheck, gate.Build:
		return FailCompile
	case gate.Secret, gate.Check:
	}
	return FailCheck
}

// fingerprint is by what an attempt is known that fails as another one did: the failing tests where the
// check names them, else its telling lines without their numbers; "" where it shows nothing.
func fingerprint(c Seen, f failure, why string) string {
	text, of := why, ""
	switch {
	case c.Outcome == AgentBroken, c.Tampered && f.Refused:
		return "" // that tells what the agent tried to get by with, and not how far honest work gets
	case f.Refused:
		return "refused"
	case f.Check == nil && c.ClaimedDone && c.Unchanged:
		return "" // the work may be there, and whoever objected be wrong
	case c.Unchanged || f.Unchanged:
		return "no change"
	case f.Check != nil:
		lines := slices.DeleteFunc(gate.FailureLines(f.Check.Output), ofMake().MatchString)
		if text = f.Check.Gate + "\n" + strings.Join(lines, "\n"); len(lines) == 0 {
			of = c.TaskID // a check that says nothing says nothing of other tasks
		}
	}
	sum := sha256.Sum256([]byte(digits().ReplaceAllString(text, "0") + "\n" + of))
	return hex.EncodeToString(sum[:8])
}

var (
	digits = strs.Lazy(`\d+`)
	// ofMake is what make itself says of a command that has failed.
	ofMake = strs.Lazy(`^g?make(?:\[\d+\])?: \*\*\* `)
)

// aboutTask finds what calls a task by a name.
const aboutTask = `\b(?:(?:sub-?)?task|change|work|scope|refactoring|migration|T\d+) `

// What is said of a call that was too much, behind its closing line and by the agent's program.
var (
	// It has to speak of the task: a fixture may be too large, and a sandbox may be broken.
	saysTooLarge = strs.Lazy(`(?i)(?:^(?:it is |it's )?|\bthis (?:is|was) |` + aboutTask +
		`(?:is|was|are|were|seems|looks|proved|turned out)\b[^.,;:]{0,20}?\b)too (?:large|big|complex|broad|much)\b|` +
		`\btoo (?:large|big|complex|broad|much) (?:of a (?:task|change) )?for (?:one|a single) (?:agent )?(?:call|session|iteration|step)\b|` +
		`(?:^(?:it )?|\bthis |` + aboutTask + `)(?:needs to|should|must|has to|have to) be (?:split|broken (?:up|down|into))\b`)
	usedUpTurns = strs.Lazy(`(?i)\bmax(?:imum)?[ _](?:number of )?turns\b|\bcontext (?:window|length|limit)\b|` +
		`\bprompt is too long\b|\btoo many turns\b`)
)

// Bounds of what is kept of a call: it is stored with each step.
const (
	maxSeenFiles = 20
	maxSeenError = 300 // bytes
)

// beginRecord begins the record of an agent call that has ended.
func (s *State) beginRecord(status AgentStatus) {
	claim := prompt.ReadClaim(status.Final, s.Promise)
	s.Draft = Seen{
		Number: s.Number, TaskID: s.TaskID, Role: s.Role, Verdict: s.Verdict,
		Outcome: status.Outcome, Duration: status.Finished.Sub(status.Started),
		ClaimedDone: claim.All, TooLarge: saysTooLarge().MatchString(claim.Words),
		Signals: run.Signals{Activity: status.Activity},
	}
}

// recordChanges notes what the agent changed, and what of it is not the run's own notes, by which a
// proposal that comes again is known. Notes alone are no proposal.
func (s *State) recordChanges(content string, changes []Change) {
	if len(changes) == 0 {
		return
	}
	before := map[string]bool{}
	for _, c := range s.storyOf(s.TaskID).own {
		for _, f := range c.Files {
			before[f] = true
		}
	}
	s.Draft.Change = content
	for _, c := range changes {
		s.Draft.Signals.Change(c.Path, before[c.Path])
		if len(s.Draft.Files) < maxSeenFiles {
			s.Draft.Files = append(s.Draft.Files, oneLine(c.Path, maxSeenError))
		}
	}
}

// recordCheck notes what a check has counted, where it ran to its end.
func (s *State) recordCheck(r gate.Result) {
	if r.Reason != "exited" || r.Facts.Cut {
		return
	}
	if r.Facts.Known {
		s.Draft.Passing += r.Facts.Passed
	}
}

// endRecord ends the record of the call.
func (s *State) endRecord() {
	s.Draft.Advanced, s.Advanced = s.Draft.Advanced || s.Advanced, false
	s.Seen = append(s.Seen[max(0, len(s.Seen)-maxSeen+1):], s.Draft)
	s.Draft = Seen{}
}

// blame notes why a call did not land.
func (s *State) blame(f failure, why, detail string) {
	s.Draft.Class, s.Draft.Shown = classOf(s.Draft, f, detail), fingerprint(s.Draft, f, why)
	s.Draft.Error = oneLine(why, maxSeenError)
	if f.Check == nil && s.Draft.Outcome == AgentGaveUp {
		s.Draft.Error = oneLine(cmp.Or(detail, why), maxSeenError)
	}
	if f.Check != nil {
		if s.Draft.Shown != "" && !s.Draft.Unchanged {
			s.Draft.Failing = failingTests(*f.Check)
		}
		lines := gate.FailureLines(f.Check.Output)
		s.Draft.Error = cmp.Or(oneLine(strings.Join(lines[:min(len(lines), 2)], "; "), maxSeenError), s.Draft.Error)
	}
}

// failingTests are the first of the tests that a check's failure is put down to.
func failingTests(r gate.Result) []string {
	names := r.Verdict.Tests
	if len(names) == 0 {
		names = r.Facts.FailedTests
	}
	names = slices.Clone(names[:min(len(names), maxSeenFiles)])
	for i := range names {
		names[i] = oneLine(names[i], maxTold)
	}
	return names
}

// filesToRead are the paths that an agent should look at first: those of earlier attempts.
func (s *State) filesToRead() []string {
	var files []string
	for _, c := range slices.Backward(s.Seen) {
		for _, name := range c.Files {
			if c.TaskID == s.TaskID && !path.IsAbs(name) && !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
	}
	return files[:min(len(files), maxSeenFiles)]
}
