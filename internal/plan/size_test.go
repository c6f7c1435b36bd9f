package plan

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

func TestOversized(t *testing.T) {
	t.Parallel()
	nine := make([]string, 9)
	tests := []struct {
		name string
		task run.Task
		why  string // "" is of a good size
	}{
		{"one thing", run.Task{Title: "Add a --json flag to report"}, ""},
		{"one thing with a list of objects", run.Task{Title: "Show name, date, size and owner of each file"}, ""},
		{"two things that belong together", run.Task{Title: "Add the flag and document it in the README"}, ""},
		{
			"three sentences",
			run.Task{Title: "Parse v1.2 files, e.g. those of 2019. Keep unknown keys. Report the line of an error."}, "",
		},
		{"eight criteria", run.Task{Title: "Add the flag", Accept: nine[:8]}, ""},
		{"a check of everything", run.Task{Title: "Run all tests, lint all code and check every link", Verify: true}, ""},
		{"a file called everything", run.Task{Title: "Add everything.md"}, ""},
		{"the whole of one thing", run.Task{Title: "Log the whole request"}, ""},
		{"four sentences", run.Task{Title: "Parse it. Keep keys. Report errors. Write docs."}, "4 sentences"},
		{"nine criteria", run.Task{Title: "Add the flag", Accept: nine}, "9 acceptance criteria"},
		{"words without end", run.Task{Title: strings.Repeat("word ", 81)}, "81 words"},
		{"three things", run.Task{Title: "Add the flag, remove the option and rename the command"}, "3 things"},
		{"three things with semicolons", run.Task{Title: "Rename the package; move the tests; update the docs"}, "3 things"},
		{"everything", run.Task{Title: "Implement everything in the spec"}, "implement everything"},
		{"all the rest", run.Task{Title: "Do all the remaining work"}, "do all the"},
		{"the whole program", run.Task{Title: "Build the entire backend"}, "build the entire"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			why, yes := Oversized(tt.task)
			if yes != (tt.why != "") || !strings.Contains(why, tt.why) {
				t.Errorf("got %q, %v; want %q", why, yes, tt.why)
			}
		})
	}
}
