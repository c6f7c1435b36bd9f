package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityIsTested: every test that docs/security.md names as the proof of a
// boundary is there, and every boundary names one.
func TestSecurityIsTested(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := declaredTests(t)
	named := regexp.MustCompile("`(Test\\w+)`")
	for _, m := range named.FindAllSubmatch(doc, -1) {
		if !declared[string(m[1])] {
			t.Errorf("docs/security.md names %s, and there is no such test", m[1])
		}
	}
	_, boundaries, _ := strings.Cut(string(doc), "\n## The boundaries\n")
	boundaries, _, ok := strings.Cut(boundaries, "\n## ")
	if !ok {
		t.Fatal("docs/security.md has no section on the boundaries")
	}
	count := 0
	for paragraph := range strings.SplitSeq(boundaries, "\n\n") {
		title, text, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(paragraph), "**"), "**")
		if !ok || !strings.HasPrefix(strings.TrimSpace(paragraph), "**") {
			continue
		}
		count++
		if !named.MatchString(text) {
			t.Errorf("docs/security.md names no test for the boundary %q", title)
		}
	}
	if count < 10 {
		t.Errorf("only %d boundaries were found", count)
	}
}

// declaredTests are the names of all tests of this repository.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	declared := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" ||
			d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(source, -1) {
			declared[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return declared
}
