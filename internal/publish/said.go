package publish

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// saidWhole stands where something was said of the whole.
const saidWhole = "the whole"

const saidHead = "\n### Review\n\n"

// newest is what is shown of what was said: so much of what was taken in last and,
// however little that is, what was said last of lines and of the whole.
func newest(said []Said, most int) (shown []Said) {
	var comment, review int64
	tells := func(s Said) bool { return s.TaskID != "" && s.Why == "" }
	for _, s := range said {
		if tells(s) {
			comment, review = max(comment, s.Comment), max(review, s.Review)
		}
	}
	for i, s := range said {
		last := tells(s) && (s.Comment > 0 && s.Comment == comment || s.Review > 0 && s.Review == review)
		if last || i >= len(said)-most {
			shown = append(shown, s)
		}
	}
	return shown
}

// said shows what became of what was said in review; the newest where not all
// fits.
func (r *renderer) said() string {
	said := r.v.Said
	shown := newest(said, r.d.said)
	if len(shown) == 0 {
		return ""
	}
	var s section
	s.add(saidHead)
	for _, f := range shown {
		line := cmp.Or(r.code(f.Where), saidWhole)
		if at := f.anchor(); at != "" && r.v.RepoURL != "" && r.v.PullNumber > 0 {
			line = fmt.Sprintf("[%s](%s/pull/%d#%s)", line, r.v.RepoURL, r.v.PullNumber, at)
		}
		if by := r.code(f.By); by != "" {
			line += " by " + by
		}
		switch {
		case f.Why != "":
			line += ": " + r.speak(f.Why, maxReason)
		case f.TaskID != "":
			line += " → " + r.speak(f.TaskID, 20)
		}
		if f.OID != "" {
			line += " · " + r.link(f.OID)
		}
		s.line("- %s", line)
	}
	if hidden := len(said) - len(shown); hidden > 0 {
		s.line("- … and %d older", hidden)
	}
	return s.text()
}

// anchor is where on the page of the pull request it was said, "" for nowhere.
func (f Said) anchor() string {
	switch {
	case f.Comment > 0:
		return fmt.Sprintf("discussion_r%d", f.Comment)
	case f.Review > 0:
		return fmt.Sprintf("pullrequestreview-%d", f.Review)
	}
	return ""
}

// saidRE is a line of what was said that leads to where it was, and became a task.
var saidRE = strs.Lazy("^- \\[(?:`([^`]*)`|" + saidWhole + ")\\]\\([^ )]*#(discussion_r|pullrequestreview-)([0-9]{1,18})\\)" +
	"(?: by `([^`]*)`)? → (T[0-9]{1,6})(?: · .*/commit/([0-9a-f]{7,64})\\))?$")

// SaidIn reads the list of what became a task of what people said, as a description shows
// it. A job of a workflow knows by it what earlier jobs have heard. Text of agents and
// issues writes no heading, so that there is no other such list.
func SaidIn(body string) (said []Said) {
	_, list, _ := strings.Cut(blockOf(body), saidHead)
	for line := range strings.SplitSeq(list, "\n") {
		if !strings.HasPrefix(line, "- ") {
			break
		}
		m := saidRE().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		s := Said{Where: m[1], By: m[4], TaskID: m[5], OID: m[6]}
		id, _ := strconv.ParseInt(m[3], 10, 64) // so many digits fit
		if m[2] == "discussion_r" {
			s.Comment = id
		} else {
			s.Review = id
		}
		said = append(said, s)
	}
	return said
}
