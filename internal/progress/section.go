package progress

import "strings"

// Names of the sections, in the order of a fresh document.
const (
	SectionStatus    = "Status"
	SectionAnalysis  = "Analysis"
	SectionTasks     = "Tasks"
	SectionTesting   = "Testing Strategy"
	SectionPatterns  = "Codebase Patterns"
	SectionLearnings = "Learnings"
	SectionCompleted = "Completed This Iteration"
	SectionAttempts  = "Recent Attempts"
	SectionLog       = "Iteration Log"
)

// sectionOrder is where a section that is missing belongs.
var sectionOrder = [...]string{
	SectionStatus, SectionAnalysis, SectionTasks, SectionTesting, SectionPatterns,
	SectionLearnings, SectionCompleted, SectionAttempts, SectionLog,
}

// synonyms are the names that other systems, and people, give the sections,
// folded, the likeliest first. Where a document has several of them, the first
// in this list counts and our own name goes before all: next to Tasks, TODO is
// a section of somebody's own. Only Task List is always as good as Tasks.
//
// "Recent Attempts / Learnings" is a section of learnings: attempts get
// cleared, and what was learned must not go with them. Completed This
// Iteration has no synonym, because the host replaces what is in it, and what
// others call "Completed Tasks" is a history.
var synonyms = map[string][]string{
	SectionStatus:   {"current status"},
	SectionAnalysis: {"gap analysis"},
	SectionTasks:    {"task list", "implementation tasks", "todo", "to do", "to-do", "todos", "todo list"},
	SectionTesting:  {"test strategy", "testing plan", "test plan", "testing"},
	SectionPatterns: {"patterns", "codebase conventions"},
	SectionLearnings: {
		"recent attempts / learnings", "notes & learnings", "notes and learnings", "lessons learned", "notes",
	},
	SectionAttempts: {"attempts", "previous attempts"},
	SectionLog:      {"iteration history"},
}

// sectionRank says how well a folded heading fits the name of a section: 0 is
// the name itself, more is a synonym, less than 0 another section.
func sectionRank(heading, name string) int {
	if len(heading) == len(name) && strings.EqualFold(heading, name) {
		return 0
	}
	for i, s := range synonyms[name] {
		if heading == s {
			return i + 1
		}
	}
	return -1
}

// Canonical gives our own name of a section that is asked for by any of its
// names; one we do not know keeps its own, folded.
func Canonical(name string) string {
	folded := fold(name)
	for _, s := range sectionOrder {
		if sectionRank(folded, s) >= 0 {
			return s
		}
	}
	return folded
}

// find gives the index in d.heads of a section, or -1. Names compare without
// case, decoration and trailing colon. Sections are at level 2, but for Tasks
// where it is found further down, as in an issue form; our own name goes before a synonym.
func (d *Doc) find(name string) int {
	name = Canonical(name)
	best, rank := -1, 0
	for i, h := range d.heads {
		r := sectionRank(h.key, name)
		if r < 0 || h.level != 2 && (h.level == 1 || name != SectionTasks) {
			continue
		}
		if h.level != 2 {
			r += len(synonyms[name]) + 1
		}
		if best < 0 || r < rank {
			best, rank = i, r
		}
	}
	return best
}

// holdsTasks says whether heading i begins a section of tasks: the one found
// first, and others at its level that are named Tasks or Task List.
func (d *Doc) holdsTasks(i int) bool {
	if d.tasksHead < 0 || d.heads[i].level != d.heads[d.tasksHead].level {
		return false
	}
	r := sectionRank(d.heads[i].key, SectionTasks)
	return r == 0 || r == 1 || r > 0 && r == sectionRank(d.heads[d.tasksHead].key, SectionTasks)
}

// sectionEnd is where the section under heading i ends: at the next heading of
// its own or a higher level, or at the end of the document.
func (d *Doc) sectionEnd(i int) int {
	for _, h := range d.heads[i+1:] {
		if h.level <= d.heads[i].level {
			return h.start
		}
	}
	return len(d.src)
}

// Section is the content of a section without the blank lines around it, or ""
// where there is none. Any of the section's names will do.
func (d *Doc) Section(name string) string {
	i := d.find(name)
	if i < 0 {
		return ""
	}
	return strings.Trim(string(d.src[d.heads[i].body:d.sectionEnd(i)]), "\r\n")
}

// Notes are the patterns and learnings of the document, for whoever works in the
// repository later.
func (d *Doc) Notes() string {
	return strings.TrimSpace(d.Section(SectionPatterns) + "\n" + d.Section(SectionLearnings))
}

// Headings are the names of the sections at any level, in lower case and without decoration.
func (d *Doc) Headings() []string {
	out := make([]string, len(d.heads))
	for i, h := range d.heads {
		out[i] = h.key
	}
	return out
}
