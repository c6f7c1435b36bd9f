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

	"github.com/org/ralph-action/internal/analytics"
	"github.com/org/ralph-action/internal/run"
)

func open(t *testing.T, path string) *analytics.Writer {
	t.Helper()
	mask := func(s string) string { return strings.ReplaceAll(s, "sesame", "***") }
	w, err := analytics.Open(path, mask, func(err error) { t.Errorf("told of %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
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
	files, err := analytics.Files(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := analytics.ReadFiles(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	figures := analytics.Total{
		Iterations: 3, AgentCalls: 3, AgentSeconds: 5, FailedAttempts: 1, TasksDone: 2, TasksTotal: 2, Gates: 2,
		GateFailures: map[string]int{"go test": 1}, Verdicts: map[string]int{"switch_role": 1}, CostUSD: 0.3,
		Models: map[string]analytics.ModelStats{
			"m1": {Requests: 2, Usage: analytics.Usage{InputTokens: 10, CostUSD: 0.1}},
		},
		HostsReached: map[string]int{"pkg.example": 3}, HostsBlocked: map[string]int{"***.example": 1, "pkg.example": 1},
		SentBytes: 5, ReceivedBytes: 57,
	}
	want := analytics.Stats{
		Runs: []analytics.RunStats{{
			Run: "r1", Repo: "acme/app", Started: at, Ended: at.Add(12 * time.Second), End: run.EndAllTasksComplete,
			Total: figures, Outcomes: map[string]int{"completed": 3}, Usage: analytics.Usage{InputTokens: 15, CostUSD: 0.2},
			Model: "m1",
		}},
		Ends:  map[run.EndReason]int{run.EndAllTasksComplete: 1},
		Total: figures,
	}
	if diff := cmp.Diff(want, s.Stats()); diff != "" {
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
	s, err := analytics.ReadFiles([]string{path}, func(r analytics.Record) bool { return r.Run == "r2" })
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Stats().Runs; len(got) != 1 || got[0].Run != "r2" {
		t.Errorf("got %+v", got)
	}
}

func TestLinesThatCannotBeReadAreCounted(t *testing.T) {
	t.Parallel()
	s := analytics.NewSummary(nil)
	good, err := json.Marshal(analytics.Record{Version: 1, Run: "r1", Kind: run.EventRunStarted, Total: 3})
	if err != nil {
		t.Fatal(err)
	}
	src := "not JSON\n{}\n" + strings.Repeat("x", 200<<10) + "\n\n" + string(good) + "\n{\"v\":1,\"run\":\"r1\",\"ki"
	if err := s.Read(strings.NewReader(src)); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats(); got.Unread != 4 || got.Total.TasksTotal != 3 {
		t.Errorf("got %+v", got)
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
	s, err := analytics.ReadFiles([]string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Stats(); got.Unread != 1 || len(got.Runs) != 1 {
		t.Errorf("got %+v", got)
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
	s, err := analytics.ReadFiles([]string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Stats(); got.Unread != 0 || got.Total.Iterations != 50 {
		t.Errorf("got %+v", got.Total)
	}
	if files, err := analytics.Files(path); err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
}

// Every field of a line is described.
func TestDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/analytics.md")
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)`").FindAllStringSubmatch(string(doc), -1) {
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
			if !described[prefix+name] {
				t.Errorf("docs/analytics.md does not describe %s%s", prefix, name)
			}
			if ft := f.Type; ft.Kind() == reflect.Pointer && ft.Elem().Kind() == reflect.Struct {
				walk(ft.Elem(), prefix+name+".")
			}
		}
	}
	walk(reflect.TypeFor[analytics.Record](), "")
}
