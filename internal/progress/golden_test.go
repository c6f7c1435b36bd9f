package progress

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/org/ralph-action/internal/run"
)

// goldenFile is a document and what is read from it.
type goldenFile struct{ in, want string }

func golden(t *testing.T, name string) goldenFile {
	t.Helper()
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Files) != 2 || a.Files[0].Name != "in.md" || a.Files[1].Name != "want" {
		t.Fatalf("%s holds other files than in.md and want", name)
	}
	return goldenFile{in: string(a.Files[0].Data), want: string(a.Files[1].Data)}
}

// describe says all that is read from a document.
func describe(d *Doc) string {
	var b strings.Builder
	fmt.Fprintf(&b, "title %q\nstatus %q done=%v\n", d.Title(), d.Status(), d.MarkedDone())
	for _, t := range d.Tasks() {
		fmt.Fprintf(&b, "task %q %s %q in %q P%d parallel=%v verify=%v\n", t.ID, t.Status, t.Title, t.Group, t.Priority,
			t.Parallel, t.Verify)
		for _, l := range []struct {
			name  string
			lines []string
		}{{"do", t.Steps}, {"file", t.Files}, {"accept", t.Accept}, {"check", t.Checks}} {
			for _, s := range l.lines {
				fmt.Fprintf(&b, "  %s %q\n", l.name, s)
			}
		}
		if t.Subject != "" {
			fmt.Fprintf(&b, "  subject %q\n", t.Subject)
		}
		if len(t.DependsOn) > 0 {
			fmt.Fprintf(&b, "  after %q\n", t.DependsOn)
		}
	}
	for _, name := range sectionOrder {
		if d.find(name) >= 0 {
			fmt.Fprintf(&b, "section %s %q\n", name, d.Section(name))
		}
	}
	for _, a := range d.Attempts() {
		fmt.Fprintf(&b, "attempt %d tried %q result %q next %q\n", a.Iteration, a.Tried, a.Result, a.Next)
	}
	for _, r := range d.Log() {
		fmt.Fprintf(&b, "log %d %s %q %q\n", r.Iteration, r.Duration, r.Completed, r.Notes)
	}
	return b.String()
}

// The documents of the systems this one comes from are understood, and not a
// byte of them changes unless somebody changes it.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) {
			t.Parallel()
			g := golden(t, f)
			d := parse(t, g.in)
			if diff := cmp.Diff(g.want, describe(d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, src := range []string{g.in, strings.ReplaceAll(g.in, "\n", "\r\n"), strings.TrimRight(g.in, "\n")} {
				d := parse(t, src)
				if string(d.Bytes()) != src {
					t.Error("the bytes changed")
				}
				if diff := cmp.Diff(parse(t, g.in).Tasks(), d.Tasks()); diff != "" {
					t.Errorf("other line endings, other tasks:\n%s", diff)
				}
				for _, task := range d.Tasks() {
					if task.ID == "" || task.Status != run.TaskOpen {
						continue
					}
					if err := errors.Join(d.Tick(task.ID), d.Reopen(task.ID)); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(src, string(d.Bytes())); diff != "" {
					t.Errorf("ticking and unticking is not the way back:\n%s", diff)
				}
			}
		})
	}
}
