package history_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/history"
	"github.com/org/ralph-action/internal/history/historytest"
)

func fileIn(t *testing.T, dir string) *history.File {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	return history.NewFile(root, ".ralph/history.jsonl")
}

func TestFile(t *testing.T) {
	t.Parallel()
	historytest.Run(t, func(t *testing.T) history.Memory { return fileIn(t, t.TempDir()) })
}

func TestFileKeepsWhatItCannotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, ".ralph", "history.jsonl")
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	const before = "a note of a person\n{\"key\":\"a\",\"title\":\"Serialise the report\",\"worked\":true}\n{\"key\":\"b\",\"ti"
	if err := os.WriteFile(name, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	f := fileIn(t, dir)
	if err := f.Remember(t.Context(), history.Lesson{Key: "c", Title: "Serialise the table"}); err != nil {
		t.Fatal(err)
	}
	all, err := f.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Key != "a" || all[1].Key != "c" {
		t.Errorf("got %+v", all)
	}
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(src), before+"\n") {
		t.Errorf("what stood there is gone: %q", src)
	}
}

// A checkout may come from anybody: nothing is followed out of it or waited for.
func TestFileRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(path string) error{
		"link out":  func(path string) error { return os.Symlink("/etc/hostname", path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, ".ralph", "history.jsonl")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := plant(path); err != nil {
				t.Fatal(err)
			}
			f := fileIn(t, dir)
			if err := f.Remember(t.Context(), history.Lesson{Key: "a"}); err == nil {
				t.Error("remembered")
			}
			if _, err := f.Similar(t.Context(), history.Query{Title: "Serialise"}, 3); err == nil {
				t.Error("read")
			}
		})
	}
}

func TestFileLeavesOutTheOldWhenItIsFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := fileIn(t, dir)
	line, err := json.Marshal(history.Lesson{Key: "same", Title: strings.Repeat("x", 300)})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, ".ralph", "history.jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat(string(line)+"\n", (9<<20)/len(line))), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Remember(t.Context(), history.Lesson{Key: "new"}); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Size() > 4096 {
		t.Errorf("%d bytes are left of two lessons", fi.Size())
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"Add a --json flag to the report": {"json", "flag", "report"},
		"internal/report/json.go":         {"internal", "report", "json", "go"},
		"parse parsing parsed parses":     {"pars"},
		"größere Übersicht":               {"größere"[:len("größere")-1], "übersicht"},
		"the of and":                      nil,
	} {
		if diff := cmp.Diff(want, history.Words(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestSentence(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]history.Lesson{
		`"Wire the flag" took one iteration`: {Title: "Wire the flag", Worked: true, Iterations: 1},
		`"Wire the flag" was given up after 3 iterations; TestFlag failed; files: a.go`: {
			Title: "Wire the flag", Iterations: 3, Insight: "TestFlag failed", Files: []string{"a.go"},
		},
	} {
		if got := l.Sentence(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/lessons.md")
	if err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[history.Lesson]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !strings.Contains(string(doc), "\n| `"+name+"` | ") {
			t.Errorf("docs/lessons.md does not describe %s", name)
		}
	}
}
