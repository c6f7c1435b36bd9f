package formats_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/progress/formats"
	"github.com/org/ralph-action/internal/run"
)

var update = flag.Bool("update", false, "write what the golden files should hold")

var when = time.Date(2026, 1, 2, 15, 4, 0, 0, time.UTC)

// TestGolden reads every file of testdata as the format its directory is named
// after. An archive holds the task file, perhaps its companion, and then
//
//	view        what is read
//	edit: …     the lines that change with one edit
func TestGolden(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(names) < 6 {
		t.Fatalf("golden files: %q, %v", names, err)
	}
	for _, name := range names {
		t.Run(strings.TrimPrefix(name, "testdata/"), func(t *testing.T) {
			t.Parallel()
			ar, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			format := formats.Format(filepath.Base(filepath.Dir(name)))
			in := inputs(ar)
			if got, ok := formats.Detect(in[0].Name, in[0].Data); !ok || got != format {
				t.Errorf("Detect(%s) = %s, %v", in[0].Name, got, ok)
			}
			want := map[string]string{
				"view": describe(open(t, format, in)),
			}
			for _, f := range ar.Files {
				if edit, ok := strings.CutPrefix(f.Name, "edit: "); ok {
					want[f.Name] = changed(t, format, in, edit)
				}
			}
			compare(t, name, ar, in, want)
		})
	}
}

func compare(t *testing.T, name string, ar *txtar.Archive, in []txtar.File, want map[string]string) {
	t.Helper()
	if *update {
		out := &txtar.Archive{Files: in}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			out.Files = append(out.Files, txtar.File{Name: key, Data: []byte(want[key])})
		}
		if err := os.WriteFile(name, txtar.Format(out), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	seen := 0
	for _, f := range ar.Files {
		if got, ok := want[f.Name]; ok {
			seen++
			if d := cmp.Diff(string(f.Data), got); d != "" {
				t.Errorf("%s (-file +got):\n%s", f.Name, d)
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%d of %d sections are in the file", seen, len(want))
	}
}

// inputs are the files before the first that is expected.
func inputs(ar *txtar.Archive) []txtar.File {
	n := slices.IndexFunc(ar.Files, func(f txtar.File) bool {
		return f.Name == "view" || strings.HasPrefix(f.Name, "edit: ")
	})
	return ar.Files[:n]
}

func open(t *testing.T, format formats.Format, in []txtar.File) *formats.File {
	t.Helper()
	f, err := formats.Parse(format, in[0].Name, in[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	if len(in) > 1 {
		if err := f.Attach(in[1].Data); err != nil {
			t.Fatal(err)
		}
	}
	got := files(f)
	for _, want := range in {
		if !bytes.Equal(got[want.Name], want.Data) {
			t.Errorf("%s did not come back to the byte: %s", want.Name, cmp.Diff(string(want.Data), string(got[want.Name])))
		}
	}
	return f
}

// files are the task file and its companion, by their names.
func files(f *formats.File) map[string][]byte {
	return map[string][]byte{f.Name(): f.Bytes(), f.Format().Companion(): f.Notes()}
}

func tick(f *formats.File, i int) error { return mark(f, i, run.TaskDone, "") }

func untick(f *formats.File, i int) error { return mark(f, i, run.TaskOpen, "") }

func mark(f *formats.File, i int, status run.TaskStatus, reason string) error {
	return f.Apply(progress.Mark{Task: i, Status: status, Reason: reason})
}

// changed makes an edit and shows the lines that are not as before.
func changed(t *testing.T, format formats.Format, in []txtar.File, edit string) string {
	t.Helper()
	f := open(t, format, in)
	before := files(f)
	word, rest, _ := strings.Cut(edit, " ")
	arg, text, _ := strings.Cut(rest, " ")
	i, _ := strconv.Atoi(arg)
	var err error
	switch word {
	case "tick":
		err = tick(f, i)
	case "untick":
		err = untick(f, i)
	case "block":
		err = mark(f, i, run.TaskBlocked, text)
	case "skip":
		err = mark(f, i, run.TaskSkipped, text)
	default:
		t.Fatalf("unknown edit %q", edit)
	}
	if err != nil {
		t.Fatalf("%s: %v", edit, err)
	}
	var b strings.Builder
	after := files(f)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if d := lineDiff(string(before[name]), string(after[name])); d != "" {
			fmt.Fprintf(&b, "%s\n%s", name, d)
		}
	}
	return b.String()
}

// lineDiff shows what is between the lines that both have at their beginning
// and at their end.
func lineDiff(a, b string) string {
	x, y := slices.Collect(strings.Lines(a)), slices.Collect(strings.Lines(b))
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	var out strings.Builder
	for _, l := range x {
		out.WriteString("- " + l)
	}
	for _, l := range y {
		out.WriteString("+ " + l)
	}
	return out.String()
}

// describe writes a plan for a person to check.
func describe(f *formats.File) string {
	p := f.Plan()
	var b strings.Builder
	put := func(name string, values ...string) {
		for _, v := range values {
			if v != "" {
				fmt.Fprintf(&b, "%s: %s\n", name, v)
			}
		}
	}
	put("title", p.Title)
	put("branch", p.Branch)
	put("status", p.Status)
	for _, t := range p.Tasks {
		fmt.Fprintf(&b, "task %s", t.Status)
		for _, s := range []string{t.ID, t.Origin} {
			if s != "" {
				fmt.Fprintf(&b, " <%s>", s)
			}
		}
		if t.Priority > 0 {
			fmt.Fprintf(&b, " P%d", t.Priority)
		}
		if t.Parallel {
			b.WriteString(" parallel")
		}
		if t.Verify {
			b.WriteString(" verify")
		}
		fmt.Fprintf(&b, " %q", t.Title)
		if t.Reason != "" {
			fmt.Fprintf(&b, " because %q", t.Reason)
		}
		if t.Group != "" {
			fmt.Fprintf(&b, " in %q", t.Group)
		}
		b.WriteString("\n")
		put("  do", t.Steps...)
		put("  file", t.Files...)
		put("  after", t.DependsOn...)
		put("  accept", t.Accept...)
		put("  check", t.Checks...)
		put("  subject", t.Subject)
	}
	put("pattern", p.Patterns...)
	put("learned", p.Learnings...)
	if f.Format() == formats.PRD {
		put("text", slices.Collect(strings.SplitSeq(strings.TrimSpace(f.Text()), "\n"))...)
	}
	fmt.Fprintf(&b, "marked %v, done %v, %v\n", p.MarkedDone, p.Done(), p.Counts())
	return b.String()
}
