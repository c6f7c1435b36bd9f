package claim

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/strs"
)

// Stand-ins for what the agent only names: code, quoted words, paths, links. One
// for code that looks like a test or a build lets "`go test` fails" be read.
const (
	named     = " qcode "
	namedTest = " qtest "
	quoted    = " qquote "
)

var (
	linkText  = strs.Lazy(`!?\[([^\]\n]*)\]\([^)\s]*\)`)
	address   = strs.Lazy(`https?://\S+`)
	quotation = strs.Lazy(`"[^"\n]{1,300}"|“[^”\n]{1,300}”|„[^“”\n]{1,300}[“”]|«[^»\n]{1,300}»|「[^」\n]{1,300}」|` +
		`(^|[\s(:])['‘][^'’\n]{2,200}['’]([\s.,;:!?)]|$)`)
	// Names of code that nobody put between backticks: a path, a call, snake_case, camelCase.
	fileName = strs.Lazy(`[\w./@-]*\w\.(?:go|tsx?|jsx?|mjs|py|md|rs|java|json|ya?ml|toml|sh|sql|css|html?|cc?|h|cpp|rb|php|kt|swift|txt|lock|mod|xml|csv)\b(?::\d+)*`)
	codeName = strs.Lazy(`[\w.]*\w\(\)|\b\w+(?:/[\w.-]+){2,}|\B(?:\./|/)[\w./-]+|\b\w*[a-z][A-Z]\w*|\b\w+_\w+|\B--?[a-z][\w-]{2,}\b`)
	testName = strs.Lazy(`(?i)test|spec\b|lint|build|vet\b|tsc|check|cargo|make|npm|pnpm|yarn|gradle|mvn|ruff|mypy|compile`)
	emphasis = strs.Lazy(`\*+|~~|(?:^|\s)_+|_+(?:\s|$)`)
	spaces   = strs.Lazy(`\s+`)

	shortNot  = strs.Lazy(`\b(could|did|do|does|is|are|was|were|have|has|had|would|should|must|need)n't\b`)
	helperNot = strs.Lazy(`\b(could|can|did|do|does|is|are|was|were|have|has|had|will|would|should|must|am) (?:(?:unfortunately|sadly|however|still|currently|also|simply|just) )?not\b`)
)

// folded are the letters that rules are written without.
var folded = strings.NewReplacer("ä", "a", "ö", "o", "ü", "u", "ß", "ss", "á", "a", "à", "a", "â", "a", "ã", "a", "å",
	"a",
	"é", "e", "è", "e", "ê", "e", "ë", "e", "í", "i", "ì", "i", "î", "i", "ï", "i", "ó", "o", "ò", "o", "ô", "o", "õ", "o",
	"ú", "u", "ù", "u", "û", "u", "ç", "c", "ñ", "n", "œ", "oe", "’", "'", "‘", "'", "\u00a0", " ", "\u202f", " ")

var contractions = strings.NewReplacer("can't", "can not", "won't", "will not", "ain't", "is not", "cannot", "can not",
	"i'd ", "i would ", "i'll ", "i will ", "i'm ", "i am ", "i've ", "i have ", "we've ", "we have ", "we're ", "we are ",
	"it's ", "it is ", "that's ", "that is ",
	"what's ", "what is ", "there's ", "there is ", "they're ", "they are ")

// plainWords writes a sentence in the form that rules are written for: lower
// case, without accents, markup and punctuation of words, "could not" as one
// word, and a stand-in for whatever is only named.
func plainWords(text string) string {
	text = nameCode(text)
	text = linkText().ReplaceAllString(text, "$1")
	text = address().ReplaceAllString(text, named)
	text = quotation().ReplaceAllString(text, "$1"+quoted+"$2")
	for _, re := range []*regexp.Regexp{fileName(), codeName()} {
		text = re.ReplaceAllStringFunc(text, standIn)
	}
	text = emphasis().ReplaceAllString(text, " ")
	text = folded.Replace(strings.ToLower(text))
	text = contractions.Replace(text)
	text = shortNot().ReplaceAllString(text, "$1 not")
	text = helperNot().ReplaceAllString(text, "${1}not")
	return strings.TrimSpace(spaces().ReplaceAllString(text, " "))
}

func standIn(name string) string {
	if testName().MatchString(name) {
		return namedTest
	}
	return named
}

// nameCode puts stand-ins for the spans between backticks.
func nameCode(text string) string {
	var out strings.Builder
	for {
		at := strings.IndexByte(text, '`')
		if at < 0 {
			break
		}
		rest := strings.TrimLeft(text[at:], "`")
		mark := text[at : len(text)-len(rest)]
		span, after, closed := strings.Cut(rest, mark)
		out.WriteString(text[:at])
		if !closed {
			text = rest
			continue
		}
		out.WriteString(standIn(span))
		text = after
	}
	out.WriteString(text)
	return out.String()
}

// shortForms end with a full stop that ends no sentence.
var shortForms = map[string]bool{
	"e.g": true, "i.e": true, "etc": true, "vs": true, "resp": true, "approx": true, "cf": true,
	"z.b": true, "d.h": true, "bzw": true, "usw": true, "ca": true, "ggf": true, "u.a": true, "nr": true, "evtl": true,
	"p.ex": true, "p. ex": true, "p.ej": true, "ej": true, "núm": true,
}

// maxQuote bounds, in bytes, what is skipped as one quotation or span of code.
const maxQuote = 300

// sentences splits a paragraph, at semicolons too, but not within code or quotes.
func sentences(text string) []string {
	var out []string
	start, skip := 0, 0
	for i, r := range text {
		if i < skip {
			continue
		}
		next := i + utf8.RuneLen(r)
		switch r {
		case '`', '"':
			window := text[next:min(len(text), next+maxQuote)]
			if end := strings.IndexRune(window, r); end >= 0 {
				skip = next + end + 1
			}
		case '.', '!', '?', ';', '…', '。', '！', '？':
			if ends(text[start:i], r, text[next:]) {
				out = add(out, text[start:next])
				start = next
			}
		}
	}
	return add(out, text[start:])
}

// ends says whether a sentence ends with the mark between two texts.
func ends(before string, mark rune, after string) bool {
	if mark > unicode.MaxLatin1 && mark != '…' {
		return true
	}
	after = strings.TrimLeft(after, `*_"'”’)»`)
	first, _ := utf8.DecodeRuneInString(after)
	if after != "" && !unicode.IsSpace(first) {
		return false
	}
	if mark != '.' {
		return true
	}
	word := before[strings.LastIndexAny(before, " (\t")+1:]
	return after == "" || !shortForms[strings.ToLower(word)]
}

func add(out []string, text string) []string {
	if text = strings.TrimSpace(text); text == "" {
		return out
	}
	return append(out, text)
}
