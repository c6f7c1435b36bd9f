package supervise

import (
	"strings"
	"unicode"

	"github.com/org/ralph-action/internal/strs"
)

// clip is s on one line without control and format characters, of at most n
// bytes.
func clip(s string, n int) string {
	if len(s) > 4*n { // the rest cannot show; escape sequences went before
		s = s[:4*n]
	}
	return strs.Cut(strs.OneLine(strings.Map(visible, strings.ToValidUTF8(s, ""))), n)
}

func visible(r rune) rune {
	switch {
	case r == '\n', r == '\t', r == '\r':
		return ' '
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
		return -1
	default:
		return r
	}
}

// marks are the words by which a run says that it is done, in no matter what
// case. They must not come out of our own mouth.
var marks = strs.Lazy(`(?i)ralph_done|all_tasks_complete|</?promise>`)

// quote makes text of an agent or a tool fit to stand between quotation marks
// in a sentence of ours. The marks are looked for once nothing invisible can
// hide them any more.
func quote(s string, n int) string {
	return clip(marks().ReplaceAllString(strings.ReplaceAll(clip(s, 2*n), "`", "'"), "(…)"), n)
}
