package analytics_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/org/ralph-action/internal/analytics"
	"github.com/org/ralph-action/internal/run"
)

// all keeps every event.
func all(run.Event) bool { return true }

func open(t *testing.T, path string) *analytics.Writer {
	t.Helper()
	mask := func(s string) string { return strings.ReplaceAll(s, "sesame", "***") }
	w, err := analytics.Open(path, mask, func(err error) { t.Errorf("told of %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// story is what a run of two tasks tells, the second of which fails once.
func story(id run.ID) []run.Event {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	events := []run.Event{
		{Kind: run.EventRunStarted, Total: 2},
		{Kind: run.EventAgentFinished, Iteration: 1, TaskID: "T1", Outcome: "completed", Model: "m1", Duration: time.Second, Usage: run.Usage{InputTokens: 10, CostUSD: 0.1}, CostUSD: 0.1,
			Models: []run.ModelUse{{Model: "m1", Requests: 2, Usage: run.Usage{InputTokens: 10, CostUSD: 0.1}}},
			Hosts: []run.HostUse{
				{Host: "pkg.example", Count: 2, Sent: 5, Received: 50}, {Host: "sesame.example", Blocked: "why", Count: 1},
			},
		},
		{Kind: run.EventAgentActivity, Iteration: 1, Text: "what it says"},
		{Kind: run.EventGate, Iteration: 1, Gate: "go test", Passed: true, Duration: 5 * time.Millisecond},
		{Kind: run.EventTaskDone, Iteration: 1, TaskID: "T1", Done: 1, Total: 2},
		{
			Kind: run.EventAgentFinished, Iteration: 2, TaskID: "T2", Outcome: "completed", Duration: 2 * time.Second,
			Usage: run.Usage{InputTokens: 5, CostUSD: 0.1}, CostUSD: 0.2,
		},
		{
			Kind: run.EventGate, Iteration: 2, Gate: "go test", Duration: 6 * time.Millisecond,
			Hosts: []run.HostUse{{Host: "pkg.example", Count: 1, Received: 7}, {Host: "pkg.example", Blocked: "why", Count: 1}},
		},
		{Kind: run.EventAttemptFailed, Iteration: 2, TaskID: "T2", Text: "open sesame\nfails"},
		{Kind: run.EventVerdict, Iteration: 2, Verdict: "switch_role"},
		{Kind: run.EventIteration, Iteration: 3, TaskID: "T2"},
		{
			Kind: run.EventAgentFinished, Iteration: 3, TaskID: "T2", Outcome: "completed", Duration: 2 * time.Second,
			CostUSD: 0.3,
		},
		{Kind: run.EventTaskDone, Iteration: 3, TaskID: "T2", Done: 2, Total: 2},
		{Kind: run.EventRunEnded, Iteration: 3, End: run.EndAllTasksComplete, CostUSD: 0.3},
	}
	for i := range events {
		events[i].Run, events[i].Repo, events[i].Time = id, "acme/app", at.Add(time.Duration(i)*time.Second)
	}
	return events
}

func TestAStorySummedUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "analytics.jsonl")
	w := open(t, path)
	for _, ev := range story("r1") {
		w.Handle(ev)
		w.Handle(ev) // a step that was repeated after a crash tells it again
	}
	got, err := analytics.Read(path, all)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	want := analytics.Stats{Runs: []analytics.RunStats{{
		Run: "r1", Repo: "acme/app", Started: at, Ended: at.Add(12 * time.Second), End: run.EndAllTasksComplete,
		Iterations: 3, AgentCalls: 3, AgentSeconds: 5, FailedAttempts: 1, FailedChecks: 1, TasksDone: 2, TasksTotal: 2,
		CostUSD: 0.3, Usage: run.Usage{InputTokens: 15, CostUSD: 0.2},
	}}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(analytics.RunStats{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, no := range []string{"sesame", "what it says"} {
		if strings.Contains(string(src), no) {
			t.Errorf("%q is in the file", no)
		}
	}
}

func TestSummaryKeepsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "analytics.jsonl")
	w := open(t, path)
	for _, id := range []run.ID{"r1", "r2"} {
		for _, ev := range story(id) {
			w.Handle(ev)
		}
	}
	s, err := analytics.Read(path, func(ev run.Event) bool { return ev.Run == "r2" })
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Runs; len(got) != 1 || got[0].Run != "r2" {
		t.Errorf("got %+v", got)
	}
}

func TestLinesThatCannotBeReadAreCounted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "analytics.jsonl")
	good, err := json.Marshal(run.Event{Run: "r1", Kind: run.EventRunStarted, Total: 3})
	if err != nil {
		t.Fatal(err)
	}
	src := "not JSON\n{}\n" + strings.Repeat("x", 200<<10) + "\n\n" + string(good) + "\n{\"run\":\"r1\",\"ki"
	if err := os.WriteFile(path, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := analytics.Read(path, all); err != nil || got.Unread != 4 || got.Runs[0].TasksTotal != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A line that a crash cut short does not swallow the next one.
func TestGoesOnAfterACutLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "analytics.jsonl")
	if err := os.WriteFile(path, []byte(`{"v":1,"run":"r0","ki`), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, path).Handle(run.Event{Run: "r1", Kind: run.EventRunStarted, Total: 2})
	if got, err := analytics.Read(path, all); err != nil || got.Unread != 1 || len(got.Runs) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestManyWritersAndAFullFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "analytics.jsonl")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 65<<20); err != nil { // sparse, and one line that is too long
		t.Fatal(err)
	}
	w := open(t, path)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 50 {
				w.Handle(run.Event{Run: "r1", Kind: run.EventIteration, Iteration: n + 1, TaskID: string(rune('a' + i))})
			}
		})
	}
	wg.Wait()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Size() > 1<<20 {
		t.Errorf("the full file went on, at %d bytes", fi.Size())
	}
	// The line that is too long is in the older file.
	if got, err := analytics.Read(path, all); err != nil || got.Unread != 1 || got.Runs[0].Iterations != 50 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Every field of a line is described.
func TestDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z_.]+)`").FindAllStringSubmatch(string(doc), -1) {
		described[m[1]] = true
	}
	var walk func(t reflect.Type, prefix string)
	walk = func(typ reflect.Type, prefix string) {
		for f := range typ.Fields() {
			if f.Anonymous {
				walk(f.Type, prefix)
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			if !described[prefix+name] {
				t.Errorf("docs/commands.md does not describe %s%s", prefix, name)
			}
			ft := f.Type
			for ft.Kind() == reflect.Pointer || ft.Kind() == reflect.Slice {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct && ft != reflect.TypeFor[time.Time]() && name != "models" {
				walk(ft, prefix+name+".")
			}
		}
	}
	walk(reflect.TypeFor[run.Event](), "")
}
