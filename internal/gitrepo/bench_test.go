package gitrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
			dir, other := benchRepo(b, n), benchRepo(b, n)
			r := open(b, dir)
			w := export(b, r)
			tree := headTree(b, r)
			_, head, err := r.Head(ctx)
			if err != nil {
				b.Fatal(err)
			}
			c := newContest(b)
			for i := 0; b.Loop(); i++ {
				edit(b, w.Dir(), i)
				c.ours(func() error {
					s, err := w.Snapshot(ctx)
					if err != nil {
						return err
					}
					commit, err := r.CommitTree(ctx, CommitSpec{
						Tree: s.Tree, Parents: []OID{head}, Message: "m", Author: ann(), When: testTime(),
					})
					if err != nil {
						return err
					}
					if err := r.UpdateRef(ctx, "refs/heads/main", commit, head); err != nil {
						return err
					}
					was := tree
					head, tree = commit, s.Tree
					return r.AdvanceCheckout(ctx, was, tree)
				})
				edit(b, other, i)
				c.bare(func() error {
					bareCommit(b, other)
					return nil
				})
			}
			c.report()
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

// BenchmarkMerge3 is what folding costs, beside git merge-tree and git commit-tree in a
// shell. Bar: at most 2 times that.
func BenchmarkMerge3(b *testing.B) {
	for _, n := range benchSizes() {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			dir := benchRepo(b, n)
			r := open(b, dir)
			base := headTree(b, r)
			_, head, err := r.Head(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			side := func(path string, i int) OID {
				tree, err := r.TreeWith(b.Context(), base, []TreeEdit{{Path: path, Data: fmt.Append(nil, i)}})
				if err != nil {
					b.Fatal(err)
				}
				return tree
			}
			commit := func(tree OID) OID {
				oid, err := r.CommitTree(b.Context(), CommitSpec{
					Tree: tree, Parents: []OID{head}, Message: "m", Author: ann(), When: testTime(),
				})
				if err != nil {
					b.Fatal(err)
				}
				return oid
			}
			c := newContest(b)
			for i := 0; b.Loop(); i++ {
				ours, theirs := side("ours", i), side("theirs", i)
				c.ours(func() error {
					m, err := r.Merge3(b.Context(), base, ours, theirs)
					if err == nil {
						commit(m.Tree)
					}
					return err
				})
				one, other := commit(ours), commit(theirs)
				c.bare(func() error {
					_, err := proc.Run(b.Context(), proc.Cmd{
						Path: "/bin/sh", Dir: dir,
						Args: []string{"-c", fmt.Sprintf("git commit-tree -m m -p %s $(git merge-tree --write-tree %[1]s %s)", one, other)},
						Env: proc.ScrubbedEnv("HOME=/nonexistent", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
							"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"),
					})
					return err
				})
			}
			c.report()
		})
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

// BenchmarkColdExport measures laying out 10,000 files in an empty directory, as
// a ratio to git clone --shared of the same repository. Bar: 1.2.
func BenchmarkColdExport(b *testing.B) {
	dir := benchRepo(b, 10_000)
	mustGit(b, dir, "repack", "-adq") // as a mirror is that was fetched
	r := open(b, dir)
	tree := headTree(b, r)
	base := b.TempDir()
	c := newContest(b)
	for i := 0; b.Loop(); i++ {
		to := filepath.Join(base, fmt.Sprint(i))
		c.ours(func() error {
			_, err := r.Export(b.Context(), to+".tree", tree, to+".index")
			return err
		})
		c.bare(func() error {
			mustGit(b, dir, "clone", "-q", "--shared", dir, to+".clone")
			return nil
		})
		for _, made := range []string{to + ".tree", to + ".clone"} {
			if err := RemoveAll(made); err != nil {
				b.Fatal(err)
			}
		}
	}
	c.report()
}

// BenchmarkNewFiles measures the snapshot of 30,000 new files, as a ratio to git
// add of the same files. Bar: 1.5.
func BenchmarkNewFiles(b *testing.B) {
	const n = 30_000
	c := newContest(b)
	for i := 0; b.Loop(); i++ {
		dir := benchRepo(b, 20)
		r := open(b, dir)
		w := export(b, r)
		for at, salt := range map[string]string{w.Dir(): "ours", dir: "bare"} {
			for j := range n {
				path := filepath.Join(at, fmt.Sprintf("new%d/s%d/f%d.go", j/1000, j/10, j))
				if j%10 == 0 {
					if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
						b.Fatal(err)
					}
				}
				if err := os.WriteFile(path, fmt.Appendf(nil, "package x\n\n// File %d of %s %d.\n", j, salt, i),
					0o600); err != nil {
					b.Fatal(err)
				}
			}
		}
		c.ours(func() error {
			_, err := w.Snapshot(b.Context())
			return err
		})
		c.bare(func() error {
			mustGit(b, dir, "add", "-A")
			return nil
		})
	}
	c.report()
}

// contest compares what we do with what git does, in turn in one run, since a
// machine is not equally fast all the time. Processor time is compared, too: a
// busy machine makes that no longer.
type contest struct {
	b          *testing.B
	us, others effort
}

// effort is what one side has cost.
type effort struct {
	n         int
	wall, cpu time.Duration
}

func newContest(b *testing.B) *contest {
	b.Helper()
	return &contest{b: b}
}

func (c *contest) ours(do func() error) { c.us.add(c.b, do) }
func (c *contest) bare(do func() error) { c.others.add(c.b, do) }

func (e *effort) add(b *testing.B, do func() error) {
	b.Helper()
	wall, cpu := time.Now(), cpuTime(b)
	if err := do(); err != nil {
		b.Fatal(err)
	}
	e.n++
	e.wall += time.Since(wall)
	e.cpu += cpuTime(b) - cpu
}

// cpuTime is what this process and the children it waited for have used.
func cpuTime(b *testing.B) (total time.Duration) {
	b.Helper()
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return total
}

func (c *contest) report() {
	c.b.ReportMetric(float64(c.us.wall.Microseconds())/float64(c.us.n), "ours-us/op")
	c.b.ReportMetric(float64(c.others.wall.Microseconds())/float64(c.others.n), "bare-us/op")
	c.b.ReportMetric(float64(c.us.wall)/float64(c.others.wall), "ratio")
	c.b.ReportMetric(float64(c.us.cpu)/float64(c.others.cpu), "cpu-ratio")
	c.b.ReportMetric(0, "ns/op") // of both together: no use
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
