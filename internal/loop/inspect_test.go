package loop_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// TestInspection: the first call does what is told of, later ones mend it.
func TestInspection(t *testing.T) {
	t.Parallel()
	const tests = "package a\n\nfunc TestA(t *testing.T) {\n\tt.Error(1)\n}\n"
	remove := func(f files) { delete(f, "a_test.go") }
	key := func(content string) func(files) { return func(f files) { f["config"] = content } }
	cases := []struct {
		name    string
		task    string
		quality gate.Quality
		does    func(files)
		// told is what the second prompt holds, "" where the work lands at once;
		// found is the rule of what people are told of then.
		told, found string
	}{
		{name: "deletes a test", task: "Add a flag", does: remove, told: "test TestA of a_test.go is gone"},
		{name: "deletes a test it was asked to", task: "Remove the tests of A", does: remove, found: gate.RuleDeleted},
		{name: "renames a test", task: "Add a flag", does: func(f files) { f["a_test.go"] = strings.ReplaceAll(tests, "TestA", "TestB") }, found: gate.RuleReplaced},
		{name: "skips a test", task: "Add a flag", does: func(f files) { f["a_test.go"] = strings.Replace(tests, "\tt.Error", "\tt.Skip()\n\tt.Error", 1) }, found: gate.RuleSkipped},
		{name: "moves a test", task: "Add a flag", does: func(f files) { remove(f); f["b/a_test.go"] = tests }},
		{name: "empties the test command", task: "Add a flag", does: func(f files) { f["package.json"] = `{"scripts":{"test":"true"}}` }, told: "Put the command back"},
		{name: "adds a key", task: "Add a flag", does: key("MASTER KEY"), told: "config:1 holds what looks like a secret"},
		{name: "adds a password", task: "Add a flag", does: key("KEY"), told: "config:1 holds what looks like a secret"},
		{name: "adds a password where that is allowed", task: "Add a flag", quality: gate.Quality{AllowHigh: true}, does: key("KEY"), found: gate.RuleSecret},
		{name: "adds a key where passwords are allowed", task: "Add a flag", quality: gate.Quality{AllowHigh: true}, does: key("MASTER KEY"), told: "looks like a secret"},
		{name: "adds code without tests", task: "Add a flag", quality: gate.Quality{RequireNewTests: true}, does: func(f files) { f["a.go"] = "package a\n" }, told: "a.go gained lines, and no test did"},
		{name: "adds code without tests where none are asked for", task: "Add a flag", does: func(f files) { f["a.go"] = "package a\n" }},
		{name: "adds code and tests", task: "Add a flag", quality: gate.Quality{RequireNewTests: true}, does: func(f files) { f["a.go"] = "package a\n"; f["b_test.go"] = tests }},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			base := files{"a_test.go": tests, "package.json": `{"scripts":{"test":"jest"}}`}
			w.landed[0].Tree = w.store(base)
			w.settings.Quality = tt.quality
			w.agent = func(w *world, _ loop.State, a loop.AgentStart) loop.AgentStatus {
				if a.Attempt == 1 {
					tt.does(w.work)
				} else {
					delete(w.work, "config")
					delete(w.work, "a.go")
					w.work["a_test.go"], w.work["package.json"] = base["a_test.go"], base["package.json"]
				}
				w.work["notes"] = "x"
				return completed("done")
			}
			s := w.drive(loop.NewState(request(t, "- [ ] "+tt.task+"\n"), w.now), nil)
			if s.End != run.EndAllTasksComplete {
				t.Fatalf("ended %s: %s", s.End, s.EndDetail)
			}
			if tt.told == "" {
				if s.Iteration != 1 {
					t.Fatalf("%d iterations, want 1; told:\n%s", s.Iteration, w.prompts[1])
				}
				var rules []string
				for _, f := range s.Findings {
					rules = append(rules, f.Rule)
				}
				if got := strings.Join(rules, " "); got != tt.found {
					t.Errorf("people are told of %q, want %q", got, tt.found)
				}
				return
			}
			if s.Iteration != 2 || !strings.Contains(w.prompts[1], tt.told) {
				t.Errorf("%d iterations, want 2; the second prompt lacks %q:\n%s", s.Iteration, tt.told, w.prompts[len(w.prompts)-1])
			}
			if len(s.Findings) > 0 {
				t.Errorf("findings of what did not land are kept: %+v", s.Findings)
			}
		})
	}
}
