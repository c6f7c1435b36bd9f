package loop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
)

// RuleNested is the rule of a Finding about a folder that an agent made a git
// repository of its own.
const RuleNested = "nested_repository"

// maxNested bounds the folders that people are told of by name. One more is
// remembered, to tell that there were more.
const maxNested = 10

// noteNested remembers folders that are repositories of their own until the work
// tree is laid out anew: the next agent finds them without their .git, and the
// files may land only then.
func (s *State) noteNested(dirs []string) {
	for _, dir := range dirs {
		if len(s.Nested) <= maxNested && !slices.Contains(s.Nested, dir) {
			s.Nested = append(s.Nested[:len(s.Nested):len(s.Nested)], dir)
		}
	}
}

// nestedFindings tell people of those whose files are part of a change, once
// each.
func (s *State) nestedFindings(code []Change) []gate.Finding {
	var out []gate.Finding
	for i, dir := range s.Nested {
		f := gate.Finding{
			Rule: RuleNested, Path: dir,
			Text: fmt.Sprintf("%s/ was a git repository of its own; its files were kept, its history was not", dir),
		}
		if i == maxNested {
			f = gate.Finding{Rule: RuleNested, Text: "more folders than these were git repositories of their own"}
		}
		below := func(c Change) bool { return strings.HasPrefix(c.Path, dir+"/") }
		if slices.ContainsFunc(code, below) && !slices.Contains(s.Findings, f) {
			out = append(out, f)
		}
	}
	return out
}
