package publish

import (
	"cmp"
	"fmt"
)

// saidWhole stands where something was said of the whole.
const saidWhole = "the whole"

const saidHead = "| Said | By | Task | Commit |\n|:--|:--|:--|:--|"

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
	s.line("\n### Review\n")
	if len(shown) < len(said) {
		s.line("The %d newest of %d:\n", len(shown), len(said))
	}
	s.line(saidHead)
	for _, f := range shown {
		where := cmp.Or(cell(r.code(f.Where)), saidWhole)
		if at := f.anchor(); at != "" && r.v.RepoURL != "" && r.v.PullNumber > 0 {
			where = fmt.Sprintf("[%s](%s/pull/%d#%s)", where, r.v.RepoURL, r.v.PullNumber, at)
		}
		task, commit := "–", "–"
		switch {
		case f.Why != "":
			task = cell(r.speak(f.Why, maxReason))
		case f.TaskID != "":
			task = cell(r.speak(f.TaskID, 20))
		}
		if f.OID != "" {
			commit = r.link(f.OID)
		}
		s.line("| %s | %s | %s | %s |", where, cmp.Or(cell(r.code(f.By)), "–"), task, commit)
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
