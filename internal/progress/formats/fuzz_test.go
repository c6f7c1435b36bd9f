package formats_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/progress/formats"
	"github.com/org/ralph-action/internal/run"
)

// seeds adds the task files of the golden files.
func seeds(f *testing.F) {
	f.Helper()
	names, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		ar, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, in := range inputs(ar) {
			f.Add(in.Data)
		}
	}
}

// check reads src, ticks the last task, and has the file follow a run.
func check(t *testing.T, format formats.Format, src []byte) {
	t.Helper()
	f, err := formats.Parse(format, "x", src)
	if err != nil {
		if _, ok := errors.AsType[*run.UserError](err); !ok {
			t.Fatalf("Parse: %v is no *run.UserError", err)
		}
		return
	}
	if !bytes.Equal(f.Bytes(), src) {
		t.Fatalf("read and written back: %q", f.Bytes())
	}
	p := f.Plan()
	if n := len(p.Tasks); n > 0 {
		if err := tick(f, n-1); err != nil {
			t.Fatalf("Tick: %v", err)
		}
		if got := f.Plan().Tasks; len(got) != n || got[n-1].Status != run.TaskDone {
			t.Fatalf("after Tick: %+v in %q", got, f.Bytes())
		}
	}
	follow(t, f)
}

// follow has the file follow a run that has done all of its tasks: twice is once.
func follow(t *testing.T, f *formats.File) {
	t.Helper()
	own := taken(t, f)
	var done []progress.Mark
	for i := range own.Plan().Tasks {
		done = append(done, progress.Mark{Task: i, Status: run.TaskDone})
	}
	if err := own.Apply(done...); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Follow(formats.Work{Progress: string(own.Bytes()), When: when}); err != nil {
		return // full
	}
	once := f.Bytes()
	_, err := f.Follow(formats.Work{Progress: string(own.Bytes()), When: when})
	if err != nil || !bytes.Equal(f.Bytes(), once) {
		t.Fatalf("following again: %v, %q", err, f.Bytes())
	}
}

func FuzzPRD(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) { check(t, formats.PRD, src) })
}

func FuzzMarkdown(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		if format, ok := formats.Detect("x.md", src); ok {
			check(t, format, src)
		}
		check(t, formats.Specum, src)
	})
}

// FuzzLog reads and extends any progress.txt.
func FuzzLog(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		prd := parse(t, formats.PRD, `{"userStories":[{"id":"US-001","title":"a","passes":false}]}`)
		own := parse(t, formats.Progress, "## Tasks\n- [x] T1 [US-001] a\n\n## Codebase Patterns\n- noted\n\n## Learnings\n- learned\n")
		if err := prd.Attach(src); err != nil {
			return
		}
		before := prd.Plan()
		if _, err := prd.Follow(formats.Work{Progress: string(own.Bytes()), Task: "T1", When: when}); err != nil {
			return // full
		}
		after := prd.Plan()
		if !slices.Contains(after.Patterns, "noted") || !slices.Contains(after.Learnings, "learned") ||
			len(after.Patterns) < len(before.Patterns) {
			t.Fatalf("%q: %+v", prd.Notes(), after)
		}
	})
}
