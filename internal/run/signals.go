package run

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Signals are what one agent call shows of how the work goes, counted: for the record, and for one
// sentence of the next prompt. Nothing is decided by a sum of them.
type Signals struct {
	Activity
	// Source to Other count the changed files by kind, and Again those that an attempt before had
	// changed.
	Source int `json:"source,omitempty"`
	Test   int `json:"test,omitempty"`
	Docs   int `json:"docs,omitempty"`
	Config int `json:"config,omitempty"`
	Other  int `json:"other,omitempty"`
	Again  int `json:"again,omitempty"`

	LinesAdded   int `json:"lines_added,omitempty"`
	LinesRemoved int `json:"lines_removed,omitempty"`
	// Passing are the tests that passed, as far as the checks that ran to their end tell.
	Passing int `json:"passing,omitempty"`
}

// Activity is what an agent did in one call, counted from its stream: how often it read, and how
// often it changed a file.
type Activity struct {
	Reads  int `json:"reads,omitempty"`
	Writes int `json:"writes,omitempty"`
}

// What the agents' command lines call their tools.
var (
	otherTool = regexp.MustCompile(`(?i)todo|plan`)
	writeTool = regexp.MustCompile(`(?i)write|edit|patch|create|replace|insert`)
	shellTool = regexp.MustCompile(`(?i)bash|shell|exec|command|terminal|run`)
	readTool  = regexp.MustCompile(`(?i)^ls$|read|grep|glob|search|list|view|fetch|find`)
)

// Use counts one call of a tool, by its name.
func (a *Activity) Use(tool string) {
	switch {
	case otherTool.MatchString(tool):
	case writeTool.MatchString(tool):
		a.Writes++
	case shellTool.MatchString(tool):
	case readTool.MatchString(tool):
		a.Reads++
	}
}

// What files are for, by their names. CartTest.java is a test, and latest.ts is not.
var (
	testFile = regexp.MustCompile(`(?i:(?:^|/)(?:tests?|__tests__|specs?|testing|testdata|e2e)/|(?:^|/)test_[^/]*$|` +
		`[_.](?:tests?|spec)\.\w+$|(?:^|/)conftest\.py$|\.snap$)|[a-z0-9](?:Tests?|Spec)\.\w+$`)
	docsFile   = regexp.MustCompile(`(?i)\.(?:md|mdx|rst|adoc|txt)$|(?:^|/)(?:license|readme)[^/]*$`)
	configFile = regexp.MustCompile(`(?i)\.(?:json|ya?ml|toml|ini|cfg|xml|lock|gradle|properties|csproj|sln|cmake|mk)$|` +
		`(?:^|/)(?:\.[^/]*|makefile|dockerfile[^/]*|go\.mod|go\.sum)$`)
	sourceFile = regexp.MustCompile(`(?i)\.(?:go|c|h|cc|cpp|cxx|hpp|hh|m|mm|rs|java|kts?|scala|groovy|cs|fs|vb|pyi?|rb|php|` +
		`[cm]?[jt]s|[jt]sx|vue|svelte|swift|dart|exs?|erl|hs|ml|clj|lua|pl|sh|bash|sql|proto|css|scss|html|zig)$`)
)

// Change counts a changed file; again says that an attempt before had changed it.
func (s *Signals) Change(file string, again bool) {
	if again {
		s.Again++
	}
	base := path.Base(file)
	switch {
	case testFile.MatchString(file):
		s.Test++
	case sourceFile.MatchString(base):
		s.Source++
	case docsFile.MatchString(base):
		s.Docs++
	case configFile.MatchString(base):
		s.Config++
	default:
		s.Other++
	}
}

// Words say what was changed, as far as the next call should know it; "" where nothing was.
func (s Signals) Words() string {
	var kinds []string
	for _, k := range []struct {
		n    int
		name string
	}{
		{s.Source, "source"}, {s.Test, "test"}, {s.Docs, "documentation"}, {s.Config, "configuration"}, {s.Other, "other"},
	} {
		if k.n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", k.n, k.name))
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	said := fmt.Sprintf("it changed files (%s)", strings.Join(kinds, ", "))
	if s.Again > 0 {
		said += fmt.Sprintf(", %d of which had been changed by an attempt before", s.Again)
	}
	return said
}
