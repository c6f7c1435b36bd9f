package publish

import (
	"strings"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/strs"
)

// zeroWidth breaks what GitHub would make a mention, a reference or a link of,
// and shows nothing.
const zeroWidth = "\u200b"

const ellipsis = "…"

// Speak makes text from an agent or an issue fit to stand in Markdown on
// GitHub, as one line of at most limit bytes: secrets are masked, control and
// hidden characters removed, mentions, issue references, links and commands
// made inert, and all markup but code spans shown as what it is. It must not be
// put where a line starts with four blanks; any other place but a table cell is
// fine. A nil mask masks nothing.
func Speak(mask func(string) string, text string, limit int) string {
	text = tidy(mask, text)
	var b strings.Builder
	room := limit - len(ellipsis) // for what stays if the rest has to go
	whole := 0
	for i := 0; i < len(text); {
		n := plainRun(text, i)
		var out string
		if n > 0 {
			out = text[i : i+n]
			if left := room - b.Len(); left > 0 {
				whole = b.Len() + runeStart(out, left)
			}
		} else {
			out, n = speakToken(text, i)
		}
		b.WriteString(out)
		i += n
		if b.Len() <= room {
			whole = b.Len()
		}
		if b.Len() > limit {
			if room < 0 {
				return ""
			}
			return b.String()[:whole] + ellipsis
		}
	}
	return b.String()
}

// plainRun gives the length of the text from i on that speaks for itself.
func plainRun(text string, i int) int {
	n := i
	for n < len(text) {
		switch c := text[n]; {
		case strings.IndexByte("`@#:<\\*[]~|$_&", c) >= 0:
			return n - i
		case n < 10 && strings.IndexByte("-+>=/.)", c) >= 0:
			return n - i // may begin a block
		case (c|0x20 == 'g' || c|0x20 == 'w') && n+1 < len(text) && strings.IndexByte("hHwW", text[n+1]) >= 0:
			return n - i // GH-1, www.
		}
		n++
	}
	return n - i
}

