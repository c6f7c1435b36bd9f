package claim

import (
	"embed"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/org/ralph-action/internal/strs"
)

// The words of each language are data, in the form that words/README.md explains.
//
//go:embed words/*.txt
var wordFiles embed.FS

// A guard takes back what a rule found.
type guard uint

const (
	negated   guard = 1 << iota // "no tests fail", "remaining: none"
	described                   // "added handling of …", "when a test fails"
	general                     // "a job is blocked while …", "the root cause: …"
	overcome                    // "failed at first; now all pass", "fails without the fix"
	elsewhere                   // "unrelated", "fails on main too", "out of scope"
	otherTask                   // "T3 remains", "task 4 is open"
	otherWork                   // "the other tasks are open"
	suggested                   // "a follow-up could …", "optional"
)

// guardNames are the names that rules give their guards by. All guards apply to
// what is said of things. What the agent says of itself is no description.
var guardNames = map[string]guard{
	"negated": negated, "described": described, "general": general, "overcome": overcome,
	"elsewhere": elsewhere, "othertask": otherTask | otherWork, "otherwork": otherWork,
	"suggested": suggested,
	"things":    negated | described | general | overcome | elsewhere | otherTask | otherWork | suggested,
	"itself":    overcome | elsewhere | otherWork | suggested,
}

// language is what is known of one language.
type language struct {
	common   map[string]bool // words that tell it from others
	always   bool            // it is tried whatever the words are
	innocent finder          // phrases that are taken out before rules are applied
	rules    []rule

	// The patterns of the guards.
	negation   finder // before what a rule found, within three words
	without    finder // a negation within what a rule found
	nothing    finder // right behind: "remaining: none"
	condition  finder // makes the clause a description: "if", "which"
	report     finder // makes what follows the object of work done: "added", "renamed"
	conditions finder // right behind: what was found holds only then
	backdrop   finder // begins an account of what was wrong: "root cause:"
	formerly   finder // puts the clause into the past: "at first"
	present    finder // in what a rule found: it holds still
	atFirst    finder // in the clause behind: "failed at first"
	past       finder // in what a rule found: it was so, even if words of the present stand beside
	still      finder // says that something holds to this day
	solved     finder // later in the sentence
	poor       finder // later in the sentence: the solution is none
	solves     finder // in the next sentence
	data       finder // what the program works on: "orders", "a request"
	when       finder // anywhere in a sentence of a message that claims done: it tells how the program behaves
	control    finder // a test that is meant to fail: "fails without the fix"
	elsewhere  finder
	refersBack finder // begins a sentence that goes on about the one before
	others     finder // names other tasks
	suggestion finder
}

type rule struct {
	kind   Kind
	guards guard
	finder finder
}

// vocabulary is compiled when the first message is read, not when a program
// starts that may never read one.
var vocabulary = sync.OnceValue(func() []*language {
	var out []*language
	for _, name := range []string{"english", "german", "french", "spanish", "portuguese", "eastasian"} {
		text, err := wordFiles.ReadFile(path.Join("words", name+".txt"))
		if err == nil {
			var l *language
			if l, err = newLanguage(string(text)); err == nil {
				out = append(out, l)
				continue
			}
		}
		panic(fmt.Sprintf("claim: words/%s.txt: %v", name, err)) // the file is part of the program
	}
	return out
})

// entryLines is what stands in a section of a file of words: a head and the lines
// below it. A section without heads has one entry.
type entryLines struct {
	head  string
	lines []string
}

// sections reads a file of words.
func sections(text string) map[string][]entryLines {
	out := map[string][]entryLines{}
	section := ""
	for l := range strings.Lines(text) {
		indent := len(l) - len(strings.TrimLeft(l, " "))
		l = strings.TrimSpace(l)
		entries := out[section]
		last := len(entries) - 1
		switch {
		case l == "" || strings.HasPrefix(l, "#"):
			continue
		case indent == 0 && l[0] == '[' && l[len(l)-1] == ']' && !strings.ContainsAny(l, `\-`):
			section = l[1 : len(l)-1]
			continue
		case indent == 0:
			entries = append(entries, entryLines{head: l})
		case indent == 2:
			entries[last].lines = append(entries[last].lines, l)
		case len(entries[last].lines) == 0:
			entries[last].head += l
		default:
			lines := entries[last].lines
			lines[len(lines)-1] += l
		}
		out[section] = entries
	}
	return out
}

