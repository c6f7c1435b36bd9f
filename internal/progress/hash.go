package progress

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// PlanSHA256 is a hash in hex of what there is to do. It tells whether a plan
// that was approved is still the same, however far the work has come.
//
// It covers, for each task in document order: the group, the title, priority
// and markers, the tasks it depends on, and all that stands below it.
// It does not depend on
//   - what the work changes: ticks, also those of nested boxes, and notes that a
//     task is blocked or skipped;
//   - ids, which the host gives: a dependency counts as the place of the task it
//     names, so that naming the tasks changes nothing;
//   - how it is written: line endings, white space, blank lines, the kind of
//     bullet, the order of priority and markers;
//   - every other section, the document's title and binding.
//
// A task that is added, also by splitting another, changes it.
func (d *Doc) PlanSHA256() string {
	place := make(map[string]string, len(d.tasks))
	for i := range d.tasks {
		if id := d.tasks[i].ID; id != "" {
			place[id] = strconv.Itoa(i + 1)
		}
	}
	h := sha256.New()
	// Each part is written with its length, so that no two plans can have the
	// same parts in a row.
	part := func(s string) { _, _ = fmt.Fprintf(h, "%d:%s,", len(s), s) }
	part("ralph plan 1")
	part(strconv.Itoa(len(d.tasks)))
	for i := range d.tasks {
		t := &d.tasks[i]
		part(t.Group)
		part(t.Title)
		part(fmt.Sprintf("P%d parallel=%t verify=%t", t.Priority, t.Parallel, t.Verify))
		below := d.below(t, place)
		part(strconv.Itoa(len(below)))
		for _, l := range below {
			part(l)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// below gives the lines that stand below a task, without what the hash of a
// plan does not depend on.
func (d *Doc) below(t *task, place map[string]string) (lines []string) {
	at := lineEnd(d.src, t.textEnd)
	if at >= t.end {
		return nil
	}
	var text strings.Builder
	for i, s := range t.depends {
		name := t.DependsOn[i]
		if p, ok := place[name]; ok {
			name = p
		}
		text.WriteString(string(d.src[at:s.start]) + name)
		at = s.stop
	}
	text.Write(d.src[at:t.end])
	for l := range strings.Lines(text.String()) {
		l = strs.OneLine(l)
		if n := markerLen(l + " "); n > 0 {
			l = "- " + strings.TrimSpace(l[n:])
		}
		if box, ok := strings.CutPrefix(l, "- "); ok && isBox(box) {
			l = "- [ ]" + box[len("[ ]"):]
		}
		if l != "" {
			lines = append(lines, l)
		}
	}
	return lines
}
