package run

import (
	"fmt"
	"strings"
)

// Proof is what shows that the work of a run is right. The zero value shows nothing.
type Proof struct {
	// Passed counts the checks that passed.
	Passed int `json:"passed"`
	// Failing names the checks that failed before the work began, and still do.
	Failing []string `json:"failing,omitempty"`
	// Reviewed: all of the work was read once more, and nothing is left of what was
	// found.
	Reviewed bool `json:"reviewed,omitempty"`
	// Evidence: a call of its own has looked at each task.
	Evidence bool `json:"evidence,omitempty"`
}

// Sentence is what a person reads about the end of a run that has this proof, without
// a full stop. It says that the checks pass only where checks ran and all of them do.
func (p Proof) Sentence(end EndReason) string {
	if !end.Complete() {
		return end.Sentence()
	}
	said := end.Sentence()
	switch {
	case p.Passed > 0 && len(p.Failing) == 0:
		said += " and the checks pass"
	case p.Passed > 0:
		said += fmt.Sprintf("; the checks pass except %s, which already failed before the work began", p.failing())
	case len(p.Failing) > 0:
		said += fmt.Sprintf("; no check confirms it: %s already failed before the work began", p.failing())
	default:
		said += "; no checks ran"
	}
	switch {
	case p.Passed > 0:
	case p.Evidence:
		said += ", and another agent call verified each task"
	case p.Reviewed:
		said += ", and all of it was reviewed"
	}
	return said
}

// maxFailing bounds the checks that a sentence names.
const maxFailing = 3

func (p Proof) failing() string {
	names := p.Failing
	more := ""
	if len(names) > maxFailing {
		more = fmt.Sprintf(" and %d more", len(names)-maxFailing)
		names = names[:maxFailing]
	}
	return strings.Join(names, ", ") + more
}
