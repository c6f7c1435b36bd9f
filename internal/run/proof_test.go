package run_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// Nobody reads that the checks pass where none ran, or where one is known to fail.
func TestProofSentence(t *testing.T) {
	t.Parallel()
	const done = "All tasks are done"
	for _, tt := range []struct {
		proof run.Proof
		want  string
	}{
		{run.Proof{Passed: 2}, done + " and the checks pass"},
		{run.Proof{Passed: 2, Reviewed: true}, done + " and the checks pass"},
		{run.Proof{}, done + "; no checks ran"},
		{run.Proof{Reviewed: true}, done + "; no checks ran, and all of it was reviewed"},
		{
			run.Proof{Failing: []string{"make test"}},
			done + "; no check confirms it: make test already failed before this run",
		},
		{
			run.Proof{Failing: []string{"make test"}, Reviewed: true},
			done + "; no check confirms it: make test already failed before this run, and all of it was reviewed",
		},
		{
			run.Proof{Passed: 1, Failing: []string{"make test"}},
			done + "; the checks pass except make test, which already failed before this run",
		},
		{
			run.Proof{Passed: 1, Failing: []string{"a", "b", "c", "d"}},
			done + "; the checks pass except a, b, c and 1 more, which already failed before this run",
		},
		{
			run.Proof{Missing: []string{"pytest could not run: No module named pytest"}, Reviewed: true},
			done + "; nothing was checked: pytest could not run: No module named pytest, and all of it was reviewed",
		},
		{
			run.Proof{Passed: 1, Missing: []string{"mypy could not run: No module named mypy"}},
			done + "; the other checks pass, but mypy could not run: No module named mypy",
		},
		{
			run.Proof{Failing: []string{"make test"}, Missing: []string{"x could not run: y"}},
			done + "; no check confirms it: make test already failed before this run, and x could not run: y",
		},
		{
			run.Proof{Passed: 1, Failing: []string{"make test"}, Missing: []string{"x could not run: y"}},
			done + "; other checks pass, but make test already failed before this run, and x could not run: y",
		},
	} {
		for _, end := range run.EndReasons() {
			got := tt.proof.Sentence(end)
			switch {
			case end.Complete() && got != tt.want:
				t.Errorf("%s, %+v: %q, want %q", end, tt.proof, got, tt.want)
			case !end.Complete() && (got != end.Sentence() || strings.Contains(got, "checks")):
				t.Errorf("%s, %+v: %q", end, tt.proof, got)
			}
		}
	}
}
