package host

import (
	"context"
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// absent says what of a tree is not there where agents and checks work, so that no task is
// blamed for it: what files of Git LFS point at, and what submodules hold.
func absent(ctx context.Context, repo *gitrepo.Repo, tree gitrepo.OID) (findings []gate.Finding, err error) {
	pointers, submodules, err := repo.Absent(ctx, tree)
	if err != nil {
		return nil, err
	}
	for _, kind := range []struct {
		what, are string
		paths     []string
	}{
		{"Files of Git LFS", "pointers of three lines", pointers},
		{"Submodules", "empty folders", submodules},
	} {
		if len(kind.paths) > 0 {
			findings = append(findings, gate.Finding{Rule: loop.RuleAbsent, Text: fmt.Sprintf(
				"%s (%s) are %s where agents and checks work: a check that needs their content cannot pass there.",
				kind.what, run.PrintableLine(some(kind.paths)), kind.are)})
		}
	}
	return findings, nil
}

// some names the first of many.
func some(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