func newLanguage(text string) (*language, error) {
	all := sections(text)
	words := map[string]string{}
	for _, e := range all["words"] {
		name, alternatives, _ := strings.Cut(e.head, ": ")
		words[name] = alternatives
	}
	l := &language{common: map[string]bool{}}
	for _, e := range all["common"] {
		for word := range strings.FieldsSeq(e.head) {
			l.common[word] = true
		}
	}
	_, l.always = all["always"]
	var err error
	compile := func(alternatives []string) finder {
		expr, failed := expand(strings.Join(alternatives, "|"), words)
		var f finder
		if failed == nil {
			f, failed = newFinder(expr)
		}
		if err == nil {
			err = failed
		}
		return f
	}
	var innocent []string
	for _, e := range all["innocent"] {
		innocent = append(innocent, e.head)
	}
	l.innocent = compile(innocent)
	for _, e := range all["rules"] {
		kind, names, ok := strings.Cut(e.head, ":")
		r := rule{kind: Kind(kind), finder: compile(e.lines)}
		for name := range strings.FieldsSeq(names) {
			r.guards |= guardNames[name]
			ok = ok && guardNames[name] != 0
		}
		if !ok || severity[r.kind] == 0 {
			return nil, fmt.Errorf("rule %q has no known kind and guards", e.head)
		}
		l.rules = append(l.rules, r)
	}
	guards := l.guards()
	for _, f := range guards {
		*f = compile(nil)
	}
	for _, e := range all["guards"] {
		f := guards[strings.TrimSuffix(e.head, ":")]
		if f == nil {
			return nil, fmt.Errorf("there is no guard %q", e.head)
		}
		*f = compile(e.lines)
	}
	return l, err
}

// guards are the patterns of the guards by their names.
func (l *language) guards() map[string]*finder {
	return map[string]*finder{
		"negation": &l.negation, "without": &l.without, "nothing": &l.nothing, "condition": &l.condition, "report": &l.report,
		"conditions": &l.conditions, "backdrop": &l.backdrop, "formerly": &l.formerly, "present": &l.present,
		"atFirst": &l.atFirst, "when": &l.when, "past": &l.past, "poor": &l.poor,
		"still": &l.still, "data": &l.data, "solved": &l.solved,
		"solves": &l.solves, "control": &l.control, "elsewhere": &l.elsewhere, "refersBack": &l.refersBack,
		"others":     &l.others,
		"suggestion": &l.suggestion,
	}
}

var wordName = strs.Lazy(`\{[a-z]+\}`)

// expand puts words in the place of their names in braces. Words are made of
// words, but not deeply.
func expand(expr string, words map[string]string) (string, error) {
	var err error
	for range 3 {
		expr = wordName().ReplaceAllStringFunc(expr, func(name string) string {
			alternatives, ok := words[name[1:len(name)-1]]
			if !ok {
				err = fmt.Errorf("there are no words %s", name)
			}
			return "(?:" + alternatives + ")"
		})
	}
	return expr, err
}

// maxLead is by how many common words a language of a short message may lead.
const maxLead = 2

// spoken are the languages that a message may be in: those whose common words it
// has, unless another language clearly has more. Related languages share words
// that only their own guards understand.
func spoken(all []sentence) []*language {
	scores, best := make([]int, len(vocabulary())), 0
	for _, s := range all {
		for word := range strings.FieldsSeq(s.plain) {
			word = strings.Trim(word, ".,;:!?()")
			for i, l := range vocabulary() {
				if l.common[word] {
					scores[i]++
					best = max(best, scores[i])
				}
			}
		}
	}
	var out []*language
	for i, l := range vocabulary() {
		if l.always || 2*scores[i] >= best || best-scores[i] <= maxLead {
			out = append(out, l)
		}
	}
	return out
}
