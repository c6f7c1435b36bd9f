package progress

import (
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// maxIsland bounds the task list in a pull request, in bytes. GitHub refuses
// bodies over 65,536 characters, and more than tasks goes in.
const maxIsland = 40_000

// maxIslandText bounds one title or reason there.
const maxIslandText = 300

// IslandTasks is the task list for the body of a pull request. Titles may come
// from an agent or from anyone who writes issues, so nothing in them acts on
// GitHub: mentions, references to issues (and with them closing keywords), and
// links become code, HTML and images are shown as text. A list too long for a
// body ends with the number of tasks left out.
func IslandTasks(d *Doc) string {
	var b strings.Builder
	group := ""
	for i, t := range d.tasks {
		item := ""
		if t.Group != group {
			group = t.Group
			if i > 0 {
				item = "\n"
			}
			if group != "" {
				item += "### " + islandText(group) + "\n"
			}
		}
		item += islandItem(t)
		if b.Len()+len(item) > maxIsland {
			fmt.Fprintf(&b, "\n… and %d more tasks.\n", len(d.tasks)-i)
			break
		}
		b.WriteString(item)
	}
	return b.String()
}

func islandItem(t task) string {
	box, id, title, note := "[ ]", "", islandText(t.Title), ""
	if t.ID != "" {
		id = "**" + t.ID + "** "
	}
	switch t.Status {
	case run.TaskDone:
		box = "[x]"
	case run.TaskSkipped:
		title = "~~" + title + "~~"
		note = " (skipped: " + islandText(t.reason) + ")"
	case run.TaskBlocked:
		note = " (blocked: " + islandText(t.reason) + ")"
	case run.TaskOpen, run.TaskInProgress:
	}
	return "- " + box + " " + id + title + note + "\n"
}

// activeRE finds what GitHub acts on in plain text: mentions of people and
// teams, references to issues and commits by number or address, and links.
var activeRE = lazy(`(?i)(?:https?://|www\.|ftp://|mailto:)[^\s` + "`" + `]+|[\w./-]*#\d+|GH-\d+|[\w.+-]*@[\w][\w./-]*`)

var islandEscaper = strings.NewReplacer(
	`\`, `\\`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "[", `\[`, "]", `\]`, "*", `\*`, "_", `\_`, "~", `\~`, "|", `\|`,
)

// islandText makes one line of text inert. Code spans stay as they are:
// nothing in them acts.
func islandText(s string) string {
	s, _ = Clean(s)
	s = cut(squeeze(s), maxIslandText)
	var b strings.Builder
	for s != "" {
		tick := strings.IndexByte(s, '`')
		if tick < 0 {
			writeInert(&b, s)
			break
		}
		writeInert(&b, s[:tick])
		s = s[tick:]
		n := len(s) - len(strings.TrimLeft(s, "`"))
		if end := closing(s[n:], n); end >= 0 {
			writeCode(&b, s[:n+end+n])
			s = s[n+end+n:]
			continue
		}
		b.WriteString(strings.Repeat("\\`", n))
		s = s[n:]
	}
	return b.String()
}

// closing finds a run of exactly n backticks in s.
func closing(s string, n int) int {
	for i := 0; i < len(s); {
		if s[i] != '`' {
			i++
			continue
		}
		run := len(s[i:]) - len(strings.TrimLeft(s[i:], "`"))
		if run == n {
			return i
		}
		i += run
	}
	return -1
}

// writeInert writes text that holds no backtick.
func writeInert(b *strings.Builder, s string) {
	for {
		m := activeRE().FindStringIndex(s)
		if m == nil {
			b.WriteString(islandEscaper.Replace(s))
			return
		}
		b.WriteString(islandEscaper.Replace(s[:m[0]]))
		writeCode(b, "`"+s[m[0]:m[1]]+"`")
		s = s[m[1]:]
	}
}

// writeCode writes a code span. Directly behind another one their backticks
// would run together and quote nothing.
func writeCode(b *strings.Builder, span string) {
	if strings.HasSuffix(b.String(), "`") {
		b.WriteByte(' ')
	}
	b.WriteString(span)
}
