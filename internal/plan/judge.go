package plan

import (
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// Ask says whether a person is asked where a plan says too little.
type Ask string

// The choices. The empty one is AskAuto.
const (
	// AskAuto asks instead of spending where Judge finds a plan vague.
	AskAuto Ask = "auto"
	// AskNever plans whatever is there.
	AskNever Ask = "never"
)

// Gap is something a plan does not say.
type Gap string

// The gaps, in the order they are asked about.
const (
	GapPicture  Gap = "picture"  // all there is is in a picture
	GapTemplate Gap = "template" // the headings of a form, with nothing below
	GapChange   Gap = "change"   // it asks something, and asks for nothing
	GapWhat     Gap = "what"     // what to change, and where
	GapExpected Gap = "expected" // a fault: what happens and what should
	GapMeasure  Gap = "measure"  // faster than what
	GapCheck    Gap = "check"    // how to tell that it is done
)

// Question asks a person to fill the gap.
func (g Gap) Question() string {
	switch g {
	case GapPicture:
		return "What does the picture show? Describe it in words: the agent cannot see pictures."
	case GapTemplate:
		return "The form's headings have little or nothing below them. What belongs there?"
	case GapChange:
		return "This reads like a question. What should be different in the repository once it is answered?"
	case GapWhat:
		return "What exactly should change, and where? Name the command, page, function or file."
	case GapExpected:
		return "What happens now, and what should happen instead? The steps that show it and the error text help most."
	case GapMeasure:
		return "How slow is it now, how fast should it be, and how is that measured?"
	case GapCheck:
		return "How can we check that it is done? One or two lines under a heading `Acceptance criteria` are enough."
	}
	return ""
}

// Enough is the score from which on there is something to work from.
const Enough = 6

// Vagueness is what Judge finds.
type Vagueness struct {
	// Vague: there is nothing definite to do, and asking costs less than
	// guessing.
	Vague bool
	// Score adds up what the plan says, Enough or more being enough. It tells
	// plans without open questions from others, not good plans from bad ones.
	Score int
	// Missing is what to ask about; empty unless Vague.
	Missing []Gap
}

// Questions are what to ask a person, most important first.
func (v Vagueness) Questions() []string {
	out := make([]string, len(v.Missing))
	for i, g := range v.Missing {
		out[i] = g.Question()
	}
	return out
}

// What evidence of something definite counts for.
const (
	scoreTasks    = Enough
	scoreAccept   = Enough
	scoreCode     = Enough // a block of code or output
	scoreSpan     = 4
	scoreName     = 4 // a path, a flag, an identifier
	scoreError    = 4 // the text of an error
	scoreContrast = 4 // what is against what should be
	scoreVerb     = 4 // one definite thing to do, with its object
	scoreQuoted   = 3 // words to the letter
	scoreList     = 3
	scoreMeasure  = 2 // a number
	scoreWeakVerb = 2
)

// Judge says whether a plan is too vague to spend anything on it. It adds up
// what is definite in the text: tasks, criteria, code, names, error texts,
// quoted words, numbers, something definite to do, and the words that say more
// than "make it better". It rather lets a vague plan through than ask about one
// that is clear; a text that is hardly English is never vague.
func Judge(p Plan) Vagueness {
	e := gather(p)
	v := Vagueness{Score: e.score}
	v.Vague = (e.score < Enough || e.onlyAsks) && !e.foreign
	if !v.Vague {
		return v
	}
	miss := func(g Gap, yes bool) {
		if yes {
			v.Missing = append(v.Missing, g)
		}
	}
	miss(GapPicture, e.picture)
	miss(GapTemplate, e.template)
	miss(GapChange, e.onlyAsks)
	miss(GapWhat, !e.onlyAsks && !e.fault && !e.slow)
	miss(GapExpected, e.fault && !e.slow)
	miss(GapMeasure, e.slow)
	miss(GapCheck, true) // with criteria it would not be vague
	return v
}

// evidence is what a plan holds.
type evidence struct {
	score int
	// onlyAsks: it consists of questions and says nothing definite.
	onlyAsks bool
	foreign  bool // it is in a language of which nothing is known here
	picture  bool // it holds one
	template bool // it holds what a form leaves where nothing is written
	fault    bool // it speaks of something that does not work
	slow     bool // it speaks of something that takes too long
}

var (
	pictureRE = strs.Lazy(`!\[[^\]]*\]\([^)]*\)|!\[[^\]]*\]\[[^\]]*\]|(?i)<img\b[^>]*>`)
	linkRE    = strs.Lazy(`\]\([^)\s]*\)|\]\[[^\]]*\]|(?i)\b(?:https?|ftp)://[^\s>)]+`)
	tagRE     = strs.Lazy(`<[/!?a-zA-Z][^>]*>`)
	spanRE    = strs.Lazy("`+[^`\\n]*[\\pL\\pN][^`\\n]*`+")

	// nameRE finds what only code and file systems have: paths, file names,
	// flags, snake_case, camelCase, calls, qualified names, requests,
	// environment variables.
	nameRE = strs.Lazy(`(?:^|[\s("'])(?:\.{0,2}/)?[\w.-]+(?:/[\w.-]+)*/[\w.-]*\.[A-Za-z]\w*` +
		`|(?:^|[\s("'])(?:\.{0,2}/|~/)[\w.-]+|(?:^|[\s("'])(?:cmd|src|lib|pkg|internal|test|tests|docs|app|web|api)/[\w.-]+` +
		`|[\w-]+\.(?:go|js|jsx|ts|tsx|mjs|py|rs|rb|java|kt|c|h|cc|cpp|cs|php|swift|sh|bash|sql|md|txt|json|ya?ml|toml|ini|cfg|conf|xml|html|css|scss|lock|mod|env|csv|log|proto|tf|vue)\b` +
		`|(?:^|[\s("'])--?[A-Za-z][\w-]+|\b[A-Za-z]\w*_\w+|\b[a-z]{2,}[A-Z]+[a-z]\w+|\b\w+\(\)|\b[a-z]\w*\.[A-Z]\w+|\$[A-Z_]{2,}|\b(?:GET|POST|PUT|PATCH|DELETE|HEAD) /`)
	errorRE = strs.Lazy(`(?i)\b(?:panic:|traceback|stack ?trace|segfault|segmentation fault|nullpointer\w*|null pointer|\w{3,}(?:error|exception)\b|exit (?:code|status) ?\d+|` +
		`(?:error|fatal)s?: ?\S|(?:http|status|error|code) ?[45]\d\d|[45]\d\d (?:error|response|status)|undefined is not|cannot read propert|out of memory|deadlock|race condition|infinite loop)`)
	contrastRE = strs.Lazy(`(?i)\binstead of\b|\brather than\b|\bexpected\b.*\b(?:actual|got|but|was)\b`)
	quotedRE   = strs.Lazy(`"[^"\n]{2,80}"|“[^”\n]{2,80}”|„[^“”\n]{2,80}[“”]|«[^»\n]{2,80}»|「[^」\n]{1,80}」|『[^』\n]{1,80}』`)
	measureRE  = strs.Lazy(`(?:^|[\s(<>=~≤≥v])\d+(?:[.,]\d+)*\s?(?:ms|s|sec|seconds?|min|minutes?|h|hours?|%|[kKMG]i?[bB]?|px|MB|GB|characters?|bytes?|x\d+)?(?:[\s,;:.!?)]|$)`)
	// requestRE: a question that asks for something to be done.
	requestRE = strs.Lazy(`(?i)\b(?:can|could|would|will|should|shall|may|might) (?:we|you|it|this|that|i|someone|somebody|there|the|ralph)\b|\b(?:is|would) (?:there|it be) (?:a way|any way|possible)|` +
		`\bany (?:chance|plans?|way)\b|\b(?:how|what) about\b|\bwhy (?:not|don't)\b|\bplease\b`)
	// titlePrefixRE is what people put before a title.
	titlePrefixRE = strs.Lazy(`(?i)^(?:\[[^\]]{1,30}\]|(?:feat|feature|fix|bug|chore|docs?|refactor|perf|test|build|ci|style|enhancement|request|task|story)(?:\([^)]*\))?!?:)\s*`)
)

var (
	faultWords = set("bug", "bugs", "broken", "breaks", "broke", "crash", "crashes", "crashing", "crashed", "error",
		"errors", "fail", "fails", "failing", "failed", "failure", "wrong",
		"buggy", "doesn't", "issue", "problem")
	slowWords = set("slow", "slower", "fast", "faster", "speed", "performance", "snappy", "laggy", "lag", "latency",
		"optimize", "optimise", "optimization", "optimisation")
	// formNames are headings that forms bring along, in whose own words nothing
	// is asked for.
	formNames = set("describe the bug", "bug description", "bug", "description", "describe", "to reproduce",
		"steps to reproduce", "reproduction", "how to reproduce", "expected behavior",
		"expected behaviour", "expected result", "expected results", "actual behavior", "actual behaviour", "actual result",
		"actual results", "current behavior", "current behaviour",
		"what happened", "what did you expect to happen", "what did you expect", "what actually happened", "screenshots",
		"desktop (please complete the following information", "desktop", "smartphone",
		"smartphone (please complete the following information", "additional context", "additional information",
		"is your feature request related to a problem? please describe",
		"describe the solution you'd like", "describe alternatives you've considered", "alternatives", "proposal",
		"proposed solution", "solution", "problem", "problem statement", "motivation",
		"summary", "context", "background", "overview", "goal", "goals", "relevant log output", "logs", "contact details",
		"version", "notes", "references", "related issues", "other")
	// expectedNames are those of formNames below which stands what should be.
	expectedNames = set("expected behavior", "expected behaviour", "expected result", "expected results",
		"what did you expect to happen", "what did you expect",
		"describe the solution you'd like")
	// aboutNames are headings below which people describe themselves and their
	// machine.
	aboutNames = set("environment", "version", "versions", "desktop", "smartphone",
		"desktop (please complete the following information", "smartphone (please complete the following information",
		"system info", "system information", "os", "operating system", "browser", "browsers", "platform", "contact details",
		"code of conduct", "checklist", "before submitting")
)

// gather reads the evidence out of title and text.
func gather(p Plan) evidence {
	var e evidence
	if len(p.Tasks) > 0 {
		e.score += scoreTasks
	}
	if len(p.Accept) > 0 {
		e.score += scoreAccept
	}
	title := titlePrefixRE().ReplaceAllString(p.Title, "")
	g := gatherer{prose: []string{title}}
	g.read(outline(p.Text))
	e.picture, e.template = g.picture, g.template

	all := strings.Join(g.prose, "\n")
	definite := 0
	for _, c := range []struct {
		found bool
		score int
	}{
		{g.code, scoreCode},
		{spanRE().MatchString(all), scoreSpan},
		{nameRE().MatchString(withoutPairs(all)), scoreName},
		{errorRE().MatchString(all), scoreError},
		{contrastRE().MatchString(all) || g.expected, scoreContrast},
		{quotedRE().MatchString(all), scoreQuoted},
		{g.items >= 2, scoreList},
	} {
		if c.found {
			definite += c.score
		}
	}
	if measureRE().MatchString(all) {
		e.score += scoreMeasure
	}
	var t tally
	verbs, questions, requests, said := 0, 0, 0, 0
	for i, line := range sentences(all) {
		w := words(line)
		t.add(w)
		verbs = max(verbs, verbScore(w))
		e.fault = e.fault || slices.ContainsFunc(w, func(w string) bool { return faultWords()[w] })
		e.slow = e.slow || slices.ContainsFunc(w, func(w string) bool { return slowWords()[w] })
		if i == 0 && len(g.prose) > 1 {
			continue // a title need not be a question where the text is one
		}
		said++
		if strings.HasSuffix(line, "?") || strings.HasSuffix(line, "？") {
			questions++
			if requestRE().MatchString(line) {
				requests++
			}
		}
	}
	e.score += definite + verbs + t.score()
	e.foreign = t.foreign()
	e.onlyAsks = said > 0 && questions == said && requests == 0 && definite == 0 && verbs < scoreVerb && len(p.Tasks)+
		len(p.Accept) == 0
	return e
}

// gatherer goes through the blocks of a text.
type gatherer struct {
	prose    []string // what people wrote, without pictures, addresses, tags
	code     bool     // there is code with something in it
	expected bool     // something stands below a heading that asks for it
	items    int      // of lists, each of which says something
	picture  bool
	template bool
	size     int // of what was read, in bytes
}

// maxJudged bounds the prose that is looked at, give or take a block. Nobody
// needs more to say something definite.
const maxJudged = 8 << 10

func (g *gatherer) read(blocks []block) {
	name := ""
	for i, b := range blocks {
		if g.size > maxJudged {
			return
		}
		switch b.kind {
		case blockHeading:
			name = fold(b.lines[0])
			if !formNames()[name] && !aboutNames()[name] && !acceptNames()[name] {
				g.say(b.lines[0])
			} else if formNames()[name] && (i+1 == len(blocks) || blocks[i+1].kind == blockHeading) {
				g.template = true
			}
		case blockCode:
			if text := strings.Join(b.lines, "\n"); !blank(text) && !aboutNames()[name] {
				g.code = true
			}
		case blockProse, blockHTML:
			for _, l := range b.lines {
				if label := fold(l); formNames()[label] || aboutNames()[label] {
					name = label
					continue
				}
				g.line(l, name)
			}
		case blockList:
			for _, it := range flat(b.items) {
				if g.line(it.text, name) {
					g.items++
				}
			}
		}
	}
}

// line takes a line below the heading of that name, and says whether it says
// something.
func (g *gatherer) line(l, name string) bool {
	if g.size > maxJudged {
		return false
	}
	g.size += len(l)
	l = strs.Cut(l, maxJudged)
	if pictureRE().MatchString(l) {
		g.picture = true
		l = pictureRE().ReplaceAllString(l, " ")
	}
	l = strings.TrimSpace(tagRE().ReplaceAllString(linkRE().ReplaceAllString(l, " "), " "))
	if blank(l) {
		g.template = g.template || l != "" && name != ""
		return false
	}
	if aboutNames()[name] {
		return false
	}
	g.say(l)
	var t tally
	t.add(words(l))
	if t.content > 0 && expectedNames()[name] {
		g.expected = true
	}
	return t.content > 0
}

func (g *gatherer) say(l string) {
	g.size += len(l)
	g.prose = append(g.prose, l)
}

// verbScore finds something to do: a verb at the start of a sentence.
func verbScore(w []string) int {
	for len(w) > 0 && polite()[w[0]] {
		w = w[1:]
	}
	if len(w) < 2 {
		return 0
	}
	verb, rest := w[0], w[1:]
	var t tally
	t.add(rest)
	switch {
	case strongVerbs()[verb] && (t.score() >= int(weightContent) ||
		strings.ContainsAny(strings.Join(rest, ""), "0123456789")):
		return scoreVerb
	case weakVerbs()[verb] && t.content > 0:
		return scoreWeakVerb
	}
	return 0
}

// polite are words before a request.
var polite = set("please", "pls", "can", "could", "would", "should", "we", "you", "i", "it", "let's", "lets", "also",
	"then", "and", "want", "need", "needs", "must", "to", "like", "'d", "i'd", "we'd",
	"the", "app", "be", "able", "nice", "good", "great", "ralph", "users", "user")

// pairs are words with a slash between them that are no paths.
var pairs = strs.Lazy(`(?i)\b(?:and/or|either/or|he/she|s/he|yes/no|on/off|n/a|w/o|i/o|ci/cd|input/output|read/write|client/server|tcp/ip|24/7)\b`)

func withoutPairs(s string) string { return pairs().ReplaceAllString(s, " ") }
