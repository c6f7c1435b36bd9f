package claim

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/org/ralph-action/internal/strs"
)

// A signal is a line of its own that claims something in a form that a system
// specifies.
type signal struct {
	kind  Kind
	words string // the reason it gives, "" for none
	line  string
	all   bool // it says that all of the work is complete
	at    int  // the line's number in the message
	// promised: it is the promise that was asked for.
	promised bool
}

// tokens are the signals that are one word, alone on a line. A weak one may give
// its reason behind a colon or a dash.
var tokens = map[string]signal{
	"TASK_COMPLETE":       {kind: Done}, // smart-ralph's executor
	"ALL_TASKS_COMPLETE":  {kind: Done, all: true},
	"RALPH_DONE":          {kind: Done, all: true},
	"LOOP_COMPLETE":       {kind: Done, all: true}, // ralph-orchestrator
	"VERIFICATION_PASS":   {kind: Done},
	"VERIFICATION_PASSED": {kind: Done},
	"TASK_INCOMPLETE":     {kind: Partial},
	"TASK_BLOCKED":        {kind: Blocked},
	"TASK_FAILED":         {kind: Failed},
	"VERIFICATION_FAIL":   {kind: Failed},
	"VERIFICATION_FAILED": {kind: Failed},

	"<<<RALPHEX:ALL_TASKS_DONE>>>": {kind: Done, all: true},
	"<<<RALPHEX:TASK_FAILED>>>":    {kind: Failed},
	"<<<RALPHEX:FAILED>>>":         {kind: Failed},
}

// states are the words that a closing line, a status line or a promise gives its
// claim with.
var states = map[string]Kind{
	"done": Done, "complete": Done, "completed": Done, "finished": Done, "success": Done,
	"partial": Partial, "partially done": Partial, "partially complete": Partial, "incomplete": Partial,
	"in progress": Partial, "not done": Partial, "not complete": Partial, "not finished": Partial, "unfinished": Partial,
	"blocked": Blocked, "stuck": Blocked,
	"failed": Failed, "failure": Failed, "fail": Failed, "failing": Failed,
}

var (
	closingLine = strs.Lazy(`(?i)^` + Prefix + `[ \t]*(.+)$`)
	statusLine  = strs.Lazy(`(?i)^(?:task[ \t]+)?status[ \t]*:[ \t]*(.+)$`)
	promiseLine = strs.Lazy(`^<promise>[ \t]*([^<>]{1,80}?)[ \t]*</promise>$`)
	promiseEnd  = strs.Lazy(`^(.*?)<promise>[ \t]*([^<>]{1,80}?)[ \t]*</promise>[.!*]*$`)
	// stateWord takes a claim's state and its reason apart. What is neither at its
	// end nor followed by punctuation is another word, or a template's "done|partial".
	stateWord = strs.Lazy(`^([A-Za-z]+(?:[ _][A-Za-z]+)?)[ \t]*(?:$|[:.,;!(–—-][ \t]*(.*)$)`)
	oneState  = strs.Lazy(`^([A-Za-z]+)[ \t]*[:.,;!(–—-][ \t]*(.*)$`)
	tokenLine = strs.Lazy(`^([A-Z_]+|<<<[A-Z_:]+>>>)[ \t]*(?:$|[:–—-][ \t]*(.*)$)`)
	// keyLine is what systems write below their signal: "commit: abc1234".
	keyLine = strs.Lazy(`(?i)^(?:status|commit|verif\w+|files?(?: \w+)?|tests?|branch|task|learnings?|summary)[ \t]*:`)
	// notMeant finds in the words that lead to a signal that they only speak of it.
	notMeant = strs.Lazy(`(?i)\b(?:not|n't|never|cannot|until|unless|once|when|if|would|will|won't|should|instead of|rather than|before|only|` +
		`nicht|kein|erst|sobald|wenn|falls|pas|jamais|quand|lorsque|si|nunca|cuando|hasta|quando|se)\b|n’t|不|未|没`)
)

