package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/progress"
)

// agentsFile is where a repository tells every agent how to work in it
// (https://agents.md).
const agentsFile = "AGENTS.md"

// Bounds of what is suggested for it.
const (
	maxPatterns   = 5         // of one task
	maxPattern    = 200       // characters
	maxAgentsFile = 256 << 10 // bytes; a larger one is left alone
)

// suggest gives tree with the patterns that were noted at the task at hand in
// the repository's own file for agents, where it wants that. This is the host's
// own edit: an agent that changes that file was refused before. What stands
// there and is no plain file is left alone, and so is all where a pattern looks
// like a secret once what hid that is gone.
func (e *Engine) suggest(ctx context.Context, s *State, tree string) (with string, added int, err error) {
	if !s.AgentsMD || len(s.Patterns) == 0 {
		return tree, 0, nil
	}
	src, there, err := e.Trees.File(ctx, tree, agentsFile, maxAgentsFile)
	if err != nil {
		return "", 0, fmt.Errorf("read %s: %w", agentsFile, err)
	}
	text, added := withPatterns(string(src), s.Patterns)
	if added == 0 {
		return tree, 0, nil
	}
	with, put, err := e.put(ctx, tree, agentsFile, []byte(text), there)
	if err != nil || !put {
		return with, 0, err
	}
	return with, added, nil
}

// noted are the entries that after has in its Codebase Patterns: those that were
// noted at the task before, and those that before has not.
func noted(earlier []string, before, after *progress.Doc) []string {
	old := entries(before.Section(progress.SectionPatterns))
	var out []string
	for _, entry := range entries(after.Section(progress.SectionPatterns)) {
		news := slices.Contains(earlier, entry) || !slices.Contains(old, entry)
		if news && len(out) < maxPatterns && !slices.Contains(out, entry) {
			out = append(out, entry)
		}
	}
	return out
}

// entries are the bullets of a list. One with a comment in it, which people
// would not see, is none.
func entries(section string) []string {
	var out []string
	for line := range strings.Lines(section) {
		line, _ = progress.Clean(line)
		line = strings.Join(strings.Fields(line), " ")
		if len(line) < 3 || !strings.Contains("-*+", line[:1]) || line[1] != ' ' || strings.Contains(line, "<!--") {
			continue
		}
		if line = line[2:]; utf8.RuneCountInString(line) > maxPattern {
			line = string([]rune(line)[:maxPattern-1]) + "…"
		}
		out = append(out, line)
	}
	return out
}

const patternsHeading = "## Codebase patterns"

// withPatterns is a file for agents with the patterns that it does not hold
// yet at the end of their section, and how many these are. The rest of it stays
// to the byte.
func withPatterns(src string, patterns []string) (string, int) {
	known := map[string]bool{}
	at, inside, fenced, size := -1, false, false, 0
	for line := range strings.Lines(src) {
		size += len(line)
		text := strings.TrimSpace(line)
		known[strings.ToLower(strings.TrimLeft(text, "-*+ "))] = true
		switch {
		case strings.HasPrefix(text, "```"), strings.HasPrefix(text, "~~~"):
			fenced = !fenced
		case fenced:
		case strings.EqualFold(text, patternsHeading):
			inside = true
		case strings.HasPrefix(line, "# "), strings.HasPrefix(line, "## "):
			inside = false
		}
		if inside && text != "" {
			at = size
		}
	}
	if fenced {
		return src, 0 // whatever comes behind it would be code
	}
	end := "\n"
	if strings.Contains(src, "\r\n") {
		end = "\r\n"
	}
	var list strings.Builder
	added := 0
	for _, p := range patterns {
		if key := strings.ToLower(p); !known[key] {
			known[key] = true
			list.WriteString("- " + p + end)
			added++
		}
	}
	switch {
	case added == 0:
		return src, 0
	case src == "":
		return "# Notes for agents" + end + end + patternsHeading + end + end + list.String(), added
	case at < 0:
		return strings.TrimRight(src, "\r\n") + end + end + patternsHeading + end + end + list.String(), added
	}
	before := src[:at]
	if !strings.HasSuffix(before, "\n") {
		before += end
	}
	if last := strings.TrimRight(before, "\r\n"); strings.EqualFold(strings.TrimSpace(last[strings.LastIndexByte(last, '\n')+1:]), patternsHeading) {
		before += end
	}
	return before + list.String() + src[at:], added
}
