package formats_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/progress/formats"
)

const (
	openPRD = `{"branchName": "ralph/old-thing", "userStories": [{"title": "a", "passes": false}]}`
	donePRD = `{"branchName": "ralph/new", "userStories": [{"title": "a", "passes": true}]}`
)

func TestArchive(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files map[string]string
		dir   string
		want  map[string]string
	}{
		"nothing there": {nil, "", map[string]string{}},
		"the same branch, not done": {
			map[string]string{"prd.json": openPRD, ".last-branch": "ralph/new\n"}, "",
			map[string]string{"prd.json": openPRD, ".last-branch": "ralph/new\n"},
		},
		"another branch": {
			map[string]string{"prd.json": openPRD, "progress.txt": "log\n"}, "archive/2026-01-02-old-thing",
			map[string]string{
				"prd.json": openPRD, "archive/2026-01-02-old-thing/prd.json": openPRD,
				"archive/2026-01-02-old-thing/progress.txt": "log\n",
			},
		},
		"done": {
			map[string]string{"prd.json": donePRD}, "archive/2026-01-02-new",
			map[string]string{"prd.json": donePRD, "archive/2026-01-02-new/prd.json": donePRD},
		},
		"the branch worked last": {
			map[string]string{"prd.json": openPRD, ".last-branch": "ralph/../../etc/x\n"}, "archive/2026-01-02-etc-x",
			map[string]string{"prd.json": openPRD, ".last-branch": "ralph/new\n", "archive/2026-01-02-etc-x/prd.json": openPRD},
		},
		"an archive of the same day": {
			map[string]string{"prd.json": donePRD, "archive/2026-01-02-new/prd.json": "{}"}, "archive/2026-01-02-new-2",
			map[string]string{
				"prd.json": donePRD, "archive/2026-01-02-new/prd.json": "{}", "archive/2026-01-02-new-2/prd.json": donePRD,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range tc.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := formats.Archive(openRoot(t, dir), "ralph/new", when)
			if err != nil || got != tc.dir {
				t.Fatalf("Archive = %q, %v, want %q", got, err, tc.dir)
			}
			files := map[string]string{}
			if err := filepath.Walk(dir, func(p string, info os.FileInfo, err error) error {
				if err != nil || info.IsDir() {
					return err
				}
				b, err := os.ReadFile(p)
				rel, _ := filepath.Rel(dir, p)
				files[rel] = string(b)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, files); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestArchiveFollowsNoLink plants links where files are read and written.
func TestArchiveFollowsNoLink(t *testing.T) {
	t.Parallel()
	for _, link := range []string{"prd.json", "progress.txt", ".last-branch", "archive"} {
		t.Run(link, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "prd.json"), []byte(openPRD), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "target"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("target", filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
			if got, err := formats.Archive(openRoot(t, dir), "ralph/new", when); err == nil {
				t.Errorf("archived to %q through a link", got)
			}
			if left, err := os.ReadDir(filepath.Join(dir, "target")); err != nil || len(left) > 0 {
				t.Errorf("%v, %v behind the link", left, err)
			}
		})
	}
}

func openRoot(t *testing.T, dir string) *os.Root {
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
	return root
}

// TestCarry brings what a progress.md has come to back into the files it was
// made from.
func TestCarry(t *testing.T) {
	t.Parallel()
	const own = "# Progress: x\n\n## Tasks\n- [x] T1 [US-001] a\n- [ ] T2 [US-002] b (blocked: no key)\n- [ ] T3 [US-003] c\n- [x] T4 new\n\n## Learnings\n- known\n- fresh\n"
	const prd = "{\"userStories\": [\n {\"id\": \"US-001\", \"title\": \"a\", \"passes\": false, \"x\": 1.0},\n {\"id\": \"US-002\", \"title\": \"b\"},\n {\"id\": \"US-003\", \"title\": \"c\", \"passes\": true}]}"
	from, err := formats.Parse(formats.Progress, "progress.md", []byte(own))
	if err != nil {
		t.Fatal(err)
	}
	into, err := formats.Parse(formats.PRD, "prd.json", []byte(prd))
	if err != nil {
		t.Fatal(err)
	}
	if err := into.Attach([]byte("- Learnings for future iterations:\n  - known\n")); err != nil {
		t.Fatal(err)
	}
	got, err := formats.Carry(from, into, when)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(formats.Carried{
		Changed: []string{"US-001", "US-002"}, Unknown: []string{"T4"}, Open: []string{"US-002"},
	}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	want := map[string]string{
		"prd.json":     "{\"userStories\": [\n {\"id\": \"US-001\", \"title\": \"a\", \"passes\": true, \"x\": 1.0},\n {\"id\": \"US-002\", \"title\": \"b\", \"notes\": \"blocked: no key\"},\n {\"id\": \"US-003\", \"title\": \"c\", \"passes\": true}]}",
		"progress.txt": "- Learnings for future iterations:\n  - known\n## 2026-01-02 15:04 - US-001\n- Implemented: a\n- **Learnings for future iterations:**\n  - fresh\n---\n",
	}
	for name, b := range into.Files() {
		if d := cmp.Diff(want[name], string(b)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if again, err := formats.Carry(from, into, when); err != nil || len(again.Changed) > 0 {
		t.Errorf("carried %v again, %v", again, err)
	}
}
