package transcript_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

const secret = "hunter2-is-the-password"

func open(t *testing.T) *transcript.Store {
	t.Helper()
	return transcript.Open(filepath.Join(t.TempDir(), "transcripts"), redact.New(secret))
}

func start(id run.ID, iteration int, name string) transcript.Start {
	return transcript.Start{
		Run: id, Name: name, Iteration: iteration, TaskID: "T1", Task: "Do it", Agent: "claude", Outcome: "completed",
	}
}

func keep(t *testing.T, s *transcript.Store, st transcript.Start, stdout string) {
	t.Helper()
	if err := s.Keep(st, strings.NewReader("prompt"), strings.NewReader(stdout), strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
}

// load opens the only archive of a run.
func load(t *testing.T, s *transcript.Store, id run.ID) *transcript.Transcript {
	t.Helper()
	names, err := s.Starts(id)
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	tr, err := s.Load(id, names[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

func read(t *testing.T, tr *transcript.Transcript, part string) string {
	t.Helper()
	r, err := tr.Part(part)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestKeptIsMasked: a secret in any of the parts is not in what is kept, and the
// rest is.
func TestKeptIsMasked(t *testing.T) {
	t.Parallel()
	s := open(t)
	st := start("r1", 3, "r1-7")
	st.Task, st.Detail = "Use "+secret, "it said "+secret
	err := s.Keep(st, strings.NewReader("p "+secret), strings.NewReader("o "+secret+"\n"), strings.NewReader("e "+secret))
	if err != nil {
		t.Fatal(err)
	}
	tr := load(t, s, "r1")
	for part, want := range map[string]string{
		transcript.PromptPart: "p ***", transcript.StdoutPart: "o ***\n", transcript.StderrPart: "e ***",
	} {
		if got := read(t, tr, part); got != want {
			t.Errorf("%s: %q, want %q", part, got, want)
		}
	}
	if tr.Task != "Use ***" || tr.Detail != "it said ***" || tr.Iteration != 3 {
		t.Errorf("%+v", tr.Start)
	}
	info, err := os.Stat(s.Dir("r1"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestKeptOnce: who keeps it again, at the same time or later, changes nothing,
// and reads nothing later.
func TestKeptOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := s.Keep(start("r1", 1, "r1-1"), strings.NewReader("p"), strings.NewReader("o"), nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	broken := iotest{errors.New("read")}
	if err := s.Keep(start("r1", 1, "r1-1"), broken, broken, broken); err != nil {
		t.Error(err)
	}
	if got := read(t, load(t, s, "r1"), transcript.StdoutPart); got != "o" {
		t.Errorf("%q", got)
	}
	// What could not be read to its end is there not at all.
	if err := s.Keep(start("r1", 2, "r1-2"), broken, nil, nil); !errors.Is(err, broken.err) {
		t.Errorf("broken off: %v", err)
	}
	entries, err := os.ReadDir(s.Dir("r1"))
	if err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

type iotest struct{ err error }

func (r iotest) Read([]byte) (int, error) { return 0, r.err }

// TestCut: of what is long the beginning and the end are kept, in whole lines,
// and it is said how much is not.
func TestCut(t *testing.T) {
	t.Parallel()
	for _, lines := range []int{80_000, 240_000} { // of 100 bytes each
		s := open(t)
		var text strings.Builder
		for n := range lines {
			fmt.Fprintf(&text, "line %6d %s\n", n, strings.Repeat("x", 87))
		}
		keep(t, s, start("r1", 1, "r1-1"), text.String())
		tr := load(t, s, "r1")
		got, left := read(t, tr, transcript.StdoutPart), tr.Cut[transcript.StdoutPart]
		if text.Len() <= transcript.HeadSize+transcript.TailSize {
			if got != text.String() || left != 0 {
				t.Errorf("%d of %d bytes, %d cut", len(got), text.Len(), left)
			}
			continue
		}
		first, last, _ := strings.Cut(got, fmt.Sprintf("\n[%d bytes are left out here]\n", left))
		if !strings.HasPrefix(text.String(), first) || !strings.HasSuffix(text.String(), last) || !strings.HasSuffix(first, "x\n") ||
			!strings.HasPrefix(last, "line ") || len(first)+len(last)+int(left) != text.Len() || len(last) < transcript.TailSize/2 {
			t.Errorf("%d and %d bytes, %d cut: %.20q…%.20q", len(first), len(last), left, got, last)
		}
	}
}

// TestSecretAtTheCut: masking comes first, so that no cut leaves a part of one.
func TestSecretAtTheCut(t *testing.T) {
	t.Parallel()
	for _, shift := range []int{1, len(secret) / 2, len(secret) - 1} {
		s := open(t)
		text := strings.Repeat("x", transcript.HeadSize-shift) + secret + strings.Repeat("y", transcript.TailSize+1000)
		keep(t, s, start("r1", 1, "r1-1"), text)
		got := read(t, load(t, s, "r1"), transcript.StdoutPart)
		for n := 4; n < len(secret); n++ {
			if strings.Contains(got, secret[:n]) {
				t.Fatalf("shift %d: %q is left", shift, secret[:n])
			}
		}
	}
}

// TestNamesAreChecked: a name from outside leads nowhere else.
func TestNamesAreChecked(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, name := range []string{"", "..", "../x", "a/b", "/etc", ".hidden", strings.Repeat("x", 200)} {
		if err := s.Keep(start(run.ID(name), 1, "s"), nil, nil, nil); err == nil {
			t.Errorf("run %q is kept", name)
		}
		if err := s.Keep(start("r1", 1, name), nil, nil, nil); err == nil {
			t.Errorf("start %q is kept", name)
		}
		if _, err := s.Starts(run.ID(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("starts of %q: %v", name, err)
		}
		if _, err := s.Load("r1", name); err == nil {
			t.Errorf("%q is loaded", name)
		}
	}
}

// TestVerdicts: the list survives repetition and a line that was cut off.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	s := open(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	events := []run.Event{
		{Kind: run.EventAttemptFailed, Text: "no " + secret},
		{Kind: run.EventAgentActivity, Text: "not this"},
		{Kind: run.EventTaskDone},
		{Kind: run.EventTaskDone},
		{Kind: run.EventRunEnded, End: run.EndBudgetExhausted, Text: "all of it"},
	}
	for i, ev := range events {
		ev.Time, ev.Run, ev.Iteration, ev.TaskID = at, "r1", 1, "T1"
		if err := s.Note(ev); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			f, err := os.OpenFile(filepath.Join(s.Dir("r1"), "verdicts.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString("{\"time\n"); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Note(run.Event{Kind: run.EventTaskDone, Run: "../x"}); err != nil {
		t.Error(err)
	}
	got, err := s.Verdicts("r1")
	want := []transcript.Verdict{
		{Time: at, Iteration: 1, TaskID: "T1", Kind: run.EventAttemptFailed, Text: "no ***"},
		{Time: at, Iteration: 1, TaskID: "T1", Kind: run.EventTaskDone},
		{
			Time: at, Iteration: 1, TaskID: "T1", Kind: run.EventRunEnded,
			Text: run.EndBudgetExhausted.Sentence() + ": all of it",
		},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// TestPrune: the old go, then the oldest until the rest fits; never those of a
// run that is under way.
func TestPrune(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, tt := range map[string]struct {
		limits transcript.Limits
		keep   run.ID
		want   []run.ID
	}{
		"all fit":           {transcript.Limits{Keep: 100 * time.Hour, MaxBytes: 1 << 20}, "", []run.ID{"r1", "r2", "r3"}},
		"too old":           {transcript.Limits{Keep: 15 * time.Hour}, "", []run.ID{"r3"}},
		"too much":          {transcript.Limits{MaxBytes: 3000}, "", []run.ID{"r2", "r3"}},
		"nothing fits":      {transcript.Limits{MaxBytes: 1}, "", nil},
		"under way":         {transcript.Limits{Keep: time.Hour, MaxBytes: 1}, "r1", []run.ID{"r1"}},
		"no limits at all":  {transcript.Limits{}, "", []run.ID{"r1", "r2", "r3"}},
		"too old, too much": {transcript.Limits{Keep: 25 * time.Hour, MaxBytes: 1500}, "", []run.ID{"r3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			for i, id := range []run.ID{"r1", "r2", "r3"} {
				keep(t, s, start(id, 1, "s"), "")
				at := now.Add(time.Duration(i-3) * 10 * time.Hour)
				if err := os.WriteFile(filepath.Join(s.Dir(id), "0002-s.zip"), make([]byte, 500), 0o600); err != nil {
					t.Fatal(err)
				}
				for _, path := range []string{"0001-s.zip", "0002-s.zip", ""} {
					if err := os.Chtimes(filepath.Join(s.Dir(id), path), at, at); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := s.Prune(tt.limits, now, func(id run.ID) bool { return id == tt.keep }); err != nil {
				t.Fatal(err)
			}
			got, err := s.Runs()
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
	if err := open(t).Prune(transcript.Limits{Keep: 1}, now, nil); err != nil {
		t.Errorf("with nothing kept: %v", err)
	}
}

func parsers(name string, emit func(agent.Activity)) agent.Parser {
	backend, err := agent.Lookup(name, agent.Options{})
	if err != nil {
		return nil
	}
	return backend.NewParser(emit)
}

const stream = `{"type":"system","subtype":"init","session_id":"s","model":"m","tools":[]}
{"type":"assistant","message":{"content":[{"type":"text","text":"I look at it.\u001b[2J"},{"type":"tool_use","name":"Read","input":{"file_path":"a.go"}}]}}
{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"done","total_cost_usd":0.5}
`

// TestWriteForPeople: what the agent did, in order, with nothing in it that
// drives a terminal; and what the host made of it.
func TestWriteForPeople(t *testing.T) {
	t.Parallel()
	s := open(t)
	st := start("r1", 2, "r1-3")
	st.Role, st.Model, st.Sandbox, st.Usage = run.RoleImplementer, "m", "docker", run.Usage{Turns: 2, CostUSD: 0.5}
	st.Started, st.Finished = time.Unix(10, 0), time.Unix(15, 0)
	if err := s.Keep(st, nil, strings.NewReader(stream), strings.NewReader("warning\x1b[1m\n")); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	err := load(t, s, "r1").Write(&b, parsers, []transcript.Verdict{
		{Iteration: 2, TaskID: "T1", Kind: run.EventTaskDone}, {Iteration: 3, Kind: run.EventTaskDone},
	})
	want := `── iteration 2 · T1 Do it · implementer · claude m · docker
I look at it.
  > Read a.go
  stderr: warning[1m
  = completed, 5s, 2 turns, $0.50
  → task.done T1

`
	if diff := cmp.Diff(want, b.String()); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	b.Reset()
	unknown := func(string, func(agent.Activity)) agent.Parser { return nil }
	if err := load(t, s, "r1").Write(&b, unknown, nil); err != nil || !strings.Contains(b.String(), "see them with --raw") {
		t.Errorf("of an unknown agent: %q, %v", b.String(), err)
	}
	tail, err := s.Tail("r1", parsers, 1)
	if want := "iteration 2 · T1 Do it · implementer · claude m · docker\n  > Read a.go\n= completed, 5s, 2 turns, $0.50"; err != nil || tail != want {
		t.Errorf("%q, %v", tail, err)
	}
	if _, err := s.Tail("r9", parsers, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no run: %v", err)
	}
}
