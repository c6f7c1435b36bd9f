package plan

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// weight is how much a word says about what to do.
type weight int

const (
	weightNone    weight = iota // function words, and words that only praise or complain
	weightGeneric               // every project has one: "page", "tests"
	weightContent
)

// weights knows the English words that say little. A word of another language
// says something: nobody's text is vague for its language.
var weights = sync.OnceValue(func() map[string]weight {
	m := map[string]weight{}
	for w := range strings.FieldsSeq(emptyWords) {
		m[w] = weightNone
	}
	for w := range strings.FieldsSeq(genericWords) {
		m[w] = weightGeneric
	}
	return m
})

const emptyWords = `
a an the this that these those it its it's i i'm me my mine we us our you your they them their he she his her who whom one ones
and or but nor so if then else when while because since until as than too also just only even still yet again already
of in on at to from for with without by about into onto over under after before between through during per via up down out off
is are was were be been being am do does did done doing have has had having can could will would shall should may might must
not no yes don't doesn't didn't isn't aren't wasn't can't cannot won't wouldn't shouldn't there here where why how what which
all any some every each much many more most less least few very really quite rather somehow something anything everything nothing
some thing things stuff lot lots bit way ways kind sort time times now today soon asap immediately quickly urgent urgently please pls thanks thank
hello hi hey guys team everyone everybody somebody someone anyone
want wants need needs like wish hope think feel feels looks look looking seems seem maybe perhaps possible possibly
good better best great nice nicer awesome cool bad worse worst ugly pretty beautiful proper properly right wrong clean cleaner clear clearer
fast faster quick quicker slow slower snappy smooth smoother modern professional robust stable reliable simple simpler easy easier
perfect perfectly ready production production-ready optimal efficient efficiently old new general generally overall whole entire complete completely total
improve improved improves improving improvement improvements enhance enhanced enhancement enhancements optimize optimise optimized optimised optimization optimisation
refactor refactored refactoring cleanup tidy polish modernize modernise rewrite rework revamp overhaul upgrade upgraded
fix fixed fixes fixing repair solve update updated updates updating change changes changed changing make makes made making get gets getting
work works working worked broken breaks break broke fail fails failing failed messy mess outdated weird strange buggy annoying terrible horrible
help question complain complains complaints love hate sucks doing going go
add write create implement do handle support
`

const genericWords = `
app apps application applications program software site website web page pages screen view project repo repository code codebase source
system service server client product library module component components part parts
feature features bug bugs issue issues problem problems error errors crash crashes exception
test tests testing coverage doc docs documentation comment comments
performance speed quality security usability accessibility stability reliability maintainability architecture structure
ui ux gui design layout style styles look-and-feel interface experience
user users customer customers people developer developers admin
data file files database config configuration settings version latest last week day days month yesterday today's
function functions method methods class classes variable variables
`

// strongVerbs ask for one definite thing, whose object says which. weakVerbs
// leave open what would be different.
var strongVerbs = set(strings.Fields(`
add adds allow accept adopt append apply assert back-port backport block bump build bundle cache cap check clamp close collapse compile compress compute configure
convert copy count cover create debounce default define delete deprecate detect disable disallow display document download drop emit
enable enforce ensure escape exclude expand export expose extend extract filter flag format generate group hide highlight ignore implement
import include increase inline insert install introduce invert join keep limit link list load localize localise lock log lower make-sure mark measure merge migrate mock
move name normalize normalise notify omit open order parse pass pin port prefix prevent print provide publish quote raise read record redirect reduce reject release remember
remove rename render reorder replace report require reset resolve respect restore restrict retry return revert rotate round run sanitize save say send serialize serialise set
show skip sort specify split start stop store strip submit support suppress switch sync tag throw toggle translate trim truncate turn undo uninstall
upgrade upload use validate verify warn wrap write
`)...)

var weakVerbs = set("fix", "fixes", "repair", "correct", "update", "change", "handle", "adjust", "improve", "make",
	"refactor", "rework", "optimize", "optimise")

// measure of how much words say, each counted once.
type tally struct {
	seen                   map[string]bool
	content, generic, none int
}

// maxGeneric bounds what generic words add up to: a list of everything every
// project has says no more than one of them.
const maxGeneric = 4

func (t *tally) add(words []string) {
	if t.seen == nil {
		t.seen = map[string]bool{}
	}
	for _, w := range words {
		if t.seen[w] {
			continue
		}
		t.seen[w] = true
		switch n, wt := meaning(w); wt {
		case weightContent:
			t.content += n
		case weightGeneric:
			t.generic++
		case weightNone:
			t.none++
		}
	}
}

// foreign says whether the words are hardly English, whose function words make
// up half of what people write.
func (t *tally) foreign() bool { return t.content > 1 && 3*t.none < t.content }

func (t *tally) score() int {
	return t.content*int(weightContent) + min(t.generic*int(weightGeneric), maxGeneric)
}

// meaning says how many words w is, and how much they say.
func meaning(w string) (int, weight) {
	if n := unspaced(w); n > 0 {
		return n, weightContent
	}
	if wt, ok := weights()[w]; ok {
		return 1, wt
	}
	if len(w) < 2 || strings.IndexFunc(w, unicode.IsLetter) < 0 {
		return 0, weightNone
	}
	return 1, weightContent
}

// unspaced is roughly how many words w holds if it is of a script that puts no
// spaces between words, or 0.
func unspaced(w string) int {
	n := 0
	for _, r := range w {
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer,
			unicode.Myanmar) {
			n++
		}
	}
	return (n + 1) / 3
}

// words splits prose into lower-case words.
func words(s string) []string {
	s = strings.ReplaceAll(strings.ToLower(s), "’", "'")
	fields := strings.FieldsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '\'' && r != '-' && r != '_' &&
			r != '.'
	})
	out := fields[:0]
	for _, w := range fields {
		if w = strings.Trim(w, "'-_."); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// sentences splits prose at the ends of sentences and lines. A stop within a
// word ("v1.2", "main.go") or before a small letter ("e.g. this") ends none.
func sentences(s string) []string {
	var out []string
	start := 0
	cut := func(end int) {
		if t := strings.TrimSpace(s[start:end]); t != "" {
			out = append(out, t)
		}
		start = end
	}
	mark, gap := -1, -1 // a stop, and the white space after it
	for i, r := range s {
		switch {
		case r == '\n' || r == '。' || r == '！' || r == '？':
			cut(i + utf8.RuneLen(r))
			mark, gap = -1, -1
		case r == '.' || r == '!' || r == '?':
			mark, gap = i, -1
		case mark < 0:
		case unicode.IsSpace(r):
			if gap < 0 {
				gap = i
			}
		case gap >= 0:
			if !unicode.IsLower(r) || s[mark] != '.' {
				cut(gap)
			}
			mark, gap = -1, -1
		case !strings.ContainsRune(`"')]*_`, r):
			mark = -1
		}
	}
	cut(len(s))
	return out
}
