package formats_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

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

// check reads src, ticks the last task, notes something, and converts to all
// formats.
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
	if err := f.AppendLearnings(when, "T1", "noted"); err != nil {
		if _, ok := errors.AsType[*run.UserError](err); !ok {
			t.Fatalf("AppendLearnings: %v", err)
		}
	}
	for _, to := range formats.Formats() {
		if _, _, err := formats.Convert(f, to, when); err != nil {
			if _, ok := errors.AsType[*run.UserError](err); !ok {
				t.Fatalf("Convert to %s: %v", to, err)
			}
		}
	}
}

// follow has the file follow a run that has done all of its tasks: twice is once.
func follow(t *testing.T, f *formats.File) {
	t.Helper()
	files, _, err := formats.Convert(f, formats.Checklist, when)
	if err != nil || f.Format() == formats.Checklist {
		return
	}
	for _, list := range files {
		own, err := formats.Parse(formats.Progress, "progress.md", list)
		if err != nil {
			t.Fatal(err)
		}
		var done []formats.StatusChange
		for i := range own.Plan().Tasks {
			done = append(done, formats.StatusChange{Task: i, Status: run.TaskDone})
		}
		if err := own.Apply(done...); err != nil {
			t.Fatal(err)
		}
		if _, err := formats.Follow(own, f, formats.Landed{When: when}); err != nil {
			return // full
		}
		once := f.Bytes()
		again, err := formats.Follow(own, f, formats.Landed{When: when})
		if err != nil || len(again.Changed) > 0 || !bytes.Equal(f.Bytes(), once) {
			t.Fatalf("following again: %+v, %v, %q", again, err, f.Bytes())
		}
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
		check(t, formats.Ralphex, src)
		check(t, formats.FixPlan, src)
	})
}

// FuzzLog reads and extends any progress.txt.
func FuzzLog(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		prd, err := formats.Parse(formats.PRD, "prd.json", []byte(`{"userStories":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := prd.Attach(src); err != nil {
			return
		}
		before := prd.Plan()
		if err := prd.AppendPatterns(when, "noted"); err != nil {
			return // full
		}
		if err := prd.AppendLearnings(when, "US-001", "learned"); err != nil {
			return
		}
		after := prd.Plan()
		if len(after.Patterns) < len(before.Patterns)+1 || len(after.Learnings) < 1 ||
			after.Learnings[len(after.Learnings)-1] != "learned" {
			t.Fatalf("%q: %+v", prd.Files()["progress.txt"], after)
		}
	})
}
