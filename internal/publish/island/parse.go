package island

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// ErrNoIsland: the description holds no managed island.
var ErrNoIsland = errors.New("island: no island in the description")

// Island is what a description says about the tasks.
type Island struct {
	Tasks []Task
	// Hidden counts the tasks that were left out to fit. They are not deleted:
	// neither side of a comparison of two islands shows them.
	Hidden int
	// Said is what became a task of what people said, in the order in which it is
	// listed; what cannot be told from the list is not in it.
	Said []Said
	// Edited says that somebody changed the island since it was rendered. That
	// the line ends became CRLF, as GitHub's editor makes them, is no change.
	Edited bool
}

// Task is a task as the description shows it.
type Task struct {
	run.Task
	// Cut says that its title, group, criteria or dependencies were shortened to
	// fit, so that what it holds of them is not to be taken for the whole.
	Cut bool
}

// RunTasks lists the tasks alone.
func (i Island) RunTasks() []run.Task {
	out := make([]run.Task, len(i.Tasks))
	for n, t := range i.Tasks {
		out[n] = t.Task
	}
	return out
}

// Parse reads the island of a description back, by the rules for markers that
// Merge has. It understands what people do to a list of tasks there: tick boxes,
// move, delete and add lines (with or without an id), strike a task or its whole
// line out to skip it, edit titles, criteria, priorities and headings. A ticked
// box wins over any mark; a task whose mark was removed is open.
//
// It fails with ErrNoIsland, or with an error of progress.Parse where the text
// is nothing that can be read.
func Parse(body string) (Island, error) {
	from, to, ok := findIsland(body)
	if !ok {
		return Island{}, ErrNoIsland
	}
	content, edited := contentOf(body[from:to])
	doc, err := progress.Parse([]byte(unstrike(commitsRE().ReplaceAllString(content, ""))))
	if err != nil {
		return Island{}, fmt.Errorf("read the description: %w", err)
	}
	out := Island{Edited: edited}
	for _, t := range doc.Tasks() {
		if task := parseTask(t); task.ID != "" || task.Title != "" {
			out.Tasks = append(out.Tasks, task)
		}
	}
	if m := hiddenRE().FindStringSubmatch(content); m != nil {
		out.Hidden, _ = strconv.Atoi(m[1]) // at most seven digits
	}
	out.Said = parseSaid(content)
	return out, nil
}

// Notes gives the patterns and learnings that a description shows, as a list in which each
// is a line; "" where it shows none.
func Notes(body string) string {
	from, to, ok := findIsland(body)
	if !ok {
		return ""
	}
	content, _ := contentOf(body[from:to])
	var notes []string
	for _, title := range [...]string{titlePatterns, titleLearnings} {
		_, rest, _ := strings.Cut(content, "<summary>"+title+"</summary>")
		list, _, _ := strings.Cut(rest, "\n</details>\n")
		for line := range strings.Lines(list) {
			if text, ok := strings.CutPrefix(line, "- "); ok {
				notes = append(notes, "- "+unspeak(text))
			}
		}
	}
	return strings.Join(notes, "\n")
}

// commitsRE finds the commits behind a task.
var commitsRE = strs.Lazy(` ` + markCommits + `(?:,? (?:\[` + "`[0-9a-f]{7}`" +
	`\]\([^()\s]*\)|[0-9a-f]{40,64}|\?)(?:` + regexp.QuoteMeta(markUnsigned) + `)?)+`)

// saidRE is a line of what was said that leads to where it was, and became a task.
var saidRE = strs.Lazy("^\\| \\[(.*)\\]\\([^ )]*#(discussion_r|pullrequestreview-)([0-9]{1,18})\\) \\| (.*) \\| (T[0-9]{1,6}) \\| (.*) \\|$")

// commitRE is the link to a commit in such a line.
var commitRE = strs.Lazy(`/commit/([0-9a-f]{7,64})\)$`)

// parseSaid reads the list of what was said. Text of agents and issues does not
// start a line with a heading or a bar, so that there is no other such list.
func parseSaid(content string) (said []Said) {
	_, list, ok := strings.Cut(content, "\n"+saidHead+"\n")
	if !ok {
		return nil
	}
	for line := range strings.SplitSeq(list, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		m := saidRE().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		s := Said{By: uncode(m[4]), TaskID: m[5]}
		if m[1] != saidWhole {
			s.Where = uncode(m[1])
		}
		id, _ := strconv.ParseInt(m[3], 10, 64) // so many digits fit
		if m[2] == "discussion_r" {
			s.Comment = id
		} else {
			s.Review = id
		}
		if c := commitRE().FindStringSubmatch(m[6]); c != nil {
			s.OID = c[1]
		}
		said = append(said, s)
	}
	return said
}

