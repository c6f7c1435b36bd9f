package claim

import (
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// Prose is a message without its closing lines: what the agent tells besides its
// claim.
func Prose(final string) string {
	var b strings.Builder
	for line := range strings.Lines(final) {
		if !closingLine().MatchString(bare(strings.TrimSpace(line))) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// SaysThere says whether a message tells that nothing had to be done, because the work
// was there before, in any of the languages this package reads.
func SaysThere(final string) bool { return thereRE().MatchString(final) }

var thereRE = strs.Lazy(`(?i)\b(?:already|was there|were there|(?:nothing|no changes?|no edits?|no work)` +
	` (?:was |were |is |are )?(?:left |had |has |have )?(?:to (?:do|change|be done)|needed|necessary|required)|` +
	`bereits|schon|nichts zu (?:tun|ändern)|déjà|rien à (?:faire|changer)|ya (?:está|estaba|existe|existía)|` +
	`nada que (?:hacer|cambiar)|já (?:está|estava|existe|existia)|nada a (?:fazer|mudar))|已经|已經|无需|無需|すでに|既に`)
