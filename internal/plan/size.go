package plan

import (
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// What one iteration can be expected to do: "if it cannot be described in two or
// three sentences, split it".
const (
	maxSentences = 3
	maxWords     = 80
	maxAccept    = 8
	maxVerbs     = 2
)

// everythingRE finds a task that is the whole plan.
var everythingRE = strs.Lazy(`(?i)^(?:implement|build|create|do|write|finish|complete|port|rewrite|migrate|refactor)\s+(?:everything|it all|all (?:of )?(?:the|that|remaining)\b|the (?:whole|entire|complete|full|rest)\b|(?:all|the) remaining\b)`)

// clauseRE is where a list of things to do goes on.
var clauseRE = strs.Lazy(`(?i)[;,]\s+(?:and |then )?|\s+(?:and then|and also|and|as well as)\s+`)

// Oversized says whether a task asks for more than one iteration should do, and
// why, in words fit after "this task is large:". A task that only checks is not.
func Oversized(t run.Task) (why string, yes bool) {
	if t.Verify {
		return "", false
	}
	if n := len(sentences(t.Title)); n > maxSentences {
		return fmt.Sprintf("it takes %d sentences to describe", n), true
	}
	if n := len(words(t.Title)); n > maxWords {
		return fmt.Sprintf("it takes %d words to describe", n), true
	}
	if n := len(t.Accept); n > maxAccept {
		return fmt.Sprintf("it has %d acceptance criteria", n), true
	}
	if m := everythingRE().FindString(strings.TrimSpace(t.Title)); m != "" {
		return fmt.Sprintf("%q is a plan, not a step", strings.ToLower(m)), true
	}
	if n := orders(t.Title); n > maxVerbs {
		return fmt.Sprintf("it asks for %d things at once", n), true
	}
	return "", false
}

// orders counts the different things one sentence of a title tells to do: the
// clauses that begin with a verb and have an object.
func orders(title string) int {
	most := 0
	for _, s := range sentences(title) {
		n := 0
		for _, clause := range clauseRE().Split(s, -1) {
			w := words(clause)
			if len(w) > 1 && (strongVerbs()[w[0]] || weakVerbs()[w[0]]) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
