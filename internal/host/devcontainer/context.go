package devcontainer

import (
	"bytes"
	"fmt"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// IgnoreFile is the file in a build's context that names what does not belong
// to it.
const IgnoreFile = ".dockerignore"

// Pick says by an [IgnoreFile] which files of a context belong to it; none is
// known of where src is empty, and all do.
func Pick(src []byte) (func(path string) bool, error) {
	patterns, err := ignorefile.ReadAll(bytes.NewReader(src))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", IgnoreFile, err)
	}
	m, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", IgnoreFile, err)
	}
	return func(path string) bool {
		ignored, err := m.MatchesOrParentMatches(path)
		return err == nil && !ignored
	}, nil
}
