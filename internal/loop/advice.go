package loop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// byClass is what follows from the class of a failure: a sentence for the next call, and one for
// the person who finds the task given up.
var byClass = map[Class]struct{ agent, person string }{
	FailCompile: {
		"Fix only this compilation error and change nothing else. Run the failing check yourself before you end.",
		failingCheck,
	},
	FailLint: {
		"Fix only what the linter objects to and change nothing else. Run the failing check yourself before you end.",
		failingCheck,
	},
	FailTest: {
		"Read the failing test first and understand what it expects. Then change only the implementation until it " +
			"passes. Do not change or delete the test.", failingCheck,
	},
	FailCheck: {"Run the failing check yourself, and fix what it reports before anything else.", failingCheck},
	FailHang: {
		"Find what makes the check hang or run too long, and fix only that.",
		"Make the task smaller, or allow more time, then retry it.",
	},
	FailTimeout: {
		"The last call ran out of time. Take the smallest step that brings the task forward, and write down what is left.",
		"Make the task smaller, or allow more time, then retry it.",
	},
	FailCrash: {
		"The last call broke off. Start with the smallest useful change and keep commands short.",
		"Check the agent: its credentials, its quota, and whether it starts by itself.",
	},
	FailRefused: {
		"The last change touched what this run must not change. Leave those files alone and reach the goal without " +
			"them; if that is impossible, say exactly why.",
		"Make that change yourself, then retry the task.",
	},
	FailEmpty: {
		"The last call changed no file. Read the definitions, the callers and the tests of what you are going to " +
			"change, and make the change now; reading and planning alone do not count. Nobody answers questions while you " +
			"work: decide what is easiest to change later and write the assumption down, or end with " +
			"`RALPH_RESULT: blocked: ` and the question.",
		"Check whether there is anything left to do in this task, and describe exactly what should be different " +
			"afterwards.",
	},
	FailTooLarge: {
		"The task is too much for one call. Work on its first part only, and write down what is left.",
		"Split the task into parts of a few sentences each, then start the run again.",
	},
	FailUnknown: {
		"Read what went wrong in the last attempt and fix that before anything else.",
		"Read the last attempts, make the task more exact, then retry it.",
	},
}

const failingCheck = "Run the failing check yourself. If the task cannot pass it, correct the task or the check; " +
	"otherwise describe in the task how to solve it, then retry it."

// What a call is told that is not like the one before.
const (
	askForParts = "Split this task into parts that can each be described in two or three sentences and checked by " +
		"themselves. Change no code."
	cleanFiles = "The files were reset to the last commit, so nothing of earlier attempts is left: start from scratch."
	newDesign  = "Attempts within the current design have failed. Question the design before you change code."
	findCause  = "Find the cause of the failure before you change code: reproduce it, name the cause, fix only that."
	otherWay   = "What was tried does not work. Do not repeat it: name its assumption that is wrong, choose another " +
		"way, and take the smallest step that shows whether it works."
	oneStep = "Do one thing only: the smallest step that brings this task forward and that a check can confirm. Leave " +
		"everything else for later."
	tookLong = "This task has taken long. Get its most important part to work, and write down what is left."
)

// From which risk on the next call is asked for one small step, and for another way.
const (
	riskOfLoop = 0.5
	highRisk   = 0.7
)

// risk is how likely the task gets stuck, from 0 to 1: the four signs of the system that Ralph
// Bot learnt from.
func (v *story) risk() (risk float64) {
	touched, shown := map[string]int{}, map[string]int{}
	failed, again, flat := 0, 0, 0
	for i, c := range v.own {
		for _, f := range c.Files {
			touched[f]++
		}
		if c.Shown != "" {
			failed++
			if shown[c.Shown]++; shown[c.Shown] > 1 {
				again++
			}
		}
		if i > 0 && c.Passing > 0 && c.Passing <= v.own[i-1].Passing {
			flat++
		}
	}
	for _, n := range touched {
		if n > 3 {
			risk = 0.3 // one file is changed again and again
		}
	}
	if flat >= 5 {
		risk += 0.2 // no more tests pass than before
	}
	if failed > 0 && float64(again)/float64(failed) > 0.5 {
		risk += 0.4 // most failures have come before
	}
	if n := len(v.own); n > 1 && v.own[n-1].Role != v.own[n-2].Role {
		risk += 0.2 // the role was switched a short time ago
	}
	return min(risk, 1)
}

