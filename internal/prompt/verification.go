package prompt

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// Verification is the answer of an agent that was asked whether a task is really done.
type Verification struct {
	// Agreed: all criteria are answered yes with evidence, and the closing line agrees. Without criteria nothing is
	// agreed.
	Agreed bool
	// Answers are one for each criterion, in order. A missing one is empty.
	Answers []Answer
	// Objection is why not, in the agent's words, or in ours if it answered in no usable form: one line of at most
	// maxObjection bytes, "" when agreed.
	Objection string
}

// Answer is what is said of one criterion.
type Answer struct {
	Met      bool
	Evidence string // one line of at most maxEvidence bytes
}

// Bounds of a verification.
const (
	maxCriteria  = 1000
	maxEvidence  = 300 // in bytes
	maxObjection = 600 // in bytes
)

var (
	// An answer of no has punctuation behind it, for "1. No other caller exists" is none.
	answerLine = strs.Lazy(`(?i)^[-*|]?[ \t]*(?:criterion[ \t]*|#)?(\d{1,4})[^\pL\pN]*` +
		`(?:(yes)\b(?:\.(?:[ \t]|$))?[ \t:,;|–—-]*|(no|partly)[ \t]*(?:$|[:.,;|–—-][ \t:.,;|–—-]*))(.*)$`)
	verifyLine = strs.Lazy(`(?i)^RALPH_VERIFY:[ \t]*(not[ \t]+)?agreed[ \t]*(?:$|[:.,;–—-][ \t]*(.*)$)`)
)

// ReadVerification reads the answers to n numbered criteria: lines such as "1. yes: internal/x.go:12 returns …", and a
// closing line: "RALPH_VERIFY: agreed" or "RALPH_VERIFY: not agreed: why". The signal of another system stands for that
// line; of several the one that does not agree counts.
func ReadVerification(final string, n int) Verification {
	v := Verification{Answers: make([]Answer, max(0, min(n, maxCriteria)))}
	var agreed, refused bool
	var why, no string
	answered := make([]bool, len(v.Answers))
	last := -1 // the criterion whose evidence may stand on the line below
	for _, line := range ownLines(final) {
		closing, claim := verifyLine().FindStringSubmatch(bare(line)), signal(line, "")
		at, a, isAnswer := readAnswer(line)
		switch {
		case closing != nil && closing[1] != "":
			refused, why = true, cmp.Or(why, closing[2])
		case closing != nil, claim.Kind == ClaimDone:
			agreed = true
		case claim.Kind != ClaimNone:
			refused, why = true, cmp.Or(why, claim.Words)
		case !isAnswer:
			if last >= 0 && v.Answers[last].Evidence == "" {
				v.Answers[last].Evidence = oneLine(line, maxEvidence)
			}
		case !a.Met:
			no = cmp.Or(no, fmt.Sprintf("Criterion %d: %s", at, cmp.Or(a.Evidence, "it is not met")))
		}
		last = -1
		if isAnswer && at >= 1 && at <= len(v.Answers) && !answered[at-1] {
			last = at - 1
			v.Answers[last], answered[last] = a, true
		}
	}
	v.Objection = cmp.Or(why, no)
	for i, a := range v.Answers {
		switch {
		case v.Objection != "":
		case !answered[i]:
			v.Objection = fmt.Sprintf("Criterion %d was not answered.", i+1)
		case a.Evidence == "":
			v.Objection = fmt.Sprintf("Criterion %d was answered without evidence.", i+1)
		}
	}
	switch {
	case v.Objection != "":
	case refused:
		v.Objection = "The closing line does not agree, and gives no reason."
	case !agreed:
		v.Objection = "The closing line is missing."
	case len(v.Answers) == 0:
		v.Objection = "There was no criterion to answer."
	}
	v.Objection = oneLine(v.Objection, maxObjection)
	v.Agreed = v.Objection == ""
	return v
}

// readAnswer reads the answer to one criterion: "1. yes: internal/x.go:12", also as a row of a table.
func readAnswer(line string) (at int, a Answer, ok bool) {
	m := answerLine().FindStringSubmatch(strings.ReplaceAll(line, "**", ""))
	if m == nil {
		return 0, Answer{}, false
	}
	at, err := strconv.Atoi(m[1])
	if err != nil {
		return 0, Answer{}, false
	}
	return at, Answer{
		Met:      m[2] != "",
		Evidence: oneLine(strings.TrimRight(m[4], "| \t"), maxEvidence),
	}, true
}
