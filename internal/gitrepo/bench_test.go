package gitrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/proc"
)

// benchRepo makes a repository with about n files.
func benchRepo(b *testing.B, n int) string {
	b.Helper()
	fs := files{"edited": "0"}
	for i := range n {
		fs[fmt.Sprintf("d%d/s%d/f%d.go", i/1000, i/10, i)] = fmt.Sprintf("package x\n\n// File %d.\n", i)
	}
	return person(b, fs)
}

func benchSizes() []int { return []int{20, 10_000} }

// BenchmarkIteration measures what one iteration costs in this package, as a
// ratio to a bare "git add -A && git commit" in a shell on the same repository
// in the same run.
func BenchmarkIteration(b *testing.B) {
	for _, n := range benchSizes() {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			ctx := b.Context()
			dir := benchRepo(b, n)
			r := open(b, dir)
			w := export(b, r)
			tree := headTree(b, r)
			_, head, err := r.Head(ctx)
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for i := range b.N {
				edit(b, w.Dir(), i)
				s, err := w.Snapshot(ctx)
				if err != nil {
					b.Fatal(err)
				}
				commit, err := r.CommitTree(ctx, CommitSpec{
					Tree: s.Tree, Parents: []OID{head}, Message: "m", Author: ann(), When: testTime(),
				})
				if err != nil {
					b.Fatal(err)
				}
				if err := r.UpdateRef(ctx, "refs/heads/main", commit, head); err != nil {
					b.Fatal(err)
				}
				if err := r.AdvanceCheckout(ctx, tree, s.Tree); err != nil {
					b.Fatal(err)
				}
				head, tree = commit, s.Tree
			}
			b.StopTimer()
			ours := b.Elapsed()

			b.ResetTimer()
			b.StartTimer()
			for i := range b.N {
				edit(b, dir, -i-1)
				bareCommit(b, dir)
			}
			b.StopTimer()
			bare := b.Elapsed()
			b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "ours-us/op")
			b.ReportMetric(float64(bare.Microseconds())/float64(b.N), "bare-us/op")
			b.ReportMetric(float64(ours)/float64(bare), "ratio")
			b.ReportMetric(0, "ns/op") // of both together: no use
		})
	}
}

func edit(b *testing.B, dir string, i int) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(dir, "edited"), fmt.Appendf(nil, "%d\n", i), 0o600); err != nil {
		b.Fatal(err)
	}
}

func bareCommit(b *testing.B, dir string) {
	b.Helper()
	_, err := proc.Run(b.Context(), proc.Cmd{
		Path: "/bin/sh", Args: []string{"-c", "git add -A && git commit -q -m m"}, Dir: dir,
		Env: proc.ScrubbedEnv(
			"HOME=/nonexistent", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"),
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkParts measures the parts that other loops put together.
func BenchmarkParts(b *testing.B) {
	for _, n := range benchSizes() {
		dir := benchRepo(b, n)
		r := open(b, dir)
		tree := headTree(b, r)
		base := b.TempDir()
		run := 0
		b.Run(fmt.Sprintf("export/files=%d", n), func(b *testing.B) {
			for b.Loop() {
				run++
				d := filepath.Join(base, fmt.Sprint(run))
				if _, err := r.Export(b.Context(), d+".tree", tree, d+".index"); err != nil {
					b.Fatal(err)
				}
			}
		})
		w := export(b, r)
		b.Run(fmt.Sprintf("export-again/files=%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Export(b.Context(), w.dir, tree, w.index); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("snapshot-unchanged/files=%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := w.Snapshot(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("agent-git/files=%d", n), func(b *testing.B) {
			for b.Loop() {
				if err := w.InitAgentGit(b.Context(), History{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAgentHistory measures what the .git of an agent costs with a history
// of 50 commits, as a ratio to git clone --depth 50 of the same repository
// without a checkout: at a run's first agent, and at those after it.
func BenchmarkAgentHistory(b *testing.B) {
	dir := layered(b, 3000, 3000)
	mustGit(b, dir, "repack", "-adq")
	r := open(b, dir)
	w := export(b, r)
	h := historyOf(b, r, 50)
	base := b.TempDir()
	var first, next, clone time.Duration
	timed := func(total *time.Duration, do func() error) {
		began := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		*total += time.Since(began)
	}
	n := 0
	for b.Loop() {
		if err := RemoveAll(w.index + ".agent"); err != nil {
			b.Fatal(err)
		}
		timed(&first, func() error { return w.InitAgentGit(b.Context(), h) })
		timed(&next, func() error { return w.InitAgentGit(b.Context(), h) })
		to := filepath.Join(base, fmt.Sprint(n))
		timed(&clone, func() error {
			mustGit(b, dir, "clone", "-q", "--no-checkout", "--depth=50", "file://"+dir, to)
			return nil
		})
		n++
	}
	b.ReportMetric(float64(first.Microseconds())/float64(n), "first-us/op")
	b.ReportMetric(float64(next.Microseconds())/float64(n), "next-us/op")
	b.ReportMetric(float64(clone.Microseconds())/float64(n), "clone-us/op")
	b.ReportMetric(float64(first)/float64(clone), "first-ratio")
	b.ReportMetric(float64(next)/float64(clone), "next-ratio")
	b.ReportMetric(0, "ns/op") // of all together: no use
}