// uncode undoes what cell and Code do, as far as that can be told.
func uncode(text string) string {
	text = strings.ReplaceAll(strings.Trim(text, "`"), `\|`, "|")
	if text == "–" {
		return ""
	}
	return text
}

// hiddenRE finds the line about tasks that are not shown. Agent text does not
// start a line.
var hiddenRE = strs.Lazy(`(?m)^… and ([0-9]{1,7}) tasks? not shown here\.$`)

// contentOf gives what stands between the markers of an island, with line ends
// as we write them, and says whether it is not what the start marker vouches
// for.
func contentOf(island string) (content string, edited bool) {
	m := markerRE().FindStringSubmatchIndex(island)
	content = strings.ReplaceAll(strings.TrimSuffix(island[m[1]:], islandEnd), "\r\n", "\n")
	edited = m[2] < 0 || island[m[2]:m[3]] != strconv.Itoa(len(content)) || island[m[4]:m[5]] != sum(content)
	return content, edited
}

var (
	// strikeLineRE finds a line that is struck out together with its box,
	// strikeTextRE one with all of its text struck out.
	strikeLineRE = strs.Lazy(`(?m)^([ \t]*)~~[ \t]*((?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[[ xX]\][ \t]+)(.*?)[ \t]*~~[ \t]*$`)
	strikeTextRE = strs.Lazy(`(?m)^([ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[[ xX]\][ \t]+)~~[ \t]*(.+?)[ \t]*~~[ \t]*$`)
)

// unstrike writes what people struck out the way we mark it, so that an id in
// there is found.
func unstrike(content string) string {
	if !strings.Contains(content, "~~") {
		return content
	}
	content = strikeLineRE().ReplaceAllString(content, "${1}${2}${3} "+markSkipped)
	return strikeTextRE().ReplaceAllString(content, "${1}${2} "+markSkipped)
}

// parseTask undoes what task and taskText did. A reason may also stand in
// parentheses, as in progress.md.
func parseTask(t run.Task) Task {
	out := Task{Task: t}
	var cut bool
	title, mark, reason := splitMark(t.Title)
	if inner, ok := struck(title); ok {
		title = inner
		if mark == "" {
			mark = run.TaskSkipped
		}
	}
	out.Title, out.Cut = uncut(title)
	if mark != "" && out.Status != run.TaskDone {
		out.Status = mark
	}
	out.Reason = ""
	if out.Status == run.TaskBlocked || out.Status == run.TaskSkipped {
		out.Reason, _ = uncut(cmp.Or(reason, t.Reason))
	}
	if out.Group == noGroup {
		out.Group = ""
	}
	out.Group, cut = uncut(out.Group)
	out.Cut = out.Cut || cut
	out.Accept = nil
	for _, criterion := range t.Accept {
		if strings.HasPrefix(criterion, cutMark) { // "… and 3 more"
			out.Cut = true
			continue
		}
		criterion, cut = uncut(criterion)
		out.Cut = out.Cut || cut
		if criterion != "" {
			out.Accept = append(out.Accept, criterion)
		}
	}
	return out
}

// uncut is unspeak for a text that may have been shortened.
func uncut(text string) (plain string, cut bool) {
	text, cut = strings.CutSuffix(text, cutMark)
	return unspeak(text), cut
}

// signs stand in front of the marks.
var signs = [...]string{"⏳", "🔍", "⛔", "⏭️", "⏭"}

// splitMark splits the text of a task at its mark, if it has one.
func splitMark(text string) (title string, mark run.TaskStatus, reason string) {
	for i := 0; i < len(text); i += token(text, i) {
		if text[i] != '_' || i > 0 && text[i-1] != ' ' {
			continue
		}
		for _, m := range [...]struct {
			text string
			mark run.TaskStatus
		}{
			{markInProgress, run.TaskInProgress}, {markInReview, run.TaskInReview}, {markBlocked, run.TaskBlocked},
			{markSkipped, run.TaskSkipped},
		} {
			rest, ok := strings.CutPrefix(text[i:], m.text)
			if !ok || rest != "" && rest[0] != ' ' && rest[0] != ':' {
				continue
			}
			title = strings.TrimRight(text[:i], " ")
			if n := slices.IndexFunc(signs[:], func(sign string) bool { return strings.HasSuffix(title, sign) }); n >= 0 {
				title = strings.TrimRight(strings.TrimSuffix(title, signs[n]), " ")
			}
			return title, m.mark, strings.TrimLeft(strings.TrimPrefix(rest, ":"), " ")
		}
	}
	return text, "", ""
}

// struck gives what stands between the tildes of a text that is struck out as a
// whole.
func struck(text string) (inner string, ok bool) {
	inner, ok = strings.CutPrefix(text, "~~")
	if !ok {
		return "", false
	}
	inner, ok = strings.CutSuffix(inner, "~~")
	return strings.TrimSpace(inner), ok && inner != ""
}
