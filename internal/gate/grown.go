package gate

import (
	"bytes"
	"fmt"
)

// watchedLines is how many lines a file may have before its growth is told of, where a
// repository says nothing else; see Quality.MaxLines.
const watchedLines = 800

// lineBytes is what a line counts for at least: a file of a few long ones is long, too.
const lineBytes = 80

// Grown tells of the files that a proposal makes too long to be read at once: it took
// them beyond the limit, or added a tenth of it to one that was there already. What a
// program writes is left alone.
func (q Quality) Grown(diffs []FileDiff) []Finding {
	limit := q.MaxLines
	if limit == 0 {
		limit = watchedLines
	}
	if limit < 0 {
		return nil
	}
	var found []Finding
	for _, d := range diffs {
		before, now := length(d.Old), length(d.New)
		if now <= limit || before > limit && now-before < max(limit/10, 1) || now <= before || generated(d.New) {
			continue
		}
		size := fmt.Sprintf("%d lines", bytes.Count(d.New, []byte("\n")))
		if now > bytes.Count(d.New, []byte("\n"))+1 {
			size = fmt.Sprintf("%d KiB", len(d.New)>>10)
		}
		found = append(found, Finding{
			Path: d.Path, Rule: RuleGrown,
			Text: fmt.Sprintf("%s grew to %s; more than %d lines are hard to work on", cutText(d.Path, maxName), size, limit),
		})
	}
	return found
}

// length is the number of lines, or what it would be if none were longer than usual.
func length(src []byte) int {
	lines := bytes.Count(src, []byte("\n"))
	if len(src) > 0 && src[len(src)-1] != '\n' {
		lines++
	}
	return max(lines, len(src)/lineBytes)
}

// generated says whether a file says of itself that a program wrote it.
func generated(src []byte) bool {
	head := src[:min(len(src), 2<<10)]
	return bytes.Contains(head, []byte("DO NOT EDIT")) || bytes.Contains(head, []byte("@generated"))
}
