package review

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
	fenced := false
	for line := range strings.SplitSeq(body, "\n") {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "```"), strings.HasPrefix(text, "~~~"):
			fenced = !fenced
			near.Beside = true
		case text == "":
		case !fenced && !ok && near.read(text):
			ok = true
		default:
			near.Beside = true
		}
	}
	return near, ok
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
