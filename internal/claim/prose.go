package claim

import (
	"strings"
	"unicode"

	"github.com/org/ralph-action/internal/strs"
)

// An admission is a sentence in which the agent says that its task is not done.
type admission struct {
	kind Kind
	text string
}

// A sentence is what rules are applied to.
type sentence struct {
	text   string // the agent's words
	plain  string // in the form that rules are written for
	lead   string // plainly, the heading or the line with a colon that it stands under
	before string // plainly, the one that it goes on with behind a semicolon
	table  string // plainly, the first row of the table that it is a row of
	leads  bool   // it is such a line itself
	box    byte   // of the list item that it begins
	goes   bool   // the next sentence goes on with it, behind a semicolon
	// claimed says that its message claims that the task is done.
	claimed bool
}

// severity orders the kinds of admissions: what a person has to do comes first.
var severity = map[Kind]int{Partial: 1, Failed: 2, Blocked: 3}

// admission finds the gravest admission of a message, the first of its kind.
// claimed says that the message claims that the task is done as well, so that a
// sentence that tells how the program behaves is none.
func (m message) admission(claimed bool) (admission, bool) {
	var worst admission
	all := m.sentences()
	for i := range all {
		all[i].claimed = claimed
	}
	mixed, languages := mixedLists(all), spoken(all)
	for i, s := range all {
		next := sentence{}
		if i+1 < len(all) {
			next = all[i+1]
		}
		if next.goes && i+2 < len(all) {
			next.plain += "; " + all[i+2].plain
		}
		if i > 0 && all[i-1].goes {
			s.before = all[i-1].plain
		}
		kind := s.admits(next, languages)
		if kind == None && s.box == ' ' && mixed[s.lead] && !taskName().MatchString(s.plain) {
			kind = Partial
		}
		if severity[kind] > severity[worst.kind] {
			worst = admission{kind, s.text}
		}
	}
	return worst, worst.kind != None
}

// maxSentence bounds, in bytes, what is read of a sentence.
const maxSentence = 1000

// sentences splits a message into sentences.
func (m message) sentences() []sentence {
	var out []sentence
	lead, section, table := "", "", ""
	for _, p := range m.paragraphs() {
		parts := sentences(p.text)
		under := ""
		for j, text := range parts {
			if len(text) > maxSentence {
				text = strings.ToValidUTF8(text[:maxSentence], "")
			}
			s := sentence{
				text: display(text), plain: strings.TrimRight(plainWords(text), ".!;… "),
				lead: strings.TrimSpace(section + " / " + lead),
			}
			if s.plain == "" {
				continue
			}
			if j == 0 {
				s.box = p.box
			}
			if under != "" && p.kind != plain {
				s.lead = strings.TrimSpace(s.lead + " / " + under)
			}
			if p.kind != row {
				table = ""
			} else if table == "" {
				table = s.plain
			}
			s.table = table
			last := j == len(parts)-1
			s.goes = !last && strings.HasSuffix(text, ";")
			switch {
			case p.kind == heading:
				section, lead, s.leads, s.lead = s.plain, "", true, ""
			case last && strings.HasSuffix(s.plain, ":") && p.kind == plain:
				lead, s.leads, s.lead = s.plain, true, strings.TrimSpace(section+" / "+under)
			case p.kind == plain:
				lead, s.lead = "", strings.TrimSpace(section+" / "+under)
			}
			if j == 0 && label().MatchString(text) {
				under = s.plain
			}
			out = append(out, s)
		}
	}
	return out
}

// label is a bold sentence that says what the rest of its paragraph is about:
// "**Root cause.** The build broke because …".
var label = strs.Lazy(`^\*\*[^*.]{1,40}\.(?:\*\*)?$`)

// display takes emphasis and symbols around it off a sentence.
func display(text string) string {
	out := strings.TrimFunc(strings.ReplaceAll(text, "**", ""), func(r rune) bool {
		return unicode.IsSpace(r) || r == '*' || r == '\uFE0F' || unicode.Is(unicode.So, r)
	})
	if out == "" {
		return text
	}
	return out
}

// wrapped is how long a line is, in bytes, that may go on in the next.
const wrapped = 60

// paragraphs joins the lines that a paragraph or a list item was wrapped into.
func (m message) paragraphs() []line {
	var out []line
	joins := false
	for i, l := range m.lines {
		if l.kind == blank || m.inStatus(i) || isSignal(l) {
			joins = false
			continue
		}
		last := len(out) - 1
		if joins && l.kind == plain && goesOn(m.lines[i-1].text, l.text) {
			out[last].text += " " + l.text
			continue
		}
		out = append(out, l)
		joins = l.kind == plain || l.kind == item
	}
	return out
}

// isSignal says whether a line is a signal or shows what one looks like. A status
// line that says more is prose too.
func isSignal(l line) bool {
	text := bare(l.text)
	if closingLine().MatchString(text) || verifyLine().MatchString(text) {
		return true
	}
	s, ok := read(text)
	return ok && l.kind != row && (s.words == "" || !statusLine().MatchString(text))
}

// goesOn says whether a sentence goes on from one line in the next.
func goesOn(before, text string) bool {
	if strings.ContainsRune(".!?:;。！？", lastRune(strings.TrimRight(before, "*_`) "))) {
		return false
	}
	first := []rune(text)[0]
	return unicode.IsLower(first) || len(before) >= wrapped &&
		(unicode.IsLetter(first) || unicode.IsDigit(first) || first == '`')
}

// taskName is how people name one task among others.
var taskName = strs.Lazy(`\bt\d{1,4}\b|\b(?:tasks?|stor(?:y|ies)|steps?|phases?|milestones?|aufgaben?|taches?|tareas?|tarefas?) #?\d`)

