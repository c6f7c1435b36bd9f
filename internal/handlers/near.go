package handlers

import (
	"fmt"
	"slices"
	"strings"
)

// Near is what in a comment is nearly a command.
type Near struct {
	// Command is what to do where the meaning is plain, which is a stop alone; else Problem says,
	// in words for whoever wrote it, how it would have been a command.
	Command Command
	Problem string
	// Beside: the comment says something else as well.
	Beside bool
}

// markup is what people put around a command.
const markup = "`*_~ \t\r"

// NearCommand looks in a comment that ParseCommand takes for none for a line that was meant as a
// command: with blanks or Markdown around it, in another case, with a colon, under the bot's
// name, or not on the first line. Lines of quotes and of code blocks mean nothing.
func NearCommand(body string) (near Near, ok bool) {
	fence := "" // the one that opened the code block
	for line := range strings.SplitSeq(body, "\n") {
		text := strings.TrimSpace(line)
		blanks, _, _ := strings.Cut(line, text)
		switch {
		case text == "":
			continue
		case fence != "":
			if strings.HasPrefix(text, fence) && strings.Trim(text, fence[:1]) == "" {
				fence = ""
			}
		case len(blanks) >= 4 || strings.Contains(blanks, "\t"): // a code block by its indent
		case fenceOf(text) != "":
			fence = fenceOf(text)
		case !ok && near.read(text):
			ok = true
			continue
		}
		near.Beside = true
	}
	return near, ok
}

// fenceOf is the fence of a line that opens a code block, "" of any other.
func fenceOf(text string) string {
	rest := strings.TrimLeft(text, text[:1])
	fence := text[:len(text)-len(rest)]
	if len(fence) < 3 || !strings.Contains("`~", fence[:1]) || fence[0] == '`' && strings.Contains(rest, "`") {
		return ""
	}
	return fence
}

// read reads a line that may be meant as a command.
func (n *Near) read(line string) bool {
	bare := strings.Trim(line, markup)
	name, rest := lower(bare), ""
	if i := strings.IndexAny(bare, " \t:,"); i >= 0 {
		name, rest = lower(bare[:i]), strings.Trim(bare[i:], " \t:,")
	}
	if !slices.Contains([]string{prefix, prefix + "-bot", "@ralph", "@ralph-bot", "@ralph-bot[bot]"}, name) {
		return false
	}
	c, err := parseVerb(" " + strings.TrimRight(rest, markup+".!"))
	mention := name[0] == '@'
	switch {
	case mention && (rest == "" || err != nil):
		return false // it is spoken of
	case err == nil && c.Verb == VerbStop && strings.Trim(line, " \t\r") == bare:
		n.Command = c
	case err == nil:
		n.Problem = fmt.Sprintf("Did you mean `%s`? A command stands at the very beginning of a comment.", formOf(c.Verb))
	default:
		n.Problem = err.Error()
	}
	return true
}

// formOf is how a command is written.
func formOf(v Verb) string {
	all := Usages()
	return all[slices.IndexFunc(all, func(u Usage) bool { return u.Verb == v })].Form
}