// runeStart is the last place in s, n at the most, where a character starts.
func runeStart(s string, n int) int {
	if n >= len(s) {
		return len(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// tidy puts text on one line without anything hidden or secret. Doing it again
// changes nothing.
func tidy(mask func(string) string, text string) string {
	if mask == nil {
		return oneLine(text)
	}
	text, _ = progress.Clean(text)
	text = mask(text) // before the lines go: a private key has some
	if line := oneLine(text); line != text {
		return oneLine(mask(line))
	}
	return text
}

// oneLine takes out what does not show, and makes white space single blanks.
func oneLine(text string) string {
	if isPlainLine(text) {
		return text
	}
	text, _ = progress.Clean(text)
	// A joiner that stood in front of white space at the end joins nothing now.
	return strings.TrimRight(strs.OneLine(text), "\u200c\u200d")
}

// isPlainLine says whether text is ASCII that oneLine would leave as it is.
func isPlainLine(text string) bool {
	prev := byte(' ')
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c > '~' || c == ' ' && prev == ' ' {
			return false
		}
		prev = c
	}
	return text == "" || prev != ' '
}

// speakToken renders what begins at text[i] and says how much it took.
func speakToken(text string, i int) (out string, n int) {
	if text[i] == '`' {
		if n := codeSpan(text, i); n > 0 {
			return "`" + inert(text[i+1:i+n-1]) + "`", n
		}
		return "\\`", 1
	}
	if out, n := breakUp(text, i); n > 0 {
		return escapeStart(text, i, out), n
	}
	r, n := utf8.DecodeRuneInString(text[i:])
	return escapeStart(text, i, escape(text, i, r, n)), n
}

// codeSpan gives the length of the code span at text[i]: one backtick on either
// side, and none next to them, so that nobody can pair them up otherwise.
func codeSpan(text string, i int) int {
	if i > 0 && text[i-1] == '`' {
		return 0
	}
	end := strings.IndexByte(text[i+1:], '`')
	if end <= 0 || strings.TrimSpace(text[i+1:i+1+end]) == "" {
		return 0
	}
	n := end + 2
	if i+n < len(text) && text[i+n] == '`' {
		return 0
	}
	return n
}

// inert breaks up what is read in raw text, be it markup or not: mentions,
// references, links, markers, and words that steer CI.
func inert(text string) string {
	text = skipRE().ReplaceAllString(text, "["+zeroWidth+"$1]")
	var b strings.Builder
	for i := 0; i < len(text); {
		if out, n := breakUp(text, i); n > 0 {
			b.WriteString(out)
			i += n
			continue
		}
		b.WriteByte(text[i])
		i++
	}
	return b.String()
}

// breakUp puts an invisible character into what GitHub would link at text[i]:
// @name, #12, GH-12, scheme://host and www.host; and what would be taken for a
// marker of ours: an HTML comment. It returns 0 elsewhere.
func breakUp(text string, i int) (out string, n int) {
	rest := text[i:]
	switch c := rest[0]; {
	case c == '@' && len(rest) > 1:
		return "@" + zeroWidth, 1
	case c == '#' && len(rest) > 1 && isDigit(rest[1]):
		return "#" + zeroWidth, 1
	case (c == 'g' || c == 'G') && len(rest) > 3 && strings.EqualFold(rest[:3], "gh-") && isDigit(rest[3]):
		return rest[:2] + zeroWidth + "-", 3
	case c == ':' && strings.HasPrefix(rest, "://"):
		return ":" + zeroWidth + "//", 3
	case (c == 'w' || c == 'W') && len(rest) > 4 && strings.EqualFold(rest[:4], "www."):
		return rest[:3] + zeroWidth + ".", 4
	case c == '<' && strings.HasPrefix(rest, "<!--"):
		return "<" + zeroWidth + "!--", 4
	default:
		return "", 0
	}
}

// escape shows r as itself where Markdown would read something into it.
func escape(text string, i int, r rune, n int) string {
	prev, _ := utf8.DecodeLastRuneInString(text[:i])
	next, _ := utf8.DecodeRuneInString(text[i+n:])
	special := false
	switch r {
	case '\\', '*', '[', ']', '~', '|', '$':
		special = true
	case '_':
		// Within a word it is just a character: snake_case stays readable.
		special = !isWord(prev) || !isWord(next)
	case '<':
		special = isLetter(next) || next == '/' || next == '!' || next == '?'
	case '&':
		special = isLetter(next) || next == '#'
	}
	if special {
		return `\` + string(r)
	}
	return string(r)
}

// escapeStart keeps the beginning of a text from opening a block (a list, a
// heading, a quote) or being read as a command by a bot.
func escapeStart(text string, i int, out string) string {
	switch c := text[i]; {
	case i == 0 && strings.IndexByte("-+#>=/", c) >= 0:
		return `\` + out
	case (c == '.' || c == ')') && i > 0 && i < 10 && allDigits(text[:i]):
		return `\` + out
	default:
		return out
	}
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }
func isWord(r rune) bool   { return isLetter(r) || '0' <= r && r <= '9' }
func allDigits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}

var (
	// skipRE finds what makes CI services skip a commit: [skip ci], [ci skip],
	// [no ci], [skip actions] and their kin.
	skipRE = strs.Lazy(`(?i)\[([^\[\]]*\b(?:skip|ci|actions)\b[^\[\]]*)\]`)
	// trailerRE finds what git or GitHub would take for a trailer.
	trailerRE = strs.Lazy(`(?i)\b([a-z]+(?:-[a-z]+)*-by|ralph-[a-z0-9-]+|skip-checks|change-id|breaking[ -]change)\s*:`)
)

// Plain makes text fit for a commit message or a title: one line of at most
// limit characters, masked, with nothing hidden, and without mentions,
// references, trailers and words that steer CI. A nil mask masks nothing.
func Plain(mask func(string) string, text string, limit int) string {
	text = tidy(mask, text)
	text = skipRE().ReplaceAllString(text, "($1)")
	text = trailerRE().ReplaceAllString(text, "$1")
	return cutWords(inert(text), limit)
}

// Code shows a short name as a code span, "" for none. A nil mask masks
// nothing.
func Code(mask func(string) string, name string) string { return code(mask, name, 80) }

// code is Code for text of at most limit characters.
func code(mask func(string) string, text string, limit int) string {
	text = strings.ReplaceAll(inert(tidy(mask, text)), "`", "'")
	if text = cutWords(text, limit); text == "" {
		return ""
	}
	return "`" + text + "`"
}

// cutWords shortens text to at most limit characters, at a blank if one is
// near.
func cutWords(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	runes := []rune(text)[:max(limit-1, 0)]
	short := string(runes)
	if at := strings.LastIndexByte(short, ' '); at > len(short)*2/3 {
		short = short[:at]
	}
	return strings.TrimRight(short, " ,;:.-"+zeroWidth) + ellipsis
}
