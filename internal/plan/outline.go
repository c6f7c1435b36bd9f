package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/strs"
)

// Bounds on the acceptance criteria of a plan. More are read by nobody, and
// they stand in the text as well.
const (
	maxCriteria  = 50
	maxCriterion = 500 // bytes
)

// notWorkRE are headings of forms below which boxes say something about the
// issue, not what to do.
var notWorkRE = strs.Lazy(`(?i)^[^\pL]*(?:code of conduct|before submitting|prerequisites|pre-?flight checklist|operating systems?|os|platforms?|` +
	`environment|browsers?|what browsers are you seeing the problem on|type of (?:change|issue)|issue type|components?|affected versions|severity|` +
	`priority)[^\pL]*$`)

// declarationRE is a box by which people confirm something about themselves.
var declarationRE = strs.Lazy(`(?i)^(?:yes,? )?(?:I|I'm|I’m|I've|I’ve|I'd|I’d|ich|je|j'ai|j’ai) |^by submitting`)

// read takes tasks and criteria from a document: no box is a task that is a criterion of the
// whole or that people confirm something with in a form, and none is one twice under one heading.
func (p *Plan) read(doc *progress.Doc) {
	type key struct{ group, title string }
	seen := map[key]bool{}
	all, boxes := doc.Criteria()
	for i, t := range doc.Tasks() {
		t.Title = cmp.Or(t.Title, t.ID) // a number alone; what it means may stand below it
		k := key{t.Group, strings.ToLower(t.Title)}
		_, criterion := slices.BinarySearch(boxes, i)
		if seen[k] || criterion || notWorkRE().MatchString(t.Group) || declarationRE().MatchString(t.Title) {
			continue
		}
		seen[k] = true
		p.Tasks = append(p.Tasks, t)
	}
	had := map[string]bool{}
	for _, s := range all {
		if s = strs.Cut(s, maxCriterion); !blank(s) && !had[s] && len(p.Accept) < maxCriteria {
			had[s], p.Accept = true, append(p.Accept, s)
		}
	}
}

// blank says whether a line is what forms and templates leave where nobody
// wrote anything.
func blank(s string) bool { return placeholderRE().MatchString(strings.TrimSpace(s)) }

var placeholderRE = strs.Lazy(`(?i)^[^\pL\pN]*(?:no response|n/?a|none|nothing|tbd|tba|todo|fixme|` +
	`a clear and concise description of.*|if applicable, add.*|add any other context.*|steps to reproduce(?: the behaviou?r)?|` +
	`go to '\.*'.*|click on '\.*'.*|scroll down to '\.*'.*|see error|ex\. i'm always frustrated when.*|` +
	`(?:please )?(?:describe|explain|provide|fill in|write|enter|insert) (?:the|your|a|an|any|here|what|this)\b.*(?:here|below|…|\.\.\.)|` +
	`(?:[a-z ]+:? *)?\[(?:e\.g\.|z\.b\.).*\])?[^\pL\pN]*$`)
