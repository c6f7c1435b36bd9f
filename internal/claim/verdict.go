package claim

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/org/ralph-action/internal/strs"
)

// VerifyPrefix is what the closing line of a verification begins with.
const VerifyPrefix = "RALPH_VERIFY:"

// Verification is the answer of an agent that was asked whether a task that changed
// nothing is really done.
type Verification struct {
	// Agreed says that all criteria are answered yes with evidence, the closing
	// line agrees, and nothing contradicts it. Without criteria nothing is agreed.
	Agreed bool
	// Answers are one for each criterion, in order. A missing one has Met false
	// and no Evidence.
	Answers []Answer
	// Objection is why not, in the agent's words, or in ours if it answered in no
	// usable form: one line of at most 600 bytes, "" when agreed.
	Objection string
}

// Answer is what is said of one criterion.
type Answer struct {
	Met      bool
	Evidence string // one line of at most 300 bytes
}

// maxCriteria bounds the criteria that are answered; no task has as many.
const maxCriteria = 1000

var (
	answerLine = strs.Lazy(`(?i)^(?:(?:acceptance )?(?:criterion|criteria)[ \t]*|#)?(\d{1,4})(?:[ \t]*\([^()]{1,200}\))?[ \t]*[.):–—-]*[ \t]*` +
		`(?:[✅❌✔✗✘]\x{FE0F}?[ \t]*)?(yes|no|ja|nein|oui|non|sí|si|sim|não|nao|partly|partially|✅|✔|❌|✗|✘)\x{FE0F}?` +
		`(?:$|[ \t]*[:.,;(–—-]+[ \t]*(.*)$|[ \t]+(.*)$)`)
	verifyLine = strs.Lazy(`(?i)^` + VerifyPrefix + `[ \t]*(agreed|not[ \t]+agreed)[ \t]*(?:$|[:.,;–—-][ \t]*(.*)$)`)
	yes        = map[string]bool{
		"yes": true, "ja": true, "oui": true, "sí": true, "si": true, "sim": true, "✅": true, "✔": true,
	}
)

// answered is what was read of one criterion.
type answered struct {
	Answer
	found bool
}

// ReadVerification reads the answers to n numbered criteria: lines such as
// "1. yes: internal/x.go:12 returns …" and a closing line, "RALPH_VERIFY: agreed"
// or "RALPH_VERIFY: not agreed: why". VERIFICATION_PASS and VERIFICATION_FAIL,
// alone on a line, are closing lines as well.
func ReadVerification(final string, n int) Verification {
	n = max(0, min(n, maxCriteria))
	m := parse(final)
	answers, refused := m.answers(n)
	v := Verification{Answers: make([]Answer, n)}
	for i, a := range answers {
		v.Answers[i] = a.Answer
	}
	v.Objection = oneLine(m.objection(answers, refused), maxObjection)
	v.Agreed = v.Objection == ""
	return v
}

// objection is the first reason not to agree, "" for none.
func (m message) objection(answers []answered, refused string) string {
	agrees, why, closed := m.closing()
	if closed && !agrees && why != "" {
		return why
	}
	if refused != "" {
		return refused
	}
	for i, a := range answers {
		switch {
		case !a.found:
			return fmt.Sprintf("Criterion %d was not answered.", i+1)
		case a.Evidence == "":
			return fmt.Sprintf("Criterion %d was answered without evidence.", i+1)
		}
	}
	said, admitted := m.admission(false)
	switch {
	case admitted:
		return said.text
	case closed && !agrees:
		return "The closing line does not agree, and gives no reason."
	case !closed:
		return "The closing line is missing."
	case len(answers) == 0:
		return "There was no criterion to answer."
	}
	return ""
}

// answers reads the answers to n criteria. refused is the first that says no,
// whatever its number is. What is answered twice is met if both say so.
func (m message) answers(n int) (out []answered, refused string) {
	out = make([]answered, n)
	last := -1 // the criterion that the lines below give evidence for
	for i, l := range m.lines {
		if l.kind == blank || l.loose {
			continue
		}
		at, a, ok := readAnswer(m.numbered(i))
		if !ok {
			if last >= 0 && out[last].Evidence == "" && l.kind != heading && !isClosing(l.text) {
				out[last].Evidence = oneLine(l.text, maxEvidence)
			}
			last = -1
			continue
		}
		last = -1
		if !a.Met && refused == "" {
			refused = fmt.Sprintf("Criterion %d: %s", at, a.Evidence)
			if a.Evidence == "" {
				refused = fmt.Sprintf("Criterion %d is not met.", at)
			}
		}
		if at < 1 || at > n {
			continue
		}
		if before := out[at-1]; before.found {
			a.Met = a.Met && before.Met
			if !before.Met {
				a.Evidence = before.Evidence
			}
		}
		out[at-1] = answered{a, true}
		last = at - 1
	}
	return out, refused
}

// numbered is a line with its number, which is the marker of a list as well.
func (m message) numbered(at int) string {
	text := m.lines[at].text
	if m.lines[at].kind == item && listNumber().MatchString(m.raw[at]) {
		text = m.raw[at]
	}
	return text
}

var listNumber = strs.Lazy(`^\d{1,3}[.)]`)

func readAnswer(text string) (at int, a Answer, ok bool) {
	text = strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(text, "**", ""), "__", ""))
	f := answerLine().FindStringSubmatch(text)
	if f == nil {
		return 0, Answer{}, false
	}
	at, err := strconv.Atoi(f[1])
	if err != nil {
		return 0, Answer{}, false
	}
	met := yes[strings.ToLower(f[2])]
	if !met && f[4] != "" {
		return 0, Answer{}, false // "1. No other caller exists"
	}
	evidence := strings.Trim(f[3]+f[4], " \t*_")
	if !strings.ContainsFunc(evidence, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
		evidence = ""
	}
	return at, Answer{Met: met, Evidence: oneLine(evidence, maxEvidence)}, true
}

// closing reads the closing lines; of several the one that does not agree counts.
// One that agrees stands at the end of the message.
func (m message) closing() (agrees bool, why string, found bool) {
	end := m.signOff()
	for i, l := range m.lines {
		if l.kind == blank || l.kind == row {
			continue
		}
		agreed, reason, ok := readClosing(bare(l.text))
		switch {
		case !ok, m.mentioned(i):
		case !agreed:
			return false, reason, true
		case i >= end && !l.loose:
			agrees, found = true, true
		}
	}
	for _, s := range m.signals() {
		if s.kind != Done {
			return false, s.words, true
		}
	}
	return agrees, "", found
}

// readClosing reads a closing line of a verification.
func readClosing(text string) (agreed bool, why string, ok bool) {
	if f := verifyLine().FindStringSubmatch(text); f != nil {
		return strings.EqualFold(f[1], "agreed"), f[2], true
	}
	f := tokenLine().FindStringSubmatch(text)
	if f == nil || !strings.HasPrefix(f[1], "VERIFICATION_") {
		return false, "", false
	}
	s, ok := tokens[f[1]]
	if s.kind == Done && f[2] != "" {
		return false, "", false
	}
	return s.kind == Done, f[2], ok
}

func isClosing(text string) bool {
	_, _, ok := readClosing(bare(text))
	return ok
}
