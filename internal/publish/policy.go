package publish

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
)

const (
	// MaxFile is the size of the largest file that is published. GitHub warns
	// about files of 50 MiB and refuses those of 100.
	MaxFile = 50 << 20
	// MaxRequest bounds a commit in base64, all files together:
	// createCommitOnBranch was seen to fail at about 40 MB.
	MaxRequest = 35 << 20
)

// Screen tells the changes that may not be published: links, submodules and names that Git or GitHub cannot
// carry, and paths that are protected because they decide what runs with the repository's permissions or steer agents,
// or because the repository's own patterns mean them. It looks at paths and modes only; sizes are checked when the
// tree lands.
func Screen(s loop.State, changes []loop.Change) []loop.Refusal {
	return screen(changes, s.Protected, nil)
}

// screen is Screen where some protected paths may change.
func screen(changes []loop.Change, more, own []string) (held []loop.Refusal) {
	for _, c := range changes {
		if reason := unfit(c); reason != "" {
			held = append(held, loop.Refusal{Path: c.Path, Reason: reason})
		} else if reason := Protects(c.Path, more); reason != "" && !slices.Contains(own, c.Path) {
			held = append(held, loop.Refusal{Path: c.Path, Reason: reason})
		}
	}
	return held
}

// unfit says why a change cannot be published, whoever made it, or "".
func unfit(c loop.Change) string {
	switch {
	case c.NewMode == gitrepo.ModeSymlink:
		return "symbolic link"
	case c.NewMode == gitrepo.ModeSubmodule || c.OldMode == gitrepo.ModeSubmodule:
		return "submodule"
	case !plainMode(c.NewMode) || !plainMode(c.OldMode) && c.OldMode != gitrepo.ModeSymlink:
		return fmt.Sprintf("file mode %o", max(c.NewMode, c.OldMode))
	case c.OldMode == gitrepo.ModeSymlink && c.NewMode != 0:
		return "replaces a symbolic link"
	}
	return badPath(c.Path)
}

// plainMode: a regular file, or none.
func plainMode(mode uint32) bool {
	return mode == 0 || mode == gitrepo.ModeFile || mode == gitrepo.ModeExecutable
}

// badPath says why a path cannot be named in a request to GitHub.
func badPath(p string) string {
	switch {
	case !utf8.ValidString(p):
		return "name is not UTF-8"
	case p == "" || path.IsAbs(p) || path.Clean(p) != p:
		return "not a path within the repository"
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." || strings.EqualFold(part, ".git") {
			return "not a path within the repository"
		}
	}
	if strings.ContainsFunc(p, unicode.IsControl) {
		return "name contains a control character"
	}
	return ""
}