const (
	statusBegin = "---RALPH_STATUS---"
	statusEnd   = "---END_RALPH_STATUS---"
)

// What may follow a signal that claims done: a short sign-off.
const (
	maxSignOff      = 3   // lines
	maxSignOffBytes = 240 // in them
)

// signals finds the signals of a message. One that claims done counts only at
// the message's end, outside what may be code.
func (m message) signals() []signal {
	var out []signal
	end := m.signOff()
	for _, s := range append(m.blocks(), m.single()...) {
		if s.kind == Done && (m.lines[s.at].loose || s.at < end) || m.mentioned(s.at) {
			continue
		}
		if m.promise != "" && s.kind == Done && !s.promised {
			continue
		}
		out = append(out, s)
	}
	return out
}

// single finds the signals that are one line.
func (m message) single() []signal {
	var out []signal
	last := m.lastLine()
	for i, l := range m.lines {
		if l.kind == blank || l.kind == row || l.box != 0 || m.inStatus(i) {
			continue
		}
		s, ok := read(bare(l.text))
		switch {
		case m.keeps(bare(l.text)):
			s, ok = signal{kind: Done, all: true, promised: true}, true
		case !ok && i == last:
			s, ok = m.readEnd(l.text)
		}
		if ok {
			s.line, s.at = bare(l.text), i
			out = append(out, s)
		}
	}
	return out
}

// read reads a line as a signal.
func read(text string) (signal, bool) {
	if m := closingLine().FindStringSubmatch(text); m != nil {
		return state(m[1])
	}
	if m := promiseLine().FindStringSubmatch(text); m != nil {
		return promise(m[1])
	}
	if m := statusLine().FindStringSubmatch(text); m != nil {
		return state(strings.TrimFunc(m[1], decoration))
	}
	m := tokenLine().FindStringSubmatch(text)
	if m == nil {
		return signal{}, false
	}
	s, ok := tokens[m[1]]
	s.words = m[2]
	return s, ok && (s.kind != Done || s.words == "")
}

// keeps says whether a line is the promise that was asked for.
func (m message) keeps(text string) bool {
	found := promiseLine().FindStringSubmatch(text)
	return found != nil && m.promise != "" && strs.OneLine(found[1]) == m.promise
}

// readEnd reads the message's last line, which may end with a promise.
func (m message) readEnd(text string) (signal, bool) {
	found := promiseEnd().FindStringSubmatch(text)
	if found == nil || strs.OneLine(found[2]) != cmp.Or(m.promise, "COMPLETE") ||
		notMeant().MatchString(lastSentence(found[1])) || strings.Count(found[1], "`")%2 == 1 {
		return signal{}, false
	}
	before := strings.TrimRight(found[1], " \t*")
	ends := before == "" || strings.ContainsRune(".!:…。", lastRune(before)) || decoration(lastRune(before))
	return signal{kind: Done, all: true, promised: m.promise != ""}, ends
}

// state reads "partial: nine modules are left".
func state(text string) (signal, bool) {
	for _, form := range []*regexp.Regexp{stateWord(), oneState()} {
		m := form.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		word := strings.ReplaceAll(strings.ToLower(m[1]), "_", " ")
		if kind, ok := states[word]; ok {
			return signal{kind: kind, words: strings.TrimSpace(m[2])}, true
		}
	}
	return signal{}, false
}

// promise reads what stands between <promise> and </promise>.
func promise(text string) (signal, bool) {
	s, ok := state(text)
	switch {
	case ok && s.kind != Done:
		return s, true
	case notMeant().MatchString(text):
		return signal{kind: Partial, words: text}, true
	}
	return signal{kind: Done, all: text == "COMPLETE"}, true
}

