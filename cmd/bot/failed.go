package main

import (
	"strings"

	"github.com/org/ralph-action/internal/inline"
	"github.com/org/ralph-action/internal/run"
)

// failed tells of a failed attempt: what of a check failed on lines of their own, where
// the rest of its output is, and where the work is that was not committed.
func (l *live) failed(ev run.Event) {
	l.print("    ✗ %s", ev.Text)
	for _, line := range ev.Lines {
		l.print("      │ %s", line)
	}
	if !ev.Kept || ev.Run == "" {
		return
	}
	if ev.Gate != "" {
		l.print("      all of its output: %s transcript %s --gate %s", calledAs(), ev.Run, quoted(ev.Gate))
	}
	l.print("      the refused work:  git show %s", quoted(inline.RefusedRef(ev.Run, ev.TaskID)))
}

// endWords are what a person at the terminal reads about the end of a run.
func endWords(ev run.Event) string {
	if ev.End == run.EndCancelled {
		return "Interrupted. Run the same command to continue"
	}
	said := ev.Proof.Sentence(ev.End)
	if ev.Text != "" {
		said += ": " + ev.Text
	}
	return said
}

// quoted is a word as a shell takes it.
func quoted(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return !strings.ContainsRune("/._-+@%:=,", r) && !alphanumeric(r) }) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

func alphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
