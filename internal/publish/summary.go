package publish

import (
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

const (
	// maxSentence bounds a sentence of the summary, in bytes.
	maxSentence = 300
	// maxChanges is how many sentences say what changed.
	maxChanges = 2
)

// tryIt begins the sentence in which an agent says how to try its work; the prompt
// asks for it.
const tryIt = "Try it:"

// summary says in the agents' own words what changed and how to try it: the first sentences of what they said of the first tasks that
// changed something, and the newest hint. It is "" where they said nothing.
func (r *renderer) summary() string {
	var changes []string
	try := ""
	for _, c := range r.v.Commits {
		said := c.Summary
		if r.v.Mask != nil {
			said = r.v.Mask(said) // before it is cut: a sentence may end within a secret
		}
		change, hint := sentences(said)
		if change = r.speak(change, maxSentence); change != "" && len(changes) < maxChanges {
			changes = append(changes, change)
		}
		if hint = r.speak(hint, maxSentence); hint != "" {
			try = tryIt + " " + hint
		}
	}
	if try != "" {
		changes = append(changes, try)
	}
	if len(changes) == 0 {
		return ""
	}
	return "\n" + strings.Join(changes, " ") + "\n"
}

// sentenceRE finds the end of a sentence. A dot within a name or a command is none.
var sentenceRE = strs.Lazy("[\\pL\\pN)\"'`][.!?](?:\\s|$)")

// sentences gives the first sentence of a text, with its full stop, and what
// stands behind the words "Try it:" until the end of that sentence.
func sentences(text string) (change, try string) {
	text = strings.Join(strings.Fields(text), " ")
	if before, after, ok := strings.Cut(text, tryIt); ok {
		text, try = before, first(after)
	}
	if change = first(text); strings.Count(change, " ") < 2 { // "Done."
		change = ""
	}
	return change, try
}

// first is the first sentence of a text.
func first(text string) string {
	text = strings.TrimSpace(text)
	at := sentenceRE().FindStringIndex(text)
	if at == nil {
		return text
	}
	return strings.TrimSpace(text[:at[1]])
}