// maxNamedTests bounds the failing tests that guidance names.
const maxNamedTests = 3

// guidance is what the next call at a task is told of how to go on.
func (v *story) guidance(d Decision, limits run.Limits) string {
	switch {
	case d.Verdict == VerdictDecompose:
		return askForParts
	case v.last == nil:
		return ""
	}
	var parts []string
	if d.Clean {
		parts = append(parts, cleanFiles)
	}
	if d.Verdict == VerdictSwitchRole {
		if d.Role == run.RoleArchitect {
			parts = append(parts, newDesign)
		} else {
			parts = append(parts, findCause)
		}
	}
	parts = append(parts, byClass[v.last.Class].agent)
	if tests := v.last.Failing; len(tests) > 0 {
		named := make([]string, 0, maxNamedTests)
		for _, name := range tests[:min(len(tests), maxNamedTests)] {
			named = append(named, "`"+strings.ReplaceAll(name, "`", "'")+"`")
		}
		parts = append(parts, "What failed: "+strings.Join(named, ", ")+".")
	}
	risk, repeats := v.risk(), 0
	for _, c := range v.own {
		if v.last.repeats(c) {
			repeats++
		}
	}
	if repeats > 0 || risk > highRisk {
		parts = append(parts, otherWay)
	}
	if risk > riskOfLoop {
		parts = append(parts, oneStep)
	}
	if other := v.shared(); other != "" {
		parts = append(parts, "The same failure came up in "+other+", so this task alone is not the cause. Fix the "+
			"common cause first, if it is in the repository.")
	}
	if limits.TaskTime > 0 && v.spent() >= limits.TaskTime {
		parts = append(parts, tookLong)
	}
	if words := v.last.Words(); words != "" {
		parts = append(parts, "Of the last attempt: "+words+".")
	}
	return strings.Join(parts, " ")
}

// diagnostics is an account for a person: what ended, the last error, what was tried, what to do.
// It is plain text; the lines of a list begin with a hyphen.
func (v *story) diagnostics(d Decision) string {
	var b strings.Builder
	switch {
	case d.Verdict == VerdictAbort:
		fmt.Fprintf(&b, "The run was stopped: %s.\n", d.Reason)
	default:
		fmt.Fprintf(&b, "Gave up task %s: %s.\n", v.task, d.Reason)
	}
	what := byClass[FailUnknown].person
	if v.last != nil {
		what = byClass[v.last.Class].person
		if v.last.Error != "" {
			fmt.Fprintf(&b, "\nThe last error (iteration %d, task %s, %s):\n- %s\n",
				v.last.Number, v.last.TaskID, v.last.Class, v.last.Error)
		}
	}
	if v.last != nil && v.shared() != "" {
		what = "The cause is outside the tasks. Run the failing check yourself on the branch the run started from, " +
			"install what is missing, then start the run again."
		if v.passedBefore() {
			what = "The check passed before, so the work breaks it. " + failingCheck
		}
	}
	b.WriteString("\nWhat was tried:\n")
	for _, c := range v.own {
		fmt.Fprintf(&b, "- iteration %d, %s: %s\n", c.Number, c.Role, strs.Cut(c.result(), maxTold))
	}
	fmt.Fprintf(&b, "\nWhat to do:\n- %s\n", what)
	return b.String()
}

// passedBefore says whether a check that failed last passes on what had landed before.
func (v *story) passedBefore() bool {
	return slices.ContainsFunc(v.state.GateLast, func(r gate.Result) bool {
		return r.Verdict.Standing == gate.Failed && v.state.Baseline[baselineKey(r.Command, v.state.Image)].Passed
	})
}

// result says what came of a call.
func (c *Seen) result() string {
	if c.Verdict == VerdictDecompose {
		return "the task could not be split"
	}
	return string(c.Class)
}
