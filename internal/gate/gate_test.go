package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
)

func files(m map[string]string) gate.Files {
	return func(name string) ([]byte, bool) {
		s, ok := m[name]
		return []byte(s), ok
	}
}

func TestDetect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"nothing", nil, nil},
		{"go module", map[string]string{"go.mod": "module m\n"}, []string{"go vet ./...", "go test ./..."}},
		{"make test wins", map[string]string{"go.mod": "module m\n", "Makefile": "all:\n\ntest: all\n\tgo test\n"}, []string{"make test"}},
		{"make target without prerequisites", map[string]string{"Makefile": "test:\n\ttrue\n"}, []string{"make test"}},
		{"make variable is no target", map[string]string{"Makefile": "test := 1\n"}, nil},
		{"make other target", map[string]string{"Makefile": "tests:\n\ttrue\n"}, nil},
		{"npm", map[string]string{"package.json": `{"scripts":{"test":"node --test"}}`}, []string{"npm test"}},
		{"npm init's own script", map[string]string{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`}, nil},
		{"broken package.json", map[string]string{"package.json": `{"scripts":`}, nil},
		{"go and npm", map[string]string{"go.mod": "module m\n", "package.json": `{"scripts":{"test":"x"}}`}, []string{"go vet ./...", "go test ./...", "npm test"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, g := range gate.Detect(files(tt.files)) {
				got = append(got, g.Command)
				if g.When != gate.Task || g.Timeout != gate.DefaultTimeout || !g.Detected {
					t.Errorf("gate %+v lacks its defaults", g)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnionKeepsGatesOfTheBase(t *testing.T) {
	t.Parallel()
	base := gate.Detect(files(map[string]string{"go.mod": "module m\n"}))
	proposed := gate.Detect(files(map[string]string{"package.json": `{"scripts":{"test":"x"}}`}))
	var got []string
	for _, g := range gate.Union(base, proposed) {
		got = append(got, g.Command)
	}
	if diff := cmp.Diff([]string{"go vet ./...", "go test ./...", "npm test"}, got); diff != "" {
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
	for _, want := range []string{`"go test"`, "exit code 1", "--- FAIL: TestAdd", "got 3, want 4", "line 9999 of chatter", "[…]"} {
		if !strings.Contains(got, want) {
			t.Errorf("remediation lacks %q:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n > 100 {
		t.Errorf("remediation has %d lines, want at most 100", n)
	}
	timeout := gate.Remediation(gate.Result{Gate: "slow", Command: "slow", Reason: "wall_timeout", Duration: 90 * time.Second})
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
