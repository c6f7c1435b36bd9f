package supervise_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/supervise"
)

func TestDefaultsAreThoseOfTheSource(t *testing.T) {
	t.Parallel()
	cfg := supervise.Defaults()
	if cfg.StagnationThreshold != 5 || cfg.MaxTaskAttempts != 3 || cfg.TaskTimeout != 30*time.Minute || !cfg.Predictive ||
		cfg.CheckpointInterval != 10 || cfg.MaxCheckpoints != 20 {
		t.Errorf("got %+v", cfg)
	}
}

// TestDocumentedThresholds compares the table that people read with the defaults.
func TestDocumentedThresholds(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/supervision.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind, s := range supervise.PatternSteps(supervise.Defaults()) {
		row := regexp.MustCompile(fmt.Sprintf("(?m)^\\| `%s`(?: \\(run\\))? \\| [^|]+ \\| %d \\| %d \\| %d \\|$", kind,
			s.Warning, s.Elevated, s.Critical))
		if !row.Match(doc) {
			t.Errorf("docs/supervision.md lacks a row for %s with %+v", kind, s)
		}
	}
	for _, kinds := range [][]string{
		names(supervise.PatternKinds()), names(supervise.VerdictKinds()), names(supervise.StrategyKinds()),
		names(supervise.FailureClasses()), names(run.Roles()),
	} {
		for _, k := range kinds {
			if !strings.Contains(string(doc), "`"+k+"`") {
				t.Errorf("docs/supervision.md does not mention %s", k)
			}
		}
	}
}

func names[S ~string](kinds []S) []string {
	all := make([]string, 0, len(kinds))
	for _, k := range kinds {
		all = append(all, string(k))
	}
	return all
}

func TestLevels(t *testing.T) {
	t.Parallel()
	steps := supervise.Steps{Warning: 2, Elevated: 4, Critical: 6}
	for n, want := range []string{"none", "none", "warning", "warning", "elevated", "elevated", "critical", "critical"} {
		if got := steps.Level(n).String(); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
	if got := (supervise.Steps{Warning: 2, Critical: 6}).Level(5); got != supervise.Warning {
		t.Errorf("with a level left out: got %s", got)
	}
	if got := (supervise.Steps{}).Level(math.MaxInt); got != supervise.None {
		t.Errorf("with all levels left out: got %s", got)
	}
	if got := supervise.Level(9).String(); got != "unknown" {
		t.Errorf("a level that is none: got %s", got)
	}
}

func TestBoundedIterationsAreSmallAndCanBeStored(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü\u202e\n", 10_000)
	var many []string
	for range 1000 {
		many = append(many, long)
	}
	it := supervise.Iteration{
		Number: 7, TaskID: long, ParentID: long, Role: supervise.Implementer, Outcome: supervise.Completed,
		Class: supervise.FailTest,
		Error: supervise.Signature{Hash: "x", Text: long, File: long, Tests: many},
		Files: many, Change: long,
	}
	small := it.Bounded()
	stored, err := json.Marshal(small)
	if err != nil {
		t.Fatal(err)
	}
	if len(stored) > 9<<10 {
		t.Errorf("stored in %d bytes", len(stored))
	}
	if small.FileCount != 1000 || len(small.Files) != 20 || len(it.Files) != 1000 || it.Files[0] != long {
		t.Errorf("%d of %d files are left, and of what was handed in %d", len(small.Files), small.FileCount, len(it.Files))
	}
	if strings.ContainsAny(string(stored), "\u202e") {
		t.Error("what hides text was kept")
	}
	var back supervise.Iteration
	if err := json.Unmarshal(stored, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(small, back); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(small, small.Bounded()); diff != "" {
		t.Errorf("bounding twice: %s", diff)
	}
}
