package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
)

func TestUnionKeepsGatesOfTheBase(t *testing.T) {
	t.Parallel()
	base := gate.Detect(root(tree{"go.mod": "module m\n"}))
	proposed := gate.Detect(root(tree{"package.json": `{"scripts":{"test":"x"}}`}))
	var got []string
	for _, g := range gate.Union(base, proposed) {
		got = append(got, g.Command)
	}
	if diff := cmp.Diff([]string{"go vet ./...", "go test -v ./...", "npm test"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRemediation(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range 10_000 {
		if i == 4_000 {
			log.WriteString("--- FAIL: TestAdd (0.00s)\n    add_test.go:7: got 3, want 4\n")
		}
		fmt.Fprintf(&log, "line %d of chatter\n", i)
	}
	got := gate.Remediation(gate.Result{Gate: "go test", Command: "go test ./...", ExitCode: 1, Output: log.String()})
	for _, want := range []string{
		`"go test"`, "exit code 1", "--- FAIL: TestAdd", "got 3, want 4", "line 9999 of chatter", "[…]",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("remediation lacks %q:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n > 100 {
		t.Errorf("remediation has %d lines, want at most 100", n)
	}
	timeout := gate.Remediation(gate.Result{
		Gate: "slow", Command: "slow", Reason: "wall_timeout", Duration: 90 * time.Second,
	})
	if !strings.Contains(timeout, "ran out of time after 1m30s") {
		t.Errorf("remediation of a timeout: %s", timeout)
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add("one\ntwo error\n")
	f.Add(strings.Repeat("x\n", 500))
	f.Fuzz(func(t *testing.T, log string) {
		if got := gate.Excerpt(log); len(got) > 9<<10 {
			t.Errorf("excerpt of %d bytes has %d bytes", len(log), len(got))
		}
	})
}
