package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadLoop(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, src string
		want      Loop
		err       string
	}{
		{
			"as the plugin writes it",
			"---\nactive: true\niteration: 3\nmax_iterations: 20\ncompletion_promise: \"ALL DONE\"\n" +
				"started_at: \"2026-01-05T10:00:00Z\"\n---\n\nBuild it.\n\n---\n\nThen test it.\n",
			Loop{
				Active: true, Iteration: 3, MaxIterations: 20, Promise: "ALL DONE", StartedAt: "2026-01-05T10:00:00Z",
				Prompt: "Build it.\n\n---\n\nThen test it.",
			}, "",
		},
		{
			"without a promise, from Windows", "\ufeff---\r\nactive: false\r\niteration: 1\r\nmax_iterations: 0\r\ncompletion_promise: null\r\n" +
				"session_id: abc\r\n---\r\nGo on.\r\n",
			Loop{Iteration: 1, Prompt: "Go on."}, "",
		},
		{"plain words", "---\ncompletion_promise: it's done: all\n---\nx", Loop{Active: true, Iteration: 1, Promise: "it's done: all", Prompt: "x"}, ""},
		{"single quotes", "---\ncompletion_promise: 'it''s'\n---\nx", Loop{Active: true, Iteration: 1, Promise: "it's", Prompt: "x"}, ""},
		{"no front matter", "Build it.\n", Loop{}, "does not begin"},
		{"no end", "---\nactive: true\n", Loop{}, "has no end"},
		{"no number", "---\nmax_iterations: many\n---\n", Loop{}, "max_iterations is no number"},
		{"no truth", "---\nactive: perhaps\n---\n", Loop{}, "neither true nor false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := ReadLoop([]byte(c.src))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzReadLoop(f *testing.F) {
	f.Add(string(NewLoop("Build it.", `"DONE" \ now`, 5, time.Unix(0, 0)).Bytes()))
	f.Add("---\nactive: true\n---\nx")
	f.Fuzz(func(t *testing.T, src string) {
		l, err := ReadLoop([]byte(src))
		if err != nil {
			return
		}
		again, err := ReadLoop(l.Bytes())
		if err != nil {
			t.Fatalf("%v\n%s", err, l.Bytes())
		}
		if CheckPromise(l.Promise) != nil {
			l.Promise, again.Promise = "", ""
		}
		l.StartedAt, again.StartedAt = "", ""
		if diff := cmp.Diff(l, again); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFromPromptIsOneTask(t *testing.T) {
	t.Parallel()
	const text = "# Clean up\n\n- [ ] one\n- [ ] two\n\n## Acceptance\n\n- it works\n"
	p, err := FromPrompt(text, "DONE")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Tasks) != 1 || p.Tasks[0].Title != "Clean up" || len(p.Accept) != 0 || p.Text != strings.TrimSpace(text) {
		t.Errorf("plan %+v", p)
	}
	other, err := FromPrompt(text, "FINISHED")
	if err != nil || other.SHA256 == p.SHA256 {
		t.Errorf("with another promise it is the same plan (%v)", err)
	}
}
