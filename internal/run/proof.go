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
	// Missing names the checks that could not run, each with what it lacks:
	// "pytest could not run: No module named pytest".
	Missing []string `json:"could_not_run,omitempty"`
	// Reviewed: all of the work was read once more, and nothing is left of what was
	// found.
	Reviewed bool `json:"reviewed,omitempty"`
}

// Sentence is what a person reads about the end of a run that has this proof, without
// a full stop. It says that the checks pass only where checks ran and all of them do.
func (p Proof) Sentence(end EndReason) string {
	if !end.Complete() {
		return end.Sentence()
	}
	said := end.Sentence()
	switch {
	case p.Passed > 0 && len(p.Failing)+len(p.Missing) == 0:
		said += " and the checks pass"
	case p.Passed > 0 && len(p.Missing) == 0:
		said += fmt.Sprintf("; the checks pass except %s, which already failed before this run", some(p.Failing))
	case p.Passed > 0 && len(p.Failing) == 0:
		said += "; the other checks pass, but " + some(p.Missing)
	case p.Passed > 0:
		said += fmt.Sprintf("; other checks pass, but %s already failed before this run, and %s", some(p.Failing),
			some(p.Missing))
	case len(p.Missing) > 0 && len(p.Failing) == 0:
		said += "; nothing was checked: " + some(p.Missing)
	case len(p.Missing) > 0:
		said += fmt.Sprintf("; no check confirms it: %s already failed before this run, and %s", some(p.Failing),
			some(p.Missing))
	case len(p.Failing) > 0:
		said += fmt.Sprintf("; no check confirms it: %s already failed before this run", some(p.Failing))
	default:
		said += "; no checks ran"
	}
	if p.Passed == 0 && p.Reviewed {
		said += ", and all of it was reviewed"
	}
	return said
}

// maxNamed bounds the checks that a sentence names.
const maxNamed = 3

// some are the first of the names, and how many there are besides.
func some(names []string) string {
	more := ""
	if len(names) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(names)-maxNamed)
		names = names[:maxNamed]
	}
	return strings.Join(names, ", ") + more
}
