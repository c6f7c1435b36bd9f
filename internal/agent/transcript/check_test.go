package transcript_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/redact"
)

// The whole output of a check is kept once, masked, and apart from the agents' calls.
func TestKeepCheck(t *testing.T) {
	t.Parallel()
	store := transcript.Open(t.TempDir(), redact.New("correct-horse-battery"))
	began := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for i, c := range []transcript.Check{
		{Name: "b", Iteration: 2, TaskID: "T1", Gate: "go test", ExitCode: 1, Reason: "exited", Started: began.Add(time.Hour)},
		{Name: "a", Iteration: 1, Gate: "go vet", Passed: true, Of: "as it was before the work began", Started: began},
		{Name: "a", Iteration: 1, Gate: "go vet again"},
	} {
		c.Run, c.Finished = "run-1", c.Started.Add(2*time.Second)
		if err := store.KeepCheck(c, strings.NewReader("line\x1b[31m correct-horse-battery\n")); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	got, err := store.Checks("run-1")
	if err != nil || len(got) != 2 || got[0].Gate != "go vet" || got[1].Gate != "go test" {
		t.Fatalf("checks %+v, %v", got, err)
	}
	if names, err := store.Starts("run-1"); err != nil || len(names) != 0 {
		t.Errorf("calls %v, %v", names, err)
	}
	var b strings.Builder
	for _, c := range got {
		if err := store.WriteCheck(&b, c); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"── iteration 1 · go vet · as it was before the work began · passed in 2s\n",
		"── iteration 2 · T1 · go test · failed with exit code 1 in 2s\nline",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in %q", want, b.String())
		}
	}
	if strings.Contains(b.String(), "correct-horse") {
		t.Error("a secret is kept")
	}
	if _, err := store.Checks("no-run"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a run of which nothing is kept: %v", err)
	}
	if err := store.KeepCheck(transcript.Check{Run: "../x", Name: "a"}, strings.NewReader("")); err == nil {
		t.Error("a run leads out of the directory")
	}
}
