package supervise

import (
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// Activity is what an agent did in one call, counted from its stream: how often it
// read, and how often it changed a file.
type Activity struct{ Reads, Writes int }

// Add counts one call of a tool, by its name in the agents' command lines.
func (a *Activity) Add(tool string) {
	tool = strings.ToLower(tool)
	switch {
	case containsAny(tool, "todo", "plan"):
	case containsAny(tool, "write", "edit", "patch", "create", "replace", "insert"):
		a.Writes++
	case containsAny(tool, "bash", "shell", "exec", "command", "terminal", "run"):
	case tool == "ls", containsAny(tool, "read", "grep", "glob", "search", "list", "view", "fetch", "find"):
		a.Reads++
	}
}

func containsAny(s string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// Analysis is what an agent's behaviour and its last words say about a call.
type Analysis struct {
	// Exploring: it read a lot and wrote next to nothing.
	Exploring bool
	// Asked is the first question it asked, "" for none. Nobody answers in the middle of
	// a run.
	Asked string
	// TooComplex: it says that the task is too much for one call.
	TooComplex bool
	// MissingContext: it says that it lacks something it has to know.
	MissingContext bool
	// Denied: it says that it was not permitted to act.
	Denied bool
}

// What makes a call exploring.
const (
	exploringReads = 5  // at least, without a write
	exploringRatio = 10 // reads a write
	analysedBytes  = 16 << 10
)

// AnalyseOutput reads an agent's final message and what it did. Code and quoted
// lines of the message are left out.
func AnalyseOutput(final string, did Activity) Analysis {
	a := Analysis{Exploring: did.Reads >= exploringReads && did.Reads >= exploringRatio*did.Writes}
	if len(final) > analysedBytes {
		final = final[len(final)-analysedBytes:]
	}
	fenced := false
	for line := range strings.Lines(final) {
		line = clip(line, 4*signatureLine)
		if strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
			fenced = !fenced
			continue
		}
		if fenced || strings.HasPrefix(line, ">") {
			continue
		}
		if a.Asked == "" && questionRE().MatchString(line) {
			a.Asked = quote(line, maxMessage)
		}
		a.TooComplex = a.TooComplex || complexRE().MatchString(line)
		a.MissingContext = a.MissingContext || contextRE().MatchString(line)
		a.Denied = a.Denied || deniedRE().MatchString(line)
	}
	return a
}

// The words of agents. Each wants the speaker or the task in it, so that a
// message about somebody else's questions does not count.
var (
	questionRE = strs.Lazy(`(?i)\b(?:should|shall|may|can|could|do) (?:I|we)\b[^.!?]*\?|\b(?:would|do|could|can) you\b[^.!?]*\?|\b(?:which|what|how|where)\b[^.!?]*\byou(?:r|'d)?\b[^.!?]*\?|\bI need (?:an answer|clarification|(?:a|your) (?:decision|answer|input))\b|\bplease (?:confirm|clarify|advise|let me know|specify|tell me)\b|\blet me know (?:which|what|how|whether|if you(?:'d)? (?:want|like|prefer))\b`)
	complexRE  = strs.Lazy(`(?i)\b(?:task|change|work|scope|refactoring|this)\b[^.]{0,40}\btoo (?:large|big|complex|broad|much)\b|\b(?:needs?|should|must|has|have) (?:to )?be (?:split|broken (?:up|down|into))\b|\b(?:ran|running) out of (?:context|turns|time)\b|\bin (?:several|multiple) (?:separate )?(?:steps|iterations|sessions|passes)\b|\b(?:more than|not|n't) fits? (?:in|into|within) (?:one|a single|this) (?:session|call|pass|iteration|turn|context)\b`)
	contextRE  = strs.Lazy(`(?i)\bI (?:could not|couldn't|cannot|can't|was unable to|am unable to|was not able to) (?:find|locate|determine|figure out|tell)\b|\bI (?:do not|don't) (?:know|have (?:enough|the|access|any))\b|\b(?:not enough|insufficient|missing|without (?:more|further)) (?:context|information|documentation|details?|requirements?)\b|\b(?:is|are|was) (?:unclear|ambiguous|not specified|underspecified)\b`)
	deniedRE   = strs.Lazy(`(?i)\bpermission (?:was |is |has been )?(?:denied|refused)\b|\b(?:was|am|were) not (?:permitted|allowed) to\b|\bI (?:cannot|can't|won't|will not) (?:help|assist|comply)\b`)
)
