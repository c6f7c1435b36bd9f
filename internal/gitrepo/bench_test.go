package gitrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/proc"
)

// BenchmarkIteration is what git costs the host in one iteration: an agent's tree with its
// history, the snapshot, what the loop reads and writes of trees, the tree of a check, and
// the commit. bare-ms is a "git add -A && git commit" in a shell on the same repository.
// Bar: 100 ms in a small repository, 300 ms with 10,000 files, and no more than in proportion with 100,000.
func BenchmarkIteration(b *testing.B) {
	for _, n := range []int{10, 10_000, 100_000} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			fs := files{"edited": "0", ".ralph/1/progress.md": "- [ ] T1\n", ".gitignore": "*.o\n", ".gitattributes": "* text=auto\n"}
			for i := range n {
				fs[fmt.Sprintf("d%d/s%d/f%d.go", i/1000, i/10, i)] = fmt.Sprintf("package x\n\n// File %d.\n", i)
			}
			it := newIteration(b, person(b, fs))
			other := person(b, fs)
			var bare time.Duration
			it.do(b, 0) // lays out
			count := 0
			for b.Loop() {
				count++
				it.do(b, count)
				b.StopTimer()
				edit(b, other, count)
				began := time.Now()
				_, err := proc.Run(b.Context(), proc.Cmd{
					Path: "/bin/sh", Args: []string{"-c", "git add -A && git commit -q -m m"}, Dir: other,
					Env: proc.ScrubbedEnv("HOME=/nonexistent", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
						"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"),
				})
				bare += time.Since(began)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(bare.Milliseconds())/float64(count), "bare-ms")
		})
	}
}

func edit(b *testing.B, dir string, i int) {
	b.Helper()
	for _, name := range []string{"edited", fmt.Sprintf("new%d.txt", i), "ignored.o"} {
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, "%d\n", i), 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

// iteration is a run on a person's repository.
type iteration struct {
	person, run *Repo
	w           *Worktree
	dir         string
	head, tree  OID
}

func newIteration(b *testing.B, repo string) *iteration {
	b.Helper()
	it := &iteration{person: open(b, repo), dir: b.TempDir()}
	var err error
	if it.run, err = it.person.Fork(filepath.Join(it.dir, "run.git")); err != nil {
		b.Fatal(err)
	}
	it.w, it.tree = export(b, it.run), headTree(b, it.person)
	if _, it.head, err = it.person.Head(b.Context()); err != nil {
		b.Fatal(err)
	}
	return it
}

func (it *iteration) do(b *testing.B, n int) {
	b.Helper()
	ctx := b.Context()
	must := func(err error) {
		if err != nil {
			b.Helper()
			b.Fatal(err)
		}
	}
	must(it.w.InitAgentGit(ctx, History{Tip: it.head, Depth: 50}))
	edit(b, it.w.Dir(), n)
	s := snapshot(b, it.w)
	for range 20 {
		must(errOf(it.run.ReadFile(ctx, s.Tree, ".ralph/1/progress.md", 1<<20)))
	}
	for range 5 {
		must(errOf(it.run.Diff(ctx, it.tree, s.Tree)))
	}
	tree, err := it.run.TreeWith(ctx, s.Tree, []TreeEdit{
		{Path: ".ralph/1/progress.md", Data: fmt.Appendf(nil, "- [x] T%d\n", n)},
	})
	must(err)
	must(errOf(it.run.Export(ctx, filepath.Join(it.dir, "check"), tree, filepath.Join(it.dir, "check-index"))))
	commit, err := it.run.CommitTree(ctx, CommitSpec{
		Tree: tree, Parents: []OID{it.head}, Message: "m", Author: ann(), When: testTime(),
	})
	must(err)
	must(it.person.Take(ctx, it.run, commit))
	must(it.person.UpdateRef(ctx, "refs/heads/main", commit, it.head))
	must(it.person.AdvanceCheckout(ctx, it.tree, tree))
	must(it.w.Reset(ctx, tree, false))
	it.head, it.tree = commit, tree
}
