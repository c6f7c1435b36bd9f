package formats

import (
	"bytes"
	"path"
	"strings"
)

// Detect tells by its name and content how a task file is written; false means
// it is none. A file that names its format but does not keep to it is still
// detected, so that Parse can say what is wrong.
func Detect(name string, src []byte) (Format, bool) {
	base := strings.ToLower(path.Base(name))
	switch {
	case base == "prd.json", strings.HasSuffix(base, ".json") && bytes.Contains(src, []byte(`"userStories"`)):
		return PRD, true
	case strings.HasSuffix(base, ".json"):
		return "", false
	case strings.HasSuffix(base, "_progress.md"):
		return Portable, true
	case base == "fix_plan.md" || base == "@fix_plan.md":
		return FixPlan, true
	}
	if admit(name, src) != nil {
		return "", false
	}
	m, err := parseMarkdown(Checklist, name, src)
	if err != nil {
		return "", false
	}
	format, ok := m.detect()
	if base == "progress.md" && format == Checklist {
		return Progress, true
	}
	return format, ok
}

// detect tells by the headings and tasks. What has the title of a progress file
// and nothing of another system is ours, so that a check says what it lacks.
func (m *markdown) detect() (Format, bool) {
	if _, bound := m.doc.Binding(); bound {
		return Progress, true
	}
	has := make(map[string]bool)
	steps := false // a heading that is a task, with boxes
	for i, h := range m.heads {
		has[fold(h.text)] = true
		if h.level >= 3 && headTaskRE().MatchString(h.text) {
			steps = steps || len(m.boxes[i]) > 0
		}
	}
	numbered, ids, phases := 0, false, false
	for _, t := range m.view.Tasks {
		ids = ids || t.ID != ""
		phases = phases || strings.HasPrefix(fold(t.Group), "phase ")
		if specumRE().MatchString(t.Title) {
			numbered++
		}
	}
	titled := len(m.heads) > 0 && strings.HasPrefix(fold(m.heads[0].text), "progress:")
	switch {
	case titled && (has["learnings"] || has["codebase patterns"]):
		return Progress, true
	case titled && (has["task list"] || has["tasks completed"]):
		return Portable, true
	case titled && has["tasks"] && phases && !ids:
		return Rslph, true
	case titled:
		return Progress, true
	case steps:
		return Ralphex, true
	case has["high priority"] && (has["medium priority"] || has["low priority"]):
		return FixPlan, true
	case numbered > 0 && 2*numbered >= len(m.view.Tasks):
		return Specum, true
	}
	return Checklist, len(m.view.Tasks) > 0
}
