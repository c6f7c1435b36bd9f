package supervise_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/supervise"
)

func TestActivityCountsWhatAnAgentDoes(t *testing.T) {
	t.Parallel()
	var did supervise.Activity
	for _, tool := range []string{
		"Read", "Grep", "Edit", "apply_patch", "Write", "Bash", "exec_command", "TodoWrite", "Frobnicate",
	} {
		did.Add(tool)
	}
	if diff := cmp.Diff(supervise.Activity{Reads: 2, Writes: 3}, did); diff != "" {
		t.Error(diff)
	}
}

func TestAnalyseOutput(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		final string
		did   supervise.Activity
		want  supervise.Analysis
	}{
		{name: "nothing"},
		{
			name:  "an ordinary report",
			final: "I added the flag and its test. All tests pass. Why two maps? Lookups go both ways.",
			did:   supervise.Activity{Reads: 20, Writes: 6},
		},
		{name: "reads only", did: supervise.Activity{Reads: 5}, want: supervise.Analysis{Exploring: true}},
		{name: "reads a little", did: supervise.Activity{Reads: 4}},
		{
			name: "reads much, writes little", did: supervise.Activity{Reads: 20, Writes: 2},
			want: supervise.Analysis{Exploring: true},
		},
		{
			name: "asks", final: "Should I use Postgres? Which of the two would you prefer?\nPlease confirm.",
			want: supervise.Analysis{Asked: "Should I use Postgres? Which of the two would you prefer?"},
		},
		{name: "asks in code or a quotation", final: "```\n// Should I stay?\n```\n> Would you mind?\n~~~\nCan you?\n~~~"},
		{
			name: "more than fits", final: "This is more than fits into one session; the first part is done.",
			want: supervise.Analysis{TooComplex: true},
		},
		{
			name: "does not fit", final: "The migration does not fit into a single pass.",
			want: supervise.Analysis{TooComplex: true},
		},
		{
			name: "needs an answer", final: "Which of the two is meant? I need an answer before I can go on.",
			want: supervise.Analysis{Asked: "Which of the two is meant? I need an answer before I can go on."},
		},
		{
			name: "too much", final: "This task is too large for a single pass and should be split.",
			want: supervise.Analysis{TooComplex: true},
		},
		{
			name: "lacks something", final: "I could not find the schema, and the format is unclear.",
			want: supervise.Analysis{MissingContext: true},
		},
		{
			name: "not permitted", final: "Permission was denied when writing the file.", want: supervise.Analysis{Denied: true},
		},
		{name: "only the end of a long message is read", final: "I'm stuck.\n" + strings.Repeat("fine\n", 10_000)},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, supervise.AnalyseOutput(tt.final, tt.did)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}
