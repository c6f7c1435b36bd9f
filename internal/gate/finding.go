package gate

import "fmt"

// Finding is something about a proposal that a person should look at.
type Finding struct {
	Path string `json:"path"`
	// Rule names the kind of finding.
	Rule string `json:"rule"`
	// Text is a sentence; it may hold names the agent chose.
	Text string `json:"text"`
	// Grave findings fail the attempt.
	Grave bool `json:"grave,omitempty"`
}

// The rules of findings.
const (
	// RuleChanged: tests, or what decides how they run, are others than they were, and
	// their earlier form does not say that the new code is right.
	RuleChanged = "test_changed"
	// RuleFewer: fewer tests run than before.
	RuleFewer     = "fewer_tests"
	RuleNoNewTest = "no_new_tests"
	RuleSecret    = "secret"
	// RuleUnsearched is that of a Leak that is none: nobody has looked there.
	RuleUnsearched = "not_searched"
)

// Leak is what looks like a secret in a proposal. The secret itself is not in
// it.
type Leak struct {
	Path string
	// Line counts from 1; 0 means that the path itself holds it, masked.
	Line int
	// Rule names the form it has: "aws_access_key".
	Rule string
	// Critical forms are keys of a known service; others may be harmless.
	Critical bool
}

// Finding says whether the leak fails an attempt, and what to tell of it.
func (q Quality) Finding(l Leak) Finding {
	allowed := q.AllowHigh
	if l.Critical {
		allowed = q.AllowCritical
	}
	place := fmt.Sprintf("%s:%d", l.Path, l.Line)
	if l.Rule == RuleUnsearched {
		return Finding{
			Path: l.Path, Rule: RuleUnsearched, Grave: !allowed,
			Text: l.Path + " was not searched for secrets: it, or the change as a whole, is too large for that",
		}
	}
	if l.Line == 0 {
		place = "the name " + l.Path
	}
	return Finding{
		Path: l.Path, Rule: RuleSecret, Grave: !allowed,
		Text: fmt.Sprintf("%s holds what looks like a secret (%s)", place, l.Rule),
	}
}
