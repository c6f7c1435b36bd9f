package formats

import (
	"fmt"
	"path"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// maxPriority is the last priority that "(P9)" can say.
const maxPriority = 9

// CheckList writes the plan of a file as a check list, in the grammar of
// progress.md: what was learned is left out.
func CheckList(f *File) []byte {
	if f.format == Checklist {
		return f.Bytes()
	}
	v := f.Plan()
	if v.Title == "" {
		base := path.Base(f.name)
		v.Title = strings.TrimSuffix(base, path.Ext(base))
	}
	w := &writer{}
	w.line("# ", oneLine(v.Title, maxText))
	if v.Branch != "" {
		w.line("\nBranch: ", v.Branch)
	}
	w.line()
	bullet := false
	for i, s := range v.Description {
		text, isBullet := strings.CutPrefix(s, "- ")
		if i > 0 && !(bullet && isBullet) {
			w.line()
		}
		if bullet = isBullet; bullet {
			w.line("- ", bulletText(text))
			continue
		}
		w.line(bulletText(text))
	}
	w.line()
	group := ""
	for i, t := range v.Tasks {
		g := oneLine(t.Group, maxText)
		if g == "" && group != "" {
			g = "Other"
		}
		if g != group {
			if i > 0 {
				w.line()
			}
			w.line("### ", g)
			group = g
		}
		w.task(t)
	}
	return []byte(w.out.String())
}

type writer struct{ out strings.Builder }

func (w *writer) line(parts ...string) { w.out.WriteString(strings.Join(parts, "") + "\n") }

// task writes one task.
func (w *writer) task(t Task) {
	var b strings.Builder
	key, id := t.Key(), ""
	if ownRE().MatchString(key) {
		id = key
		b.WriteString(id + " ")
	}
	if t.Priority > 0 {
		fmt.Fprintf(&b, "(P%d) ", min(t.Priority, maxPriority))
	}
	if t.Parallel {
		b.WriteString("[P] ")
	}
	if t.Verify {
		b.WriteString("[VERIFY] ")
	}
	if key != id && isOrigin(key) {
		b.WriteString("[" + key + "] ")
	}
	b.WriteString(oneLine(t.Title, maxText))
	if t.Status == run.TaskBlocked || t.Status == run.TaskSkipped {
		b.WriteString(markText(t.Status, t.Reason))
	}
	w.line("- ", box(t.Status == run.TaskDone), " ", b.String())
	w.below(t)
}

// below writes criteria and details of a task.
func (w *writer) below(t Task) {
	const indent = "  "
	for _, l := range progress.Lines(t.Task) {
		if len(l.Items) == 0 {
			w.line(indent, "- ", l.Label, ": ", l.Text)
			continue
		}
		w.line(indent, "- ", l.Label, ":")
		for _, item := range l.Items {
			w.line(indent, "  - ", item)
		}
	}
	if len(t.DependsOn) > 0 {
		w.line(indent, "- ", labelDepends, ": ", strings.Join(t.DependsOn, ", "))
	}
	if t.Priority > maxPriority {
		w.line(indent, "- ", labelPriority, ": ", fmt.Sprint(t.Priority))
	}
	for _, d := range t.Details {
		switch {
		case d.Label == "":
			for _, l := range d.Lines {
				w.line(indent, "- ", bulletText(l))
			}
		case len(d.Lines) == 1:
			w.line(indent, "- ", d.Label, ": ", oneLine(d.Lines[0], maxText))
		default:
			w.line(indent, "- ", d.Label, ":")
			for _, l := range d.Lines {
				w.line(indent, "  - ", bulletText(l))
			}
		}
	}
}

var ownRE = strs.Lazy(`^T[1-9]\d{0,5}$`)
