package prompt

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// section is a part of the prompt: a heading, a sentence of ours, and text that
// others wrote, which may be cut.
type section struct {
	title, intro string
	label        string // of the quoted text; "" where there is none
	text         string
	// most is what the text gets where there is room, least what it keeps
	// where there is none, in bytes.
	most, least int
	rank        trim
	keep        keep
}

// trim is the order in which sections give way where the whole is too long: the
// lower ones first. A section without a rank keeps its share.
type trim int

const (
	trimNever trim = iota
	trimProject
	trimMerged
	trimFiles
	trimPlan
	trimDiff
	trimPatterns
	trimStanding
	trimAccept
	trimTried
	trimLearnings
	trimViolations
	trimFailure
	trimGuidance
)

// keep says which end of a text matters.
type keep int

const (
	keepStart keep = iota
	keepEnd        // notes: the newest are last
	keepBoth       // logs: the cause is at the start, the sum at the end
)

// fit cuts the sections to their shares, and where the whole is still longer
// than limit, takes from one after the other in the order of trimming.
func fit(sections []section, limit int) []section {
	total := 0
	for i := range sections {
		s := &sections[i]
		s.text = cut(s.text, s.most, s.keep)
		total += s.size()
	}
	order := make([]int, len(sections))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(sections[a].rank - sections[b].rank) })
	for _, i := range order {
		s := &sections[i]
		if total <= limit || s.rank == trimNever {
			continue
		}
		before := s.size()
		room := max(len(s.text)-(total-limit)-maxNotice, s.least)
		if room < minShare {
			s.text, s.label, s.title = "", "", "" // a shred would only confuse
		} else {
			s.text = cut(s.text, room, s.keep)
		}
		total += s.size() - before
	}
	return slices.DeleteFunc(sections, func(s section) bool { return s.title == "" })
}

const (
	// maxNotice bounds the words that say how much was left out.
	maxNotice = 80
	// minShare is the least text that is worth a section, in bytes.
	minShare = 256
	// frame bounds what stands around a text: headings, borders, line ends.
	frame = 160
)

// size is what the section takes in the prompt, at most.
func (s section) size() int {
	if s.title == "" {
		return 0
	}
	return len(s.title) + len(s.intro) + 2*len(s.label) + len(s.text) + frame
}

// cut shortens text to about limit bytes and says how much is missing.
func cut(text string, limit int, k keep) string {
	n := len(text)
	if n <= limit {
		return text
	}
	switch k {
	case keepEnd:
		last := runes(text[n-limit:], true)
		return fmt.Sprintf("[… %d bytes of older notes left out …]\n%s", n-len(last), last)
	case keepBoth:
		head := limit / 4 // the end is where errors are summed up
		first, last := runes(text[:head], false), runes(text[n-(limit-head):], true)
		return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", first, n-len(first)-len(last), last)
	case keepStart:
	}
	first := strings.TrimRight(runes(text[:limit], false), "\n")
	return fmt.Sprintf("%s\n[… cut; the whole text has %d bytes]", first, n)
}

// runes drops the broken character that cutting left at the end of s, or at
// its start.
func runes(s string, start bool) string {
	for s != "" {
		r, n := utf8.DecodeLastRuneInString(s)
		if start {
			r, n = utf8.DecodeRuneInString(s)
		}
		if r != utf8.RuneError || n > 1 {
			break
		}
		if start {
			s = s[n:]
		} else {
			s = s[:len(s)-n]
		}
	}
	return s
}
