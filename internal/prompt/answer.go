package prompt

import (
	"cmp"
	"regexp"
	"strings"
	"unicode"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// ClaimKind is what an agent says of its task.
type ClaimKind string

// What can be said of a task, the weakest last.
const (
	ClaimNone    ClaimKind = ""        // nothing was claimed
	ClaimDone    ClaimKind = "done"    // the task is done
	ClaimPartial ClaimKind = "partial" // progress, and something is left
	ClaimBlocked ClaimKind = "blocked" // something is missing that the agent cannot get by itself
	ClaimFailed  ClaimKind = "failed"  // it tried and it does not work
)

// Claim is what an agent says of its task. It decides what the host tries next, never that a task is done: the checks
// do that.
type Claim struct {
	Kind ClaimKind
	// Words say what is left, what is missing or why, in the agent's own words: one line of at most maxWords bytes,
	// "" for none.
	Words string
	// All: the agent calls all of the work complete, not only this task.
	All bool
}

// Bounds.
const (
	maxWords     = 400   // bytes of what comes back of a message
	maxOwnLines  = 300   // lines of a message that are read, the last ones
	maxOwnLine   = 2_000 // bytes that are read of a line
	maxLinesDone = 10    // lines at the end of a message in which a claim of done counts
)

// Ticked is the claim of an agent that has ticked the task's box as well.
func (c Claim) Ticked() Claim {
	if c.Kind == ClaimNone {
		c.Kind = ClaimDone
	}
	return c
}

// ReadClaim says what an agent claims in its last message: what the signals in it say, the weakest if they disagree, or
// else a sentence by which the agent admits that it is not done. No other prose claims anything. Where promise is not ""
// the agent claims its task with those words, exactly, between <promise> and </promise>, and with nothing else.
func ReadClaim(final, promise string) Claim {
	promise = strs.OneLine(promise)
	lines := ownLines(final)
	var found Claim
	var prose []string
	done, all, advice := false, false, ""
	for i, line := range lines {
		c := signal(line, promise)
		if i == len(lines)-1 && c.Kind == ClaimNone {
			c = promiseAtEnd(line, promise)
		}
		switch {
		case c.Kind == ClaimDone:
			if i >= len(lines)-maxLinesDone {
				done, all = true, all || c.All
			}
		case strength(c.Kind) > strength(found.Kind):
			found = c
		case strings.HasPrefix(line, "RECOMMENDATION:"):
			advice = strings.TrimSpace(line[len("RECOMMENDATION:"):])
		case c.Kind == ClaimNone:
			prose = append(prose, line)
		}
	}
	switch {
	case found.Kind != ClaimNone:
		found.Words = cmp.Or(found.Words, advice, admission(prose).Words)
	case done:
		found = Claim{Kind: ClaimDone, All: all}
	default:
		found = admission(prose)
	}
	found.Words = oneLine(found.Words, maxWords)
	return found
}

// oneLine is an agent's text on one line of at most limit bytes, without what could drive a terminal.
func oneLine(text string, limit int) string {
	return strings.TrimSpace(strs.Cut(strs.OneLine(run.PrintableLine(text)), limit))
}

// Prose is a message without its closing line: what the agent tells besides its claim.
func Prose(final string) string {
	var b strings.Builder
	for line := range strings.Lines(final) {
		if !strings.HasPrefix(bare(line), "RALPH_RESULT:") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// strength orders what is said against a task.
func strength(k ClaimKind) int {
	return map[ClaimKind]int{ClaimPartial: 1, ClaimBlocked: 2, ClaimFailed: 3}[k]
}

// ownLines are the last lines of a message that are the agent's own words, trimmed: no code block, quote or blank line.
func ownLines(final string) []string {
	var own []string
	open := ""
	for text := range strings.Lines(final) {
		text = strings.TrimSpace(text)
		mark := text[:len(text)-len(strings.TrimLeft(text, "`"))]
		if strings.HasPrefix(text, "~") {
			mark = text[:len(text)-len(strings.TrimLeft(text, "~"))]
		}
		switch {
		case open != "":
			if mark == text && strings.HasPrefix(mark, open) {
				open = ""
			}
		case len(mark) >= 3 && !strings.Contains(text[len(mark):], "`"):
			open = mark
		case text != "" && text[0] != '>':
			own = append(own, text[:min(len(text), maxOwnLine)])
		}
	}
	return own[max(0, len(own)-maxOwnLines):]
}

// tokens are the signals that are one word, alone on a line. One that says that something is not done may give its
// reason behind a colon or a dash.
var tokens = map[string]Claim{
	"TASK_COMPLETE":       {Kind: ClaimDone}, // smart-ralph's executor
	"ALL_TASKS_COMPLETE":  {Kind: ClaimDone, All: true},
	"RALPH_DONE":          {Kind: ClaimDone, All: true}, // portableralph, rslph
	"LOOP_COMPLETE":       {Kind: ClaimDone, All: true}, // ralph-orchestrator
	"VERIFICATION_PASS":   {Kind: ClaimDone},            // smart-ralph's verifier
	"VERIFICATION_PASSED": {Kind: ClaimDone},
	"TASK_INCOMPLETE":     {Kind: ClaimPartial},
	"TASK_BLOCKED":        {Kind: ClaimBlocked},
	"TASK_FAILED":         {Kind: ClaimFailed},
	"VERIFICATION_FAIL":   {Kind: ClaimFailed},
	"VERIFICATION_FAILED": {Kind: ClaimFailed},

	"<<<RALPHEX:ALL_TASKS_DONE>>>": {Kind: ClaimDone, All: true},
	"<<<RALPHEX:TASK_FAILED>>>":    {Kind: ClaimFailed},
	"<<<RALPHEX:FAILED>>>":         {Kind: ClaimFailed},
}

// states are the words in which our closing line, a status line or a promise says how things stand.
var states = map[string]ClaimKind{
	"done": ClaimDone, "complete": ClaimDone, "completed": ClaimDone, "finished": ClaimDone, "success": ClaimDone,
	"partial": ClaimPartial, "incomplete": ClaimPartial, "in progress": ClaimPartial, "not done": ClaimPartial,
	"not complete": ClaimPartial, "not finished": ClaimPartial, "unfinished": ClaimPartial,
	"blocked": ClaimBlocked, "stuck": ClaimBlocked,
	"failed": ClaimFailed, "failure": ClaimFailed, "fail": ClaimFailed, "failing": ClaimFailed,
}

var (
	// closingLine is ours, or STATUS or TESTS_STATUS of the status block of ralph-claude-code.
	closingLine = strs.Lazy(`(?i)^(?:RALPH_RESULT|(?:tests_|task )?status)[ \t]*:[ \t]*(.+)$`)
	// stateWord takes a state and its reason apart. What is neither at its end nor followed by punctuation is another
	// word, or a template's "done|partial".
	stateWord   = strs.Lazy(`^([A-Za-z]+(?:[ _][A-Za-z]+)?)[ \t]*(?:$|[:.,;!(–—-][ \t]*(.*)$)`)
	tokenLine   = strs.Lazy(`^([A-Z_]+|<<<[A-Z_:]+>>>)[ \t]*(?:$|[:–—-][ \t]*(.*)$)`)
	promiseLine = strs.Lazy(`^(.*?)<promise>[ \t]*([^<>]{1,80}?)[ \t]*</promise>$`)
)

// signal reads a line that claims something in a form that a system specifies. The words are those of the seeds and of
// systems like them; see docs/compatibility.md.
func signal(line, promise string) Claim {
	line = bare(line)
	if m := promiseLine().FindStringSubmatch(line); m != nil && m[1] == "" {
		return promised(m[2], promise)
	}
	var c Claim
	if m := closingLine().FindStringSubmatch(line); m != nil {
		c = state(strings.Trim(m[1], "*`_ \t"))
	} else if m := tokenLine().FindStringSubmatch(line); m != nil {
		if c = tokens[m[1]]; c.Kind == ClaimDone && m[2] != "" {
			return Claim{} // "TASK_COMPLETE: not yet"
		}
		c.Words = m[2]
	}
	if promise != "" && c.Kind == ClaimDone {
		return Claim{}
	}
	return c
}

// state reads "partial: nine modules are left".
func state(text string) Claim {
	m := stateWord().FindStringSubmatch(text)
	if m == nil {
		return Claim{}
	}
	c := Claim{Kind: states[strings.ReplaceAll(strings.ToLower(m[1]), "_", " ")], Words: m[2]}
	if c.Kind == ClaimDone || c.Kind == ClaimNone {
		c.Words = ""
	}
	return c
}

// promised reads what stands between <promise> and </promise>.
func promised(text, promise string) Claim {
	c := state(text)
	switch {
	case c.Kind != ClaimNone && c.Kind != ClaimDone:
		return c
	case promise != "" && strs.OneLine(text) != promise:
		return Claim{}
	case promise == "" && strings.Contains(" "+strings.ToLower(text)+" ", " not "):
		return Claim{Kind: ClaimPartial, Words: text}
	}
	return Claim{Kind: ClaimDone, All: promise != "" || text == "COMPLETE"}
}

// promiseAtEnd reads a promise behind the last sentence of a message: "It works. <promise>COMPLETE</promise>".
func promiseAtEnd(line, promise string) Claim {
	m := promiseLine().FindStringSubmatch(bare(line))
	if m == nil || strs.OneLine(m[2]) != cmp.Or(promise, "COMPLETE") || !strings.HasSuffix(strings.TrimSpace(m[1]), ".") {
		return Claim{}
	}
	return Claim{Kind: ClaimDone, All: true}
}

// bare takes what may surround a signal off a line: space, a list's mark, emphasis, code quotes, a full stop, an emoji.
func bare(line string) string {
	decoration := func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("*`_\uFE0F\u200D", r) || unicode.Is(unicode.So, r)
	}
	line = strings.TrimLeftFunc(strings.ReplaceAll(line, "**", ""), func(r rune) bool {
		return decoration(r) || r == '-' || r == '+' || r == '#'
	})
	return strings.TrimRightFunc(line, func(r rune) bool { return decoration(r) || r == '.' || r == '!' })
}

// admissions are the dozen phrases by which agents say that they are not done, the gravest first. They count only where
// no signal says how things stand, and what they miss or mistake is left to the checks.
var admissions = []struct {
	kind   ClaimKind
	phrase func() *regexp.Regexp
}{
	{ClaimBlocked, strs.Lazy(`(?i)\bmanual (?:intervention|steps?|work)\b|\bcan not be automated\b` +
		`|\bneeds? (?:an? |your |the )?(?:human|person|answer|decision|access|permission|credential|clarification)` +
		`|\bonly (?:a person|you)\b|\bcan not (?:continue|proceed)\b` +
		`|\b(?:am|is|are|still) blocked\b|\bblocked (?:by|on)\b`)},
	{ClaimFailed, strs.Lazy(`(?i)\bstill (?:fails?|failing|broken|red)\b|\bnot (?:compile|build|pass)\b` +
		`|\bout of ideas\b|\bgave up\b|\bnot (?:find (?:a|any) way|know (?:why|how)\b)`)},
	{ClaimPartial, strs.Lazy(`(?i)\bnot (?:yet |been |fully |entirely )*(?:done|ready|finish|complet|implement|working)` +
		`|\b(?:is|are|still) (?:incomplete|unfinished)\b` +
		`|\b(?:partially|partly|half) (?:done|finished|complete|implemented)\b` +
		`|\bremains?(?: open| undone| to be \w+)?(?:[.,:]|$)|^\W*remaining\b|\bstill (?:to do|missing|open|remains?)\b` +
		`|\bnot (?:able to )?(?:run|verify|test)\b|\b(?:am|was) unable to\b` +
		`|\bleft to (?:do|be done)\b|\bran out of (?:time|turns|context)\b` +
		`|\b(?:next|another) (?:call|session|iteration) (?:has to|must|needs)\b`)},
}

var (
	sentence = strs.Lazy(`\S.*?(?:[.!?;]+(?:\s|$)|$)`)
	// mention is what a sentence only names.
	mention = strs.Lazy("`[^`]*`" + `|"[^"]*"|“[^”]*”`)
	// negation before a phrase takes it back, or makes it a case that may come: "no test still fails".
	negation = strs.Lazy(`(?i)\b(?:no|none|nothing|if|when|while|unless)\b`)
	// uncontracted writes "couldn't" and "cannot" as the phrases have it.
	uncontracted = strings.NewReplacer("n't", " not", "n’t", " not", "cannot", "can not", "I'm ", "I am ", "**", "")
)

// admission is the gravest sentence by which an agent says that its task is not done, the first of its kind.
func admission(lines []string) Claim {
	var gravest Claim
	rest := admissions
	for _, line := range lines {
		for _, text := range sentence().FindAllString(line, -1) {
			plain := uncontracted.Replace(mention().ReplaceAllString(text, "…"))
			for i, a := range rest {
				at := a.phrase().FindStringIndex(plain)
				if at != nil && !negation().MatchString(plain[:at[0]]) {
					gravest = Claim{Kind: a.kind, Words: strings.TrimLeft(strings.ReplaceAll(text, "**", ""), "-*+# \t")}
					rest = rest[:i]
					break
				}
			}
		}
	}
	return gravest
}
