package test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryDependencyIsExplained: docs/dependencies.md has a line for each
// module that go.mod requires directly, and none for a module it does not know.
func TestEveryDependencyIsExplained(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	var explained []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9.-]+\\.[a-z]+/[^`]+)`").FindAllStringSubmatch(string(doc),
		-1) {
		explained = append(explained, m[1])
	}
	required := regexp.MustCompile(`(?m)^\t(\S+) (v\S+)( // indirect)?$`).FindAllStringSubmatch(string(mod), -1)
	if len(required) == 0 || len(explained) == 0 {
		t.Fatalf("%d modules required, %d explained: the files are not read as they are written", len(required),
			len(explained))
	}
	covers := func(doc, module string) bool { return module == doc || strings.HasPrefix(module, doc+"/") }
	for _, r := range required {
		if r[3] != "" {
			continue
		}
		found := false
		for _, e := range explained {
			found = found || covers(e, r[1])
		}
		if !found {
			t.Errorf("docs/dependencies.md says nothing about %s", r[1])
		}
	}
	for _, e := range explained {
		found := false
		for _, r := range required {
			found = found || covers(e, r[1])
		}
		if !found {
			t.Errorf("docs/dependencies.md explains %s, which go.mod does not require", e)
		}
	}
}
