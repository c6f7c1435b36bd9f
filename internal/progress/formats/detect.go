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
	}
	f, err := Parse(Checklist, name, src)
	if err != nil {
		return "", false
	}
	format, ok := f.detect()
	if base == "progress.md" && format == Checklist {
		return Progress, true
	}
	return format, ok
}

// detect tells by the headings and tasks. What has the title of a progress file
// and nothing of another system is ours.
func (f *File) detect() (Format, bool) {
	_, bound := f.doc.Binding()
	has := make(map[string]bool)
	for _, h := range f.doc.Headings() {
		has[h] = true
	}
	numbered := 0
	for _, t := range f.view.Tasks {
		if specumRE().MatchString(t.Title) {
			numbered++
		}
	}
	titled := strings.HasPrefix(strings.ToLower(f.doc.Heading()), "progress:")
	switch {
	case titled && !bound && !has["learnings"] && !has["codebase patterns"] && (has["task list"] || has["tasks completed"]):
		return Portable, true
	case titled, bound:
		return Progress, true
	case numbered > 0 && 2*numbered >= len(f.view.Tasks):
		return Specum, true
	}
	return Checklist, len(f.view.Tasks) > 0
}
