package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCompatibilityIsTested: each row of docs/compatibility.md names a system, a
// feature, how it is here and tests that are there, and every system of the seeds has
// rows.
func TestCompatibilityIsTested(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := declaredTests(t)
	_, table, ok := strings.Cut(string(doc), "| --- | --- | --- | --- |\n")
	if !ok {
		t.Fatal("docs/compatibility.md has no table of four columns")
	}
	tests := regexp.MustCompile("^`Test\\w+(/\\w+)?`(, `Test\\w+(/\\w+)?`)*$")
	name := regexp.MustCompile("`(Test\\w+)(?:/(\\w+))?`")
	var systems []string
	seen := map[string]bool{}
	for row := range strings.Lines(table) {
		if !strings.HasPrefix(row, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.ReplaceAll(row, `\|`, ""), "|\n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 4 || slices.Contains(cells, "") || !tests.MatchString(cells[3]) {
			t.Errorf("a row without four cells, or without tests: %s", row)
			continue
		}
		if key := cells[0] + ": " + cells[1]; seen[key] {
			t.Errorf("twice: %s", key)
		} else {
			seen[key] = true
		}
		systems = append(systems, cells[0])
		for _, m := range name.FindAllStringSubmatch(cells[3], -1) {
			if !declared[m[1]] {
				t.Errorf("there is no test %s", m[1])
			}
			if m[1] != "TestScripts" {
				continue
			}
			if _, err := os.Stat(filepath.Join("../cmd/bot/testdata/script", m[2]+".txtar")); m[2] == "" || err != nil {
				t.Errorf("there is no story %q", m[2])
			}
		}
	}
	for _, want := range []string{"snarktank/ralph", "portableralph", "rslph", "smart-ralph", "Ralph suite"} {
		if !slices.Contains(systems, want) {
			t.Errorf("nothing is said of %s", want)
		}
	}
}
