package publish

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/progress"
)

func (r *renderer) gates() string {
	reviewed := r.reviewed()
	if len(r.v.Gates) == 0 && len(r.v.Findings) == 0 && reviewed == "" {
		return ""
	}
	var s section
	s.line("\n### Checks\n")
	if r.v.OfAttempt {
		s.line("Of the last attempt, which did not land:\n")
	}
	for i, g := range r.v.Gates {
		if i == maxGates {
			s.line("- … and %d more", len(r.v.Gates)-i)
			break
		}
		v := g.Verdict
		word := "✅ passed"
		switch {
		case v.Standing == gate.NoTests:
			word = "⚠️ proves nothing"
		case !g.Passed && !v.Standing.Holds() && v.Note != "":
			word = "⚠️ failed, not blocking"
		case !g.Passed:
			word = "❌ failed"
		}
		took := ""
		if g.Duration > 0 {
			took = fmt.Sprintf(" in %s", g.Duration.Round(100*time.Millisecond))
		}
		s.line("- %s %s%s", cmp.Or(r.code(g.Gate), "unnamed"), word, took)
		switch note := r.speak(v.Note, maxReason); {
		case g.Passed && v.Standing != gate.NoTests:
		case note != "" && !v.Standing.Holds():
			s.line("  - %s", note)
		case v.Standing.Holds() && !r.d.plain:
			s.add(Block(r.v.Mask, g.Output, maxOutput))
		}
	}
	s.add(reviewed)
	for i, text := range r.v.Findings {
		if i == maxFindings {
			s.line("- … and %d more to look at", len(r.v.Findings)-i)
			break
		}
		if text = r.speak(text, maxReason); text != "" {
			s.line("- 🔎 %s", text)
		}
	}
	return s.text()
}

// reviewed says whether somebody read all of the work once more.
func (r *renderer) reviewed() string {
	var s section
	switch note := r.speak(r.v.ReviewNote, maxReason); {
	case note != "":
		s.line("- ⚠️ the final review did not finish: %s", note)
	case r.v.Reviews == 1:
		s.line("- 👀 an agent reviewed all of the work")
	case r.v.Reviews > 1:
		s.line("- 👀 an agent reviewed all of the work %d times", r.v.Reviews)
	}
	return s.text()
}

// account is the section on what was given up.
func (r *renderer) account() string {
	if r.v.End.Complete() || r.d.plain {
		return ""
	}
	if text := Account(r.v.Mask, r.v.Diagnostics, maxAccount); text != "" {
		return "\n" + text + "\n"
	}
	return ""
}

// Account shows an account of what was given up as a block that opens: lines, of
// which those with a hyphen in front are a list, together of at most about
// limit bytes. It is "" for none. A nil mask masks nothing.
func Account(mask func(string) string, text string, limit int) string {
	var s section
	list := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		item, bullet := strings.CutPrefix(line, "- ")
		if item = Speak(mask, item, maxAccount); item == "" {
			continue
		}
		if s.size()+len(item) > limit {
			s.line("\n…")
			break
		}
		if !list || !bullet {
			s.line("")
		}
		if list = bullet; bullet {
			s.add("- ")
		}
		s.line("%s", item)
	}
	if s.size() == 0 {
		return ""
	}
	return "<details>\n<summary>What did not work, and why</summary>\n" + s.text() + "\n</details>"
}

// Block shows the end of a text of others as a block of code below a bullet, at most limit
// bytes of it, "" for none: masked, and with nothing in it that a reader or a bot
// would act on. A nil mask masks nothing.
func Block(mask func(string) string, text string, limit int) string {
	text, _ = progress.Clean(text)
	if mask != nil {
		text = mask(text)
	}
	text = strings.Trim(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
	if strings.TrimSpace(text) == "" {
		return ""
	}
	fence, size := "```", 0
	var shown []string
	for _, l := range slices.Backward(strings.Split(text, "\n")) {
		if l = outputLine(l); size+len(l) > limit {
			if len(shown) == 0 {
				shown = append(shown, shortLine(l, limit))
			} else {
				shown = append(shown, ellipsis)
			}
			break
		}
		shown = append(shown, l)
		size += len(l)
	}
	slices.Reverse(shown)
	for _, l := range shown {
		for strings.Contains(l, fence) {
			fence += "`"
		}
	}
	var s section
	s.line("  %stext", fence)
	for _, l := range shown {
		s.line("%s", strings.TrimRight("  "+l, " "))
	}
	s.line("  %s", fence)
	return s.text()
}

// outputLine makes one line of output inert as raw text: in a block of code
// nothing is linked, but bots and the message of a squashed merge read it.
func outputLine(l string) string {
	l = inert(strings.TrimRight(l, " \t"))
	if at := strings.TrimLeft(l, " \t"); strings.HasPrefix(at, "/") {
		l = l[:len(l)-len(at)+1] + zeroWidth + at[1:]
	}
	return l
}

// shortLine is the beginning of a line of output, of at most limit bytes.
func shortLine(l string, limit int) string {
	if len(l) <= limit {
		return l
	}
	n := max(limit-len(ellipsis), 0)
	for n > 0 && !utf8.RuneStart(l[n]) {
		n--
	}
	return l[:n] + ellipsis
}
