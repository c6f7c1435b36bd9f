package formats

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// Problems that only files of other systems have; the rest are those of
// package progress.
const (
	ProblemNoBranch   progress.ProblemKind = "no_branch"
	ProblemNoID       progress.ProblemKind = "no_id"
	ProblemNoCriteria progress.ProblemKind = "no_criteria"
	ProblemNoPhase    progress.ProblemKind = "no_phase"
)

// maxProblems bounds what Check reports of one file.
const maxProblems = 100

// located is an error at a place of a file.
type located struct {
	line, column int
	message      string
}

// Error implements error.
func (l *located) Error() string { return l.message }

// failAt is an error a person can fix, at a byte of src.
func failAt(name string, src []byte, at int, message, hint string) error {
	line, column := position(src, at)
	return &run.UserError{
		Message: fmt.Sprintf("%s:%d:%d: %s", name, line, column, message), Hint: hint,
		Err: &located{line, column, message},
	}
}

// Check says what is wrong with a file, in the order in which it stands there;
// nothing of one that is sound. At most 100 problems are told.
func Check(format Format, name string, src []byte) []progress.Problem {
	var out []progress.Problem
	if format != PRD {
		out = slices.DeleteFunc(progress.Check(src), func(p progress.Problem) bool { return !format.minds(p.Kind) })
	}
	f, err := Parse(format, name, src)
	if err != nil {
		if len(out) > 0 {
			return out // which says the same, with its place
		}
		return []progress.Problem{unreadable(err)}
	}
	add := func(at int, severity progress.Severity, kind progress.ProblemKind, message, hint string) {
		if len(out) >= maxProblems {
			return
		}
		line, column := position(src, at)
		out = append(out, progress.Problem{
			Line: line, Column: column, Severity: severity, Kind: kind, Message: message, Hint: hint,
		})
	}
	p := f.Plan()
	if len(p.Tasks) == 0 && (format == PRD || format == Ralphex) {
		add(0, progress.SeverityError, progress.ProblemNoTask, "there are no tasks", map[Format]string{
			PRD:     `write a story: {"id": "US-001", "title": "…", "acceptanceCriteria": ["…"], "priority": 1, "passes": false}`,
			Ralphex: `write a heading "### Task 1: …" and boxes "- [ ] …" below it`,
		}[format])
	}
	if format == PRD && p.Branch == "" {
		add(0, progress.SeverityWarning, ProblemNoBranch, `there is no "branchName"`,
			`say what branch the work goes to: "branchName": "ralph/…"`)
	}
	seen := make(map[string]bool)
	for i, t := range p.Tasks {
		at := f.src.place(i)
		switch id := t.ID; {
		case id == "" && format == PRD:
			add(at, progress.SeverityWarning, ProblemNoID, "the story has no id",
				`add "id": "US-…", so that commits and notes can name it`)
		case id != "" && seen[id]:
			add(at, progress.SeverityError, progress.ProblemDuplicateID,
				fmt.Sprintf("another task is %s already", oneLine(id, maxID)), "give it an id of its own")
		}
		seen[t.ID] = true
		if format == PRD && len(t.Accept) == 0 {
			add(at, progress.SeverityWarning, ProblemNoCriteria, "the story has no acceptance criteria",
				`add "acceptanceCriteria": ["…"], so that it can be said when it is done`)
		}
		if format == Rslph && t.Group == "" {
			add(at, progress.SeverityWarning, ProblemNoPhase, "rslph drops a task that stands under no phase",
				`write a heading "### Phase 1: …" above it`)
		}
	}
	slices.SortStableFunc(out, func(a, b progress.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return out[:min(len(out), maxProblems)]
}

// minds says whether a problem of a progress.md is one in a file of that
// format too.
func (f Format) minds(kind progress.ProblemKind) bool {
	if f == Progress {
		return true
	}
	switch kind {
	case progress.ProblemNoSection, progress.ProblemDuplicate, progress.ProblemStatus:
		return false // they have sections and words of their own
	case progress.ProblemNoTask, progress.ProblemStrayBox, progress.ProblemEmptyBox, progress.ProblemMarker:
		return f != Ralphex
	}
	return true
}

// unreadable makes a problem of what Parse says.
func unreadable(err error) progress.Problem {
	p := progress.Problem{
		Line: 1, Column: 1, Severity: progress.SeverityError, Kind: progress.ProblemUnreadable, Message: err.Error(),
	}
	if user, ok := errors.AsType[*run.UserError](err); ok {
		p.Message, p.Hint = user.Message, user.Hint
	}
	if at, ok := errors.AsType[*located](err); ok {
		p.Line, p.Column, p.Message = at.line, at.column, at.message
	}
	return p
}
