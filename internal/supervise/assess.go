package supervise

import (
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// VerdictKind names what is to be done.
type VerdictKind string

// The verdicts, in rising order of how much they interfere.
const (
	// VerdictProceed: go on.
	VerdictProceed VerdictKind = "proceed"
	// VerdictNarrow: go on with one small step of the task.
	VerdictNarrow VerdictKind = "narrow"
	// VerdictSwitchRole: go on with the task in another role.
	VerdictSwitchRole VerdictKind = "switch_role"
	// VerdictDecompose: have the task split up, then work its parts.
	VerdictDecompose VerdictKind = "decompose"
	// VerdictRollBack: put the tree back to a checkpoint, then go on.
	VerdictRollBack VerdictKind = "roll_back"
	// VerdictGiveUp: block the task, and go on with the others.
	VerdictGiveUp VerdictKind = "give_up"
	// VerdictAbort: end the run.
	VerdictAbort VerdictKind = "abort"
)

// VerdictKinds lists every verdict.
func VerdictKinds() []VerdictKind {
	return []VerdictKind{
		VerdictProceed, VerdictNarrow, VerdictSwitchRole, VerdictDecompose,
		VerdictRollBack, VerdictGiveUp, VerdictAbort,
	}
}

// Verdict is what is to be done before the next iteration.
type Verdict struct {
	Kind VerdictKind
	// TaskID is the task to give up or to split up: the one at hand, or the one
	// it was split off from, which is given up with all the parts that are left.
	TaskID string
	// Role is the one to switch to, or that splits the task up.
	Role Role
	// Clean: the files go back to what landed last before the role is switched, since
	// what is wrong with them may be what earlier attempts left there.
	Clean bool
	// Checkpoint is where to roll back to.
	Checkpoint Checkpoint
	// Reason says why, in one sentence without a full stop.
	Reason string
}

// Assessment is what is made of a history.
type Assessment struct {
	Level    Level
	Patterns []Pattern
	Risk     Risk
	// Signals are those of the last attempt at the task at hand.
	Signals  Signals
	Strategy Strategy
	Verdict  Verdict
	// Guidance is what the next prompt should say, "" where nothing. It comes
	// with any verdict after which the task goes on.
	Guidance string
	// Diagnostics tell a person what happened and what to do, where the task or
	// the run does not go on: with VerdictGiveUp and VerdictAbort.
	Diagnostics string
}

// stopGrace is how many times the stagnation threshold of iterations without
// progress end the run, whatever is left to be tried. Half of it is critical.
const stopGrace = 9

// Assess judges a run before its next iteration. It is deterministic, never
// panics, and looks at no more than the last [Window] iterations that count
// (and at the durations of all).
//
// Where the task at hand is the one that just failed, another iteration that
// fails in the same way never lowers the level, as long as no more than Window
// iterations have counted since something landed; and three times the
// stagnation threshold of them, with the exploration allowance, always make it
// critical.
func Assess(cfg Config, h History) Assessment {
	v := newView(&h)
	a := Assessment{Patterns: v.patterns(cfg), Signals: v.signals()}
	a.Risk = v.risk()
	if len(a.Patterns) > 0 {
		a.Level = a.Patterns[0].Level
	}
	if v.last != nil {
		a.Strategy = strategyFor(v.last.Class, &v)
	}
	a.Verdict = v.decide(cfg, &a)
	switch a.Verdict.Kind {
	case VerdictGiveUp, VerdictAbort:
		a.Diagnostics = v.diagnostics(&a)
	case VerdictProceed, VerdictNarrow, VerdictSwitchRole, VerdictDecompose, VerdictRollBack:
		a.Guidance = guidance(&a)
	}
	return a
}

// at is the pattern of that kind if it reached the level.
func (a *Assessment) at(level Level, kinds ...PatternKind) (Pattern, bool) {
	for _, p := range a.Patterns {
		if p.Level >= level && slices.Contains(kinds, p.Kind) {
			return p, true
		}
	}
	return Pattern{}, false
}

// The patterns that end a run, and those that end a task.
var (
	runPatterns  = []PatternKind{PatternSharedError, PatternStagnation}
	taskPatterns = []PatternKind{PatternRepeatingError, PatternRegression, PatternTimeOnTask}
)

// decide is the ladder of verdicts: the first rung that holds. Whatever ends
// something comes before what goes on with it.
func (v *view) decide(cfg Config, a *Assessment) Verdict {
	for _, rung := range []func(Config, *Assessment) (Verdict, bool){
		v.stopRun, v.rollBack, v.endTask, v.splitTask, v.intervene,
	} {
		if verdict, ok := rung(cfg, a); ok && cfg.has(string(verdict.Kind)) {
			return verdict
		}
	}
	return Verdict{Kind: VerdictProceed}
}

// stopRun ends a run that does not get anywhere. A task that was never tried
// still gets its chance, unless the trouble is not with the tasks.
func (v *view) stopRun(cfg Config, a *Assessment) (Verdict, bool) {
	p, ok := a.at(Critical, runPatterns...)
	if !ok {
		return Verdict{}, false
	}
	_, common := a.at(Critical, PatternSharedError)
	reason := p.Detail
	switch {
	case v.environment(a), v.idleTooLong(cfg, a):
	case v.last == nil && v.h.Task.ID != "":
		return Verdict{}, false // this task was not tried yet
	case !common && !v.ended(cfg, a):
		return Verdict{}, false
	case v.h.Fresh > 0 && v.h.Task.ID != "":
		return Verdict{Kind: VerdictGiveUp, TaskID: v.h.Task.ID, Reason: reason + "; other tasks were not tried yet"}, true
	}
	return Verdict{Kind: VerdictAbort, Reason: reason}, true
}

// idleTooLong says whether the run goes without progress for so long that not even
// tasks which were never tried keep it up.
func (v *view) idleTooLong(cfg Config, a *Assessment) bool {
	p, ok := a.at(Critical, PatternStagnation)
	return ok && p.Count >= min(stopGrace*cfg.StagnationThreshold, Window-exploration)
}

// ended says whether the task at hand is at its end by what came of it alone, or has
// itself brought the run to a standstill. One that others have brought it to is no
// evidence against this task.
func (v *view) ended(cfg Config, a *Assessment) bool {
	if v.last == nil || len(v.kin) >= 3*cfg.StagnationThreshold {
		return true
	}
	verdict, ok := v.endTask(cfg, a)
	return ok && verdict.Kind == VerdictGiveUp
}

// environment says whether different tasks fail for the same reason, and for one
// that no other task would escape: nothing compiles, or nothing starts.
func (v *view) environment(a *Assessment) bool {
	if _, shared := a.at(Critical, PatternSharedError); !shared {
		return false
	}
	_, seen := v.sharedError()
	class := seen[len(seen)-1].Class
	return class == FailCompile || class == FailCrash
}

// rollBack undoes what made things worse, once for a task.
func (v *view) rollBack(cfg Config, a *Assessment) (Verdict, bool) {
	p, ok := a.at(Warning, PatternRegression)
	if !ok || v.exhausted(cfg) || v.told(VerdictRollBack) {
		return Verdict{}, false
	}
	if len(p.Iterations) < regressionPatience && p.Level < Critical {
		return Verdict{}, false
	}
	best, ok := Best(v.h.Checkpoints)
	if !ok || !Regressed(v.lastMetrics(), best.Metrics) {
		return Verdict{}, false
	}
	return Verdict{Kind: VerdictRollBack, Checkpoint: best, Reason: p.Detail}, true
}

// lastMetrics are those of the last own iteration whose tests are known.
func (v *view) lastMetrics() Metrics {
	for _, it := range slices.Backward(v.own) {
		if tests, _ := it.Metrics.known(); tests > 0 {
			return it.Metrics
		}
	}
	return Metrics{}
}

// exhausted says whether the task had its attempts: as many as there are since
// one showed what another had shown before, these two included. While each fails
// in a way of its own there may be twice as many; see [view.strikes].
func (v *view) exhausted(cfg Config) bool {
	most, had := cfg.MaxTaskAttempts, v.h.Task.Attempts
	return most > 0 && (had >= 2*most || had >= most && v.strikes() >= most)
}

// endTask stops work on a task that is out of attempts or will not get there.
// It is split up first, where that was not done yet.
func (v *view) endTask(cfg Config, a *Assessment) (Verdict, bool) {
	p, critical := a.at(Critical, taskPatterns...)
	exhausted := v.exhausted(cfg)
	reason := p.Detail
	switch {
	case v.h.Task.ID == "" || v.last == nil:
		return Verdict{}, false
	case !critical && !exhausted:
		return Verdict{}, false
	case !critical:
		reason = strs.Count(v.h.Task.Attempts, "attempt") + " failed"
	}
	_, shared := a.at(Warning, PatternSharedError)
	_, repeated := a.at(Critical, PatternRepeatingError)
	switch {
	case v.absent() && exhausted:
		return Verdict{
			Kind: VerdictGiveUp, TaskID: v.h.Task.ID,
			Reason: strs.Count(len(v.own), "call") + " changed nothing and claimed nothing",
		}, true
	case repeated && v.siblings():
		return Verdict{Kind: VerdictGiveUp, TaskID: v.family, Reason: reason + ", in several of its parts"}, true
	case v.splitHelps(a) && (!exhausted || v.tries(cfg) > 0 || cfg.MaxTaskAttempts <= 1 || v.tooMuch()):
		return v.decomposed(reason), true
	case exhausted && !shared && v.tries(cfg) > 0:
		role := Architect
		if v.last.Role != Debugger && v.last.Verdict != VerdictDecompose {
			role = Debugger
		}
		return Verdict{
			Kind: VerdictSwitchRole, Role: role, Clean: v.tries(cfg) == 1, Reason: reason + "; another role has a last try",
		}, true
	default:
		return Verdict{Kind: VerdictGiveUp, TaskID: v.h.Task.ID, Reason: reason}, true
	}
}

// absent says whether no call at the task has changed or claimed anything: there is
// nothing that smaller tasks or another role could build on.
func (v *view) absent() bool {
	return len(v.own) > 0 && !slices.ContainsFunc(v.own, func(it *Iteration) bool {
		return it.Class != FailEmpty || it.ClaimedDone || !it.Unchanged
	})
}

// lastTries is how many calls a task that is out of attempts has in all: for a plan
// to split it up, and for attempts by other roles.
const lastTries = 2

// tries is how many of its last tries are left to a task that is out of attempts.
// With them, no more calls follow the evidence against a task than it has
// attempts. A task with a single attempt has none.
func (v *view) tries(cfg Config) int {
	most := cfg.MaxTaskAttempts
	if most <= 1 {
		return 0
	}
	return lastTries - max(v.strikes()-most, v.h.Task.Attempts-2*most)
}

// MayLook says whether a call that looks at what the last iteration claims is within
// what is left to the task at hand.
func MayLook(cfg Config, h History) bool {
	v := newView(&h)
	return cfg.MaxTaskAttempts <= 0 || v.strikes() < cfg.MaxTaskAttempts+lastTries
}

// splitHelps says whether smaller tasks could fare better than this one.
func (v *view) splitHelps(a *Assessment) bool {
	if !v.splittable() || v.last == nil {
		return false
	}
	if _, shared := a.at(Elevated, PatternSharedError); shared {
		return false
	}
	if !v.tooMuch() && v.sameClass(FailTimeout) < 2 && v.h.Task.OneFile {
		return false
	}
	return v.last.Class != FailCrash && v.last.Class != FailRateLimit && v.last.Class != FailRefused
}

func (v *view) decomposed(reason string) Verdict {
	verdict := Verdict{Kind: VerdictDecompose, TaskID: v.h.Task.ID, Role: Planner, Reason: reason}
	if v.last.tooMuch() {
		verdict.Role = Architect
	}
	return verdict
}

// splitTask splits a task up that is too much for one call: at once where the
// agent says so, at the second time where it ran out of time.
func (v *view) splitTask(_ Config, a *Assessment) (Verdict, bool) {
	if !v.splitHelps(a) {
		return Verdict{}, false
	}
	if v.tooMuch() {
		return v.decomposed("the agent says that the task is too much for one call"), true
	}
	if p, ok := a.at(Elevated, PatternTimeOnTask); ok {
		return v.decomposed(p.Detail), true
	}
	if v.last.Outcome == TimedOut && v.sameClass(FailTimeout) > 1 {
		return v.decomposed("the agent ran out of time twice"), true
	}
	return Verdict{}, false
}

// intervene answers what is not that bad yet: with a narrower step, or another role.
func (v *view) intervene(cfg Config, a *Assessment) (Verdict, bool) {
	if p, ok := a.at(Elevated, PatternTimeOnTask); ok {
		return Verdict{Kind: VerdictNarrow, Reason: p.Detail}, true
	}
	p, ok := a.at(Elevated, PatternRepeatingError, PatternRegression)
	if !ok {
		p, ok = a.at(Warning, PatternStagnation)
	}
	switch {
	case !ok || v.last == nil:
		return v.prevent(cfg, a)
	case promote(v.last.Role) != "":
		return Verdict{Kind: VerdictSwitchRole, Role: promote(v.last.Role), Reason: p.Detail}, true
	default:
		return Verdict{Kind: VerdictNarrow, Reason: p.Detail}, true
	}
}

// prevent steps in before there is a pattern, at a high risk of one.
func (v *view) prevent(cfg Config, a *Assessment) (Verdict, bool) {
	if !cfg.Predictive || !cfg.has(ruleRisk) || a.Level != None || a.Risk.Score <= narrowRisk {
		return Verdict{}, false
	}
	return Verdict{Kind: VerdictNarrow, Reason: "high risk of getting stuck: " + strings.Join(a.Risk.Reasons, ", ")}, true
}

// maxGuidance bounds what is added to a prompt, in bytes.
const maxGuidance = 2000

// guidance says what to do, and why it is said.
func guidance(a *Assessment) string {
	var parts []string
	switch a.Verdict.Kind {
	case VerdictNarrow:
		parts = append(parts, "Do one thing only: the smallest step that brings this task forward and that a check "+
			"can confirm. Leave everything else for later.")
	case VerdictRollBack:
		parts = append(parts, "The files were restored to their best state so far, because later changes broke "+
			"passing tests. Do not make those changes again.")
	case VerdictDecompose:
		parts = append(parts, "Split this task into parts that can each be described in two or three sentences and "+
			"checked by themselves. Change no code.")
	case VerdictSwitchRole:
		if a.Verdict.Clean {
			parts = append(parts, "This is the last attempt. The files were reset to the last commit, so nothing of "+
				"earlier attempts is left: start from scratch.")
		}
		if a.Verdict.Role == Architect {
			parts = append(parts, "Attempts within the current design have failed. Question the design before you change code.")
		} else {
			parts = append(parts, "Find the cause of the failure before you change code: reproduce it, name the "+
				"cause, fix only that.")
		}
	case VerdictProceed, VerdictGiveUp, VerdictAbort:
	}
	if a.Verdict.Kind != VerdictDecompose && a.Strategy.Kind != Decompose && a.Strategy.Guidance != "" {
		parts = append(parts, a.Strategy.Guidance)
	}
	for _, p := range a.Patterns[:min(len(a.Patterns), 3)] {
		parts = append(parts, patternGuidance(p))
	}
	if words := a.Signals.words(); words != "" && len(parts) > 0 {
		parts = append(parts, words)
	}
	return clip(strings.Join(parts, " "), maxGuidance)
}

// patternGuidance is what an agent can do about a pattern.
func patternGuidance(p Pattern) string {
	switch p.Kind {
	case PatternStagnation:
		return fmt.Sprintf("There were %d iterations without progress. Aim for something small that passes the checks.",
			p.Count)
	case PatternSharedError:
		return fmt.Sprintf("The same error came up in %d tasks, so this task alone is not the cause. Fix the common "+
			"cause first, if it is in the repository.", p.Count)
	case PatternRepeatingError:
		return fmt.Sprintf("The same error came up %d times. The attempts so far do not fix its cause.", p.Count)
	case PatternRegression:
		return fmt.Sprintf("Tests that passed before fail now, %d%% of them. Get them to pass again before anything else.",
			p.Count)
	case PatternTimeOnTask:
		return "This task has taken long. Get its most important part to work, and write down what is left."
	default:
		return ""
	}
}
