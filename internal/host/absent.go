package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// absent says what of a tree is not there where agents and checks work, so that no task is
// blamed for it: what files of Git LFS point at, and what submodules hold.
func absent(ctx context.Context, repo *gitrepo.Repo, tree gitrepo.OID) (findings []gate.Finding, err error) {
	const maxFile = 1 << 20
	for _, kind := range []struct {
		file, what, are string
		// names gives the pattern or path that a line is about and whose files are not there.
		names func(line string) (string, bool)
	}{
		{".gitattributes", "Files of Git LFS", "pointers of three lines", func(line string) (string, bool) {
			words := strings.Fields(line)
			return strings.Join(words[:min(1, len(words))], ""), slices.Contains(words, "filter=lfs") && words[0] != "#" && !repo.HasLargeFiles()
		}},
		{".gitmodules", "Submodules", "empty folders", func(line string) (string, bool) {
			key, value, ok := strings.Cut(line, "=")
			value = strings.TrimSpace(value)
			return value, ok && strings.TrimSpace(key) == "path" && !repo.HasSubmodule(value)
		}},
	} {
		src, err := repo.ReadFile(ctx, tree, kind.file, maxFile)
		if errors.Is(err, gitrepo.ErrNotFound) || errors.Is(err, gitrepo.ErrTooLarge) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for what is absent: %w", err)
		}
		var names []string
		for line := range strings.Lines(string(src)) {
			if name, ok := kind.names(line); ok {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		findings = append(findings, gate.Finding{Rule: loop.RuleAbsent, Text: fmt.Sprintf(
			"%s (%s) are %s where agents and checks work: a check that needs their content cannot pass there.",
			kind.what, run.PrintableLine(some(names)), kind.are)})
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
