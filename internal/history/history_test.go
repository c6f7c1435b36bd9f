package history_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/history"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"Add a --json flag to the report": {"json", "flag", "report"},
		"internal/report/json.go":         {"internal", "report", "json", "go"},
		"parse parsing parsed parses":     {"pars"},
		"größere Übersicht":               {"größere"[:len("größere")-1], "übersicht"},
		"the of and":                      nil,
	} {
		if diff := cmp.Diff(want, history.Words(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestSentence(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]history.Lesson{
		`"Wire the flag" took one iteration`: {Title: "Wire the flag", Worked: true, Iterations: 1},
		`"Wire the flag" was given up after 3 iterations; TestFlag failed; files: a.go`: {
			Title: "Wire the flag", Iterations: 3, Insight: "TestFlag failed", Files: []string{"a.go"},
		},
	} {
		if got := l.Sentence(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/lessons.md")
	if err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[history.Lesson]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !strings.Contains(string(doc), "\n| `"+name+"` | ") {
			t.Errorf("docs/lessons.md does not describe %s", name)
		}
	}
}
