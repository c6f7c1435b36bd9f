package agent

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what the parsers make of the recordings to testdata")

// recording is what a CLI of some version printed once: testdata/CLI/VERSION/NAME.jsonl.
type recording struct {
	cli, file string
	stream    []byte
}

func recordings(t testing.TB) []recording {
	t.Helper()
	files, err := filepath.Glob("testdata/*/*/*.jsonl")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	var all []recording
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, recording{cli: strings.Split(filepath.ToSlash(file), "/")[1], file: file, stream: b})
	}
	return all
}

// parserOf makes a parser by the name of the CLI.
func parserOf(t testing.TB, cli string, emit func(Activity)) Parser {
	t.Helper()
	b, err := Lookup(cli, Options{Command: "true"})
	if err != nil {
		t.Fatal(err)
	}
	return b.NewParser(emit)
}

// golden is what a parser makes of a recording.
type golden struct {
	Result     Result
	Activities []Activity
}

func reads(t testing.TB, cli string, stream []byte, chunk int) golden {
	t.Helper()
	var g golden
	p := parserOf(t, cli, func(a Activity) {
		if a.Kind != ActivityOther {
			g.Activities = append(g.Activities, a)
		}
	})
	for len(stream) > 0 {
		n := min(chunk, len(stream))
		if wrote, err := p.Write(stream[:n]); wrote != n || err != nil {
			t.Fatalf("Write: %d, %v", wrote, err)
		}
		stream = stream[n:]
	}
	g.Result = p.Close()
	return g
}

// Every recording is understood as it was when a person last looked at it, in
// whatever pieces it comes.
func TestRecordingsOfAll(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t) {
		t.Run(r.file, func(t *testing.T) {
			t.Parallel()
			got := reads(t, r.cli, r.stream, len(r.stream))
			file := strings.TrimSuffix(r.file, ".jsonl") + ".golden.json"
			if *update {
				b, err := json.MarshalIndent(got, "", "\t")
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, append(b, '\n'), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want golden
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(got, reads(t, r.cli, r.stream, 7)); diff != "" {
				t.Errorf("in pieces (-whole +pieces):\n%s", diff)
			}
		})
	}
}

// A stream that ends before its end is not a success, wherever it is cut off; and
// a line that is no event costs that line only, wherever it comes.
func TestRecordingsCutAndSpoilt(t *testing.T) {
	t.Parallel()
	noise := []string{"{\"type\":\"text\",", "not JSON", "{}", `{"type":7}`, "{\"type\":\"result\"", "\x00\xff"}
	for _, r := range recordings(t) {
		if filepath.Base(r.file) != "task.jsonl" {
			continue
		}
		t.Run(r.cli, func(t *testing.T) {
			t.Parallel()
			all := bytes.SplitAfter(bytes.TrimSpace(r.stream), []byte("\n"))
			for n := range all {
				if got := reads(t, r.cli, bytes.Join(all[:n], nil), 1<<20).Result; got.Outcome != OutcomeEmpty || got.Error == "" {
					t.Errorf("after %d of %d lines: %s", n, len(all), got.Outcome)
				}
			}
			want := reads(t, r.cli, r.stream, 1<<20)
			var spoilt []byte
			for i, line := range all {
				spoilt = append(append(spoilt, noise[i%len(noise)]...), '\n')
				spoilt = append(spoilt, line...)
			}
			got := reads(t, r.cli, spoilt, 1<<20)
			if got.Result.BadLines != len(all) || got.Result.Lines != 2*len(all) {
				t.Errorf("%d bad lines of %d, want %d", got.Result.BadLines, got.Result.Lines, len(all))
			}
			got.Result.BadLines, got.Result.Lines = want.Result.BadLines, want.Result.Lines
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-clean +spoilt:\n%s", diff)
			}
		})
	}
}
