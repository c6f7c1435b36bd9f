package island

import (
	"fmt"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// TestShorteningOrder takes room away little by little: nothing goes before all
// that is to go first has gone.
func TestShorteningOrder(t *testing.T) {
	t.Parallel()
	long := strings.TrimSpace(strings.Repeat("word ", 60))
	v := View{
		IssueNumber: 7, Phase: run.PhaseIterating, Learnings: strings.Repeat("- learnt "+long+"\n", 12),
		Gates:    []Gate{{Name: "go test", Detail: strings.Repeat("said "+long+"\n", 4)}},
		Analysis: strings.Repeat("- planned "+long+"\n", 12), Patterns: strings.Repeat("- seen "+long+"\n", 12),
		Diagnostics: strings.Repeat("- tried "+long+"\n", 8),
	}
	for i := range 20 {
		v.Calls = append(v.Calls, Call{
			Iteration: i + 1, Hosts: []run.HostUse{{Host: "host.example", Blocked: "why", Count: 1}},
		})
	}
	for i := range 60 {
		v.Log = append(v.Log, progress.LogRow{Iteration: i + 1})
	}
	for i := range 70 {
		v.Commits = append(v.Commits, Commit{OID: oid(i), Subject: fmt.Sprintf("commit-%d.", i)})
	}
	add := func(id string, status run.TaskStatus) {
		v.Tasks = append(v.Tasks, run.Task{
			ID: id, Title: "title of " + id + ": " + long, Accept: []string{"criterion of " + id + "."},
			DependsOn: []string{"T99"}, Status: status,
		})
	}
	add("T1", run.TaskDone)
	add("T2", run.TaskDone)
	add("T3", run.TaskSkipped)
	add("T4", run.TaskBlocked)
	add("T5", run.TaskOpen)
	add("T6", run.TaskOpen)
	add("T7", run.TaskInProgress)

	shows := func(parts ...string) func(string) bool {
		return func(body string) bool {
			for _, part := range parts {
				if !strings.Contains(body, part) {
					return false
				}
			}
			return true
		}
	}
	order := []struct {
		name  string
		shown func(body string) bool
	}{
		{"all calls", shows("Iteration 1:")},
		{"some calls", shows("Iteration 20:")},
		{"the whole log", shows("\n| 1 | –")},
		{"some of the log", shows("\n| 60 | –")},
		{"the whole analysis", func(body string) bool { return strings.Count(body, "- planned") == 12 }},
		{"some of the analysis", shows("- planned")},
		{"all learnings", func(body string) bool {
			return strings.Count(body, "- learnt") == 12 && strings.Count(body, "- seen") == 12
		}},
		{"some learnings", shows("- learnt", "- seen")},
		{"the whole output", func(body string) bool { return strings.Count(body, "said word") == 4 }},
		{"some output", shows("```")},
		{"the whole account", func(body string) bool { return strings.Count(body, "- tried") == 8 }},
		{"some of the account", shows("- tried")},
		{"all commits", shows("commit-0.")},
		{"50 commits", shows("commit-20.")},
		{"10 commits", shows("commit-69.")},
		{"criteria of done tasks", shows("Accept: criterion of T1.", "Accept: criterion of T2.", "Accept: criterion of T3.")},
		{"criteria of others", shows("Accept: criterion of T4.", "Accept: criterion of T7.", "Depends on: T99")},
		{"whole titles", shows("title of T1: " + long)},
		{"half titles", func(body string) bool { return strings.Contains(body, "title of T1: "+long[:100]) }},
		{"the first done", shows("- [x] T1 ")},
		{"the last done", shows("- [x] T2 ")},
		{"skipped", shows("- [ ] T3 ")},
		{"blocked", shows("- [ ] T4 ")},
		{"the last open", shows("- [ ] T6 ")},
		{"the first open", shows("- [ ] T5 ")},
		{"in progress", shows("- [ ] T7 ")},
		{"checks", shows("`go test`")},
	}
	whole := Render(v)
	gone := 0 // so many of order
	for limit := len(whole); limit > 0; limit -= 7 {
		body := newRenderer(v).within(limit)
		next := gone
		for i, o := range order {
			switch shown := o.shown(body); {
			case !shown && i > next:
				t.Fatalf("at %d bytes: no %s, but still %s:\n%s", limit, o.name, order[next].name, body)
			case !shown:
				next = max(next, i+1)
			case i < gone:
				t.Fatalf("at %d bytes: %s is back", limit, o.name)
			}
		}
		gone = next
		for _, always := range []string{"**🔄 Working", "2 of 6 tasks", "To stop the run, comment"} {
			if !strings.Contains(body, always) {
				t.Fatalf("at %d bytes: no %q:\n%s", limit, always, body)
			}
		}
	}
	if gone != len(order) {
		t.Errorf("still %s in the least:\n%s", order[gone].name, newRenderer(v).within(0))
	}
}

func TestRenderIsDeterministic(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]View{"working": working(), "hostile": hostile(), "many": many(2000, "x")} {
		first := Render(v)
		for range 3 {
			if Render(v) != first {
				t.Errorf("%s: not the same again", name)
			}
		}
	}
}

func TestOutputKeepsItsEnd(t *testing.T) {
	t.Parallel()
	lines := make([]string, 200)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d of the output", i)
	}
	for detail, want := range map[string]string{
		"":                                "",
		" \r\n\n":                         "",
		"one":                             "  ```text\n  one\n  ```\n",
		"a\r\n\r\n\tb\r":                  "  ```text\n  a\n\n  \tb\n  ```\n",
		"a\n```\nb":                       "  ````text\n  a\n  ```\n  b\n  ````\n",
		strings.Join(lines[190:], "\n"):   "  ```text\n  " + strings.Join(lines[190:], "\n  ") + "\n  ```\n",
		strings.Repeat("é", 2000):         "  ```text\n  " + strings.Repeat("é", 748) + "…\n  ```\n",
		"x\n" + strings.Repeat("y", 1500): "  ```text\n  …\n  " + strings.Repeat("y", 1500) + "\n  ```\n",
	} {
		v := View{Gates: []Gate{{Name: "test", Detail: detail}}}
		r := newRenderer(v)
		if got := r.output(detail); got != want {
			t.Errorf("%.40q:\n%s\nwant\n%s", detail, got, want)
		}
	}
	body := Render(View{Gates: []Gate{{Name: "test", Detail: strings.Join(lines, "\n")}}})
	if !strings.Contains(body, "  …\n  line 1") || !strings.Contains(body, "  "+lines[199]+"\n  ```\n") {
		t.Errorf("the end is missing:\n%s", body)
	}
}

var sink string

func BenchmarkRender(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			v := many(n, "as the issue asks for it")
			b.ReportAllocs()
			for b.Loop() {
				sink = Render(v)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			body := Render(many(n, "ok"))
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