// blocks reads the status blocks of ralph-claude-code.
func (m message) blocks() []signal {
	var out []signal
	for i := range m.lines {
		if bare(m.lines[i].text) != statusBegin && m.lines[i].text != statusBegin {
			continue
		}
		fields, end, closed := m.block(i)
		if !closed {
			continue
		}
		s, ok := state(fields["STATUS"])
		if !ok {
			continue
		}
		s.line, s.at = "STATUS: "+fields["STATUS"], end
		if s.kind == Done {
			s.all = strings.EqualFold(fields["EXIT_SIGNAL"], "true")
		} else {
			s.words = fields["RECOMMENDATION"]
		}
		out = append(out, s)
		if strings.EqualFold(fields["TESTS_STATUS"], "FAILING") {
			out = append(out, signal{kind: Failed, line: "TESTS_STATUS: FAILING", words: fields["RECOMMENDATION"], at: end})
		}
	}
	return out
}

// block reads the fields of the status block that begins at a line.
func (m message) block(begin int) (fields map[string]string, end int, closed bool) {
	fields = map[string]string{}
	for i := begin + 1; i < len(m.lines) && i <= begin+20; i++ {
		text := m.lines[i].text
		if text == statusEnd {
			return fields, i, true
		}
		if key, value, ok := strings.Cut(text, ":"); ok {
			fields[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return nil, 0, false
}

// inStatus says whether a line stands in a status block.
func (m message) inStatus(at int) bool {
	for i := at; i >= 0 && i > at-20; i-- {
		switch m.lines[i].text {
		case statusBegin:
			return true
		case statusEnd:
			return i == at
		}
	}
	return false
}

// signOff is the number of the line behind which nothing but a short sign-off
// stands in the message.
func (m message) signOff() int {
	lines, bytes := 0, 0
	for i, raw := range slices.Backward(m.raw) {
		text := bare(strings.TrimLeft(raw, "-*+ "))
		if text == "" || keyLine().MatchString(text) || m.inStatus(i) {
			continue
		}
		if _, ok := read(text); ok {
			continue
		}
		lines++
		bytes += len(text)
		if lines > maxSignOff || bytes > maxSignOffBytes {
			return i
		}
	}
	return 0
}

// lastLine is the number of the last line that is not blank, -1 for none.
func (m message) lastLine() int {
	for i, raw := range slices.Backward(m.raw) {
		if raw != "" {
			return i
		}
	}
	return -1
}

// mentioned says whether the line before a signal only leads to speaking of it:
// "When all ten are migrated I will write:".
func (m message) mentioned(at int) bool {
	i := at - 1
	for i >= 0 && m.raw[i] == "" {
		i--
	}
	if i < 0 || m.lines[i].kind != plain {
		return false
	}
	text := strings.TrimRight(m.lines[i].text, " *")
	goesOn := i == at-1 && (unicode.IsLetter(lastRune(text)) || lastRune(text) == ',')
	return (goesOn || strings.HasSuffix(text, ":")) && notMeant().MatchString(lastSentence(text))
}

// bare takes what may surround a signal off a line: space, emphasis, code
// quotes, a full stop, an emoji.
func bare(text string) string {
	if text == statusBegin || text == statusEnd {
		return text
	}
	text = strings.ReplaceAll(text, "**", "")
	text = strings.TrimLeftFunc(text, decoration)
	return strings.TrimRightFunc(text, func(r rune) bool { return decoration(r) || r == '.' || r == '!' })
}

// decoration says whether a character only decorates: space, "*", "`", or a
// symbol such as an emoji.
func decoration(r rune) bool {
	switch r {
	case '*', '`', '\uFE0F', '\u200D':
		return true
	case '<', '>', '|', '=', '+', '~', '$', '^':
		return false
	}
	return unicode.IsSpace(r) || unicode.Is(unicode.So, r) || unicode.Is(unicode.Sk, r)
}

func lastRune(text string) rune {
	var last rune
	for _, r := range text {
		last = r
	}
	return last
}

func lastSentence(text string) string {
	s := sentences(text)
	if len(s) == 0 {
		return ""
	}
	return s[len(s)-1]
}
