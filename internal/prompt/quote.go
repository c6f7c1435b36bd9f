package prompt

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/progress"
)

// Quote puts text that others wrote between two lines it cannot imitate: they carry a
// nonce. Of a text of more than kib KiB it keeps the start, the end (notes: the newest are
// last) or both (logs: the cause is at the start, the sum at the end). It is "" where there
// is no text.
func (p page) Quote(label string, kib int, keep, text string) string {
	text, _ = progress.Clean(text)
	text = strings.Trim(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if strings.TrimSpace(text) == "" {
		return ""
	}
	text = p.withoutNonce(cut(text, kib<<10, keep))
	return fmt.Sprintf("----- BEGIN %s %s -----\n%s\n----- END %s %s -----", label, p.Nonce, text, label, p.Nonce)
}

// withoutNonce is a text that cannot have the nonce. Should it hold it nevertheless, it
// leaked.
func (p page) withoutNonce(text string) string { return strings.ReplaceAll(text, p.Nonce, "[removed]") }

// cut shortens text to about limit bytes and says how much is missing.
func cut(text string, limit int, keep string) string {
	n := len(text)
	if n <= limit {
		return text
	}
	switch keep {
	case "end":
		last := runes(text[n-limit:], true)
		return fmt.Sprintf("[… %d bytes of older notes left out …]\n%s", n-len(last), last)
	case "both":
		head := limit / 4 // the end is where errors are summed up
		first, last := runes(text[:head], false), runes(text[n-(limit-head):], true)
		return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", first, n-len(first)-len(last), last)
	}
	first := strings.TrimRight(runes(text[:limit], false), "\n")
	return fmt.Sprintf("%s\n[… cut; the whole text has %d bytes]", first, n)
}

// runes drops the broken character that cutting left at the end of s, or at
// its start.
func runes(s string, start bool) string {
	for s != "" {
		r, n := utf8.DecodeLastRuneInString(s)
		if start {
			r, n = utf8.DecodeRuneInString(s)
		}
		if r != utf8.RuneError || n > 1 {
			break
		}
		if start {
			s = s[n:]
		} else {
			s = s[:len(s)-n]
		}
	}
	return s
}

// maxName bounds a name in the template, in bytes.
const maxName = 512

// name keeps a name on one line: it may be the title of an issue, and must not
// add lines to the template.
func name(s string) string {
	if len(s) > 4*maxName {
		s = runes(s[:4*maxName], false) // cleaning what is cut anyway takes time
	}
	s, _ = progress.Clean(s)
	s = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ").Replace(s)
	if len(s) > maxName {
		s = runes(s[:maxName], false) + "…"
	}
	return s
}

func bullets(items []string) string {
	if len(items) == 0 {
		return ""
	}
	return "- " + strings.Join(items, "\n- ")
}

func numbered(items []string) string {
	var b strings.Builder
	for i, item := range lines(items) {
		fmt.Fprintf(&b, "%d. %s\n", i+1, item)
	}
	return b.String()
}

func joined(items []string) string { return strings.Join(items, "\n") }

// lines keeps each item on a line of its own.
func lines(items []string) []string {
	out := make([]string, 0, len(items))
	for _, item := range items {
		if item = name(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
