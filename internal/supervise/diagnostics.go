package supervise

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxDiagnostics bounds the account for a person, in bytes.
const maxDiagnostics = 4000

// diagnostics is an account for a person: what ended, what repeated, the last
// error, what was tried, what to do. Plain text; the lines of a list begin with
// a hyphen.
func (v *view) diagnostics(a *Assessment) string {
	var b strings.Builder
	if a.Verdict.Kind == VerdictAbort {
		fmt.Fprintf(&b, "The run was stopped: %s.\n", a.Verdict.Reason)
	} else {
		whole := ""
		if a.Verdict.TaskID != v.task {
			whole = " with all its parts that were left"
		}
		fmt.Fprintf(&b, "Gave up task %s%s: %s.\n", quote(a.Verdict.TaskID, maxID), whole, a.Verdict.Reason)
	}
	if len(a.Patterns) > 0 {
		b.WriteString("\nWhat repeated:\n")
		for _, p := range a.Patterns {
			fmt.Fprintf(&b, "- %s (%s): %s%s\n", p.Kind, p.Level, p.Detail, inIterations(p.Iterations))
		}
	}
	last := v.lastFailure()
	if last != nil && last.Error.Text != "" {
		fmt.Fprintf(&b, "\nThe last error (iteration %d, task %s, %s):\n- %s\n",
			last.Number, quote(last.TaskID, maxID), last.Class, quote(last.Error.Text, maxMessage))
	}
	if last != nil && last.Analysis.Asked != "" {
		fmt.Fprintf(&b, "\nWhat the agent asked:\n- %s\n", quote(last.Analysis.Asked, maxMessage))
	}
	if tried := v.tried(); tried != "" {
		fmt.Fprintf(&b, "\nWhat was tried:\n%s", tried)
	}
	fmt.Fprintf(&b, "\nWhat to do:\n- %s\n", advice(a, last))
	text := b.String()
	if len(text) > maxDiagnostics {
		text = strings.ToValidUTF8(text[:maxDiagnostics-len("…\n")], "") + "…\n"
	}
	return text
}

func inIterations(numbers []int) string {
	if len(numbers) == 0 {
		return ""
	}
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	noun := "iterations"
	if len(numbers) == 1 {
		noun = "iteration"
	}
	return fmt.Sprintf(", in %s %s", noun, strings.Join(words, ", "))
}

func (v *view) lastFailure() *Iteration {
	for _, it := range slices.Backward(v.own) {
		if it.Role != Planner { // how the splitting ended is nothing to fix
			return it
		}
	}
	if n := len(v.since); n > 0 {
		return v.since[n-1]
	}
	return nil
}

// tried lists what the supervisor had said about the task, the last ten times.
func (v *view) tried() string {
	var lines []string
	for it := range v.story() {
		if it.Verdict == "" || it.Verdict == VerdictProceed {
			continue
		}
		if len(lines) == maxEvidence {
			break
		}
		lines = append(lines, fmt.Sprintf("- %s before iteration %d (%s)\n", quote(string(it.Verdict), maxName), it.Number,
			quote(string(it.Role), maxName)))
	}
	slices.Reverse(lines)
	return strings.Join(lines, "")
}

// advice is what a person can do about it.
func advice(a *Assessment, last *Iteration) string {
	if _, ok := a.at(Elevated, PatternSharedError); ok {
		return "The cause is outside the tasks. Run the failing check yourself on the branch the run started from, " +
			"install what is missing, then start the run again."
	}
	if last == nil {
		return "Look at the tasks that are left, make them smaller or more exact, then start the run again."
	}
	if last.Analysis.Asked != "" {
		return "Answer the agent's question in the issue or the plan, then retry the task."
	}
	switch last.Class {
	case FailCompile, FailTest, FailLint:
		return "Run the failing check yourself. If the task cannot pass it, correct the task or the check; otherwise " +
			"describe in the task how to solve it, then retry it."
	case FailTimeout:
		return "Make the task smaller, or allow more time, then retry it."
	case FailCrash, FailRateLimit:
		return "Check the agent: its credentials, its quota, and whether it starts by itself."
	case FailEmpty:
		return "Check whether there is anything left to do in this task, and describe exactly what should be " +
			"different afterwards."
	case FailTooComplex:
		return "Split the task into parts of a few sentences each, then start the run again."
	case FailMissingContext:
		return "Add to the task what the agent could not find, with the paths of the files it needs, then retry it."
	case FailRefused:
		return "Make the change to the protected files yourself, then retry the task."
	case FailNone, FailUnknown:
		return "Read the last attempts, make the task more exact, then retry it."
	default:
		return "Read the last attempts, make the task more exact, then retry it."
	}
}