// mixedLists are the leads of the lists that have ticked boxes. An open box
// beside them is what is left of this task; lists of other tasks name them.
func mixedLists(all []sentence) map[string]bool {
	out := map[string]bool{}
	for _, s := range all {
		if s.box == 'x' && !taskName().MatchString(s.plain) {
			out[s.lead] = true
		}
	}
	return out
}

// admits says what a sentence admits, given the next one.
func (s sentence) admits(next sentence, languages []*language) Kind {
	if s.table != "" && closedRow().MatchString(s.plain) {
		return None
	}
	for _, l := range languages {
		plain := s.plain
		if l.innocent.may(plain) {
			plain = l.innocent.ReplaceAllString(plain, " ~ ")
		}
		for _, r := range l.rules {
			if !r.finder.may(plain) {
				continue
			}
			for _, at := range r.finder.FindAllStringIndex(plain, maxMatches) {
				if !l.excused(s, next, plain, at, r) {
					return r.kind
				}
			}
		}
	}
	return s.counts(next)
}

// maxMatches bounds the places of a sentence that one rule looks at.
const maxMatches = 4

// clauseEnd separates what belongs together closely enough for a negation to
// reach a word.
var clauseEnd = strs.Lazy(`[,;:()/–—]|\. | - |\b(?:but|however|although|though|while|yet|except|and|so|because|since|as|` +
	`aber|jedoch|und|weil|da|denn|obwohl|mais|et|car|parce que|pero|porque|aunque|mas|porem|pois|embora)\b`)

// reasons are the words that a clause begins with that says why.
var reasons = strs.Lazy(`^(?:because|since|weil|da|denn|car|parce que|porque|pois)$`)

// definition is the beginning of a line that explains what is quoted.
var definition = strs.Lazy(`^qquote ?[:–—-]`)

// clauseOf is what a text begins with, up to the end of its clause.
func clauseOf(text string) string {
	if end := clauseEnd().FindStringIndex(text); end != nil {
		return text[:end[0]]
	}
	return text
}

// isPast says whether what a rule found may be over by now.
func (l *language) isPast(found string) bool {
	return !l.still.MatchString(found) && (l.past.MatchString(found) || !l.present.MatchString(found))
}

// closedRow is a row of a table that ends well: "Open points: 5: 0".
var closedRow = strs.Lazy(`: (?:0|none|done|ok|pass(?:ed)?|yes|fixed|keine?|erledigt|aucune?|fait|` +
	`ningun[oa]|hecho|nenhuma?|feito|✅.*)$`)

// definitions is the first row of a table that explains words.
var definitions = strs.Lazy(`\b(?:meaning|description|purpose|bedeutung|beschreibung|zweck|signification|significado|descri[pc]\w+)\b`)

// excused says whether a guard of a rule takes back what it found at a place.
func (l *language) excused(s, next sentence, plain string, at []int, r rule) bool {
	g := r.guards
	begin, reason := 0, false
	for _, sep := range clauseEnd().FindAllStringIndex(plain[:at[0]], -1) {
		begin, reason = sep[1], reasons().MatchString(plain[sep[0]:sep[1]])
	}
	before, found, after := plain[begin:at[0]], plain[at[0]:at[1]], plain[at[1]:]
	if strings.HasSuffix(found, ":") {
		after = ":" + after
	}
	clause := before + found
	follows := after
	if s.leads || strings.TrimRight(after, " .:") == "" && strings.HasSuffix(s.plain, ":") {
		follows = next.plain
	}
	is := func(flag guard, f finder, text string) bool { return g&flag != 0 && f.MatchString(text) }
	switch {
	case is(negated, l.negation, before), is(negated, l.without, found), is(negated, l.nothing, after),
		is(negated, l.nothing, follows) && s.leads:
		return true
	case g&described != 0 && (definition().MatchString(plain) || definitions().MatchString(s.table)):
		return true
	case is(described, l.condition, clause), is(described, l.report, before), is(general, l.conditions, after):
		return true
	case is(general, l.backdrop, plain[:at[0]]), is(general|described, l.backdrop, s.lead):
		return true
	case is(overcome, l.control, plain), is(overcome, l.formerly, clause):
		return true
	case g&overcome != 0 && l.isPast(found) && (l.formerly.MatchString(plain[:at[1]]) ||
		l.atFirst.MatchString(clauseOf(after)) ||
		l.solved.MatchString(after) && !l.poor.MatchString(after) || l.solves.MatchString(next.plain)):
		return true
	case s.claimed && reason && g&described != 0 && l.past.MatchString(found) && !l.still.MatchString(found):
		return true
	case s.claimed && r.kind == Partial && g&described != 0 && l.when.MatchString(plain) && !l.still.MatchString(plain):
		return true
	case g&(described|general) != 0 && l.data.MatchString(clause) && !l.still.MatchString(clause+clauseOf(after)):
		return true
	case is(elsewhere, l.elsewhere, plain), is(elsewhere, l.elsewhere, s.lead), is(elsewhere, l.elsewhere, s.before):
		return true
	case g&elsewhere != 0 && l.refersBack.MatchString(next.plain) && l.elsewhere.MatchString(next.plain):
		return true
	case g&otherTask != 0 && (taskName().MatchString(plain) || taskName().MatchString(s.lead) || s.leads &&
		taskName().MatchString(next.plain)):
		return true
	case is(otherWork, l.others, plain), is(otherWork, l.others, s.lead), s.leads && is(otherWork, l.others, next.plain):
		return true
	case is(suggested, l.suggestion, plain), is(suggested, l.suggestion, s.lead), is(suggested, l.suggestion, s.before):
		return true
	}
	return false
}
