package ghsim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/proc"
)

// TestLooseIsWhatGitSays: what is done here without git comes to what git comes to, over
// histories with and without merges.
func TestLooseIsWhatGitSays(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path, err := proc.Look("git")
	if err != nil {
		t.Fatal(err)
	}
	g, err := initStore(ctx, path, filepath.Join(t.TempDir(), "r.git"), "main")
	if err != nil {
		t.Fatal(err)
	}
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := g.run(ctx, nil, nil, args...)
		if err != nil && !strings.Contains(err.Error(), "exit status 1") {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	dice := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- the same each time
	names := []string{"a", "a/b", "a.txt", "a-b/c", "a0/d", "d/e/f", "d/e/g/h", "d/e.x", "é"}
	var all []string
	oldRef := zeroOID
	for n := range 60 {
		blobs, err := g.writeBlobs(fmt.Append(nil, n), fmt.Append(nil, -n))
		fatal(err)
		parents, base := []string{}, ""
		if n > 0 {
			parents = append(parents, all[n-1-dice.IntN(min(n, 3))])
			base = parents[0]
		}
		if other := n - 4; other > 0 && n%9 == 0 && all[other] != base {
			parents = append(parents, all[other])
		}
		changes := []change{
			{Mode: "100644", OID: blobs[0], Path: names[dice.IntN(len(names))]},
			{Path: names[dice.IntN(len(names))]},
		}
		if changes[0].Path == changes[1].Path {
			changes = changes[:1]
		}
		tree, ok, err := g.writeLooseTree(ctx, base, changes)
		if err != nil || !ok {
			t.Fatalf("tree %d: %v, %v", n, ok, err)
		}
		if want := gitTree(t, g, base, changes); tree != want {
			t.Fatalf("tree %d of %v is not git's:\n%s\n---\n%s", n, changes,
				run("ls-tree", "-r", tree), run("ls-tree", "-r", want))
		}
		who := person{Name: "Walt", Email: "walt@example.com", When: time.Unix(int64(n), 0)}
		oid, err := g.writeCommit(commitObject{Tree: tree, Parents: parents, Author: who, Committer: who, Message: "m"})
		fatal(err)
		all = append(all, oid)
		ok, err = g.moveLooseRef("refs/heads/deep/main", oid, oldRef)
		if oldRef = oid; !ok || err != nil || run("rev-parse", "refs/heads/deep/main") != oid {
			t.Fatalf("ref %d: %v, %v", n, ok, err)
		}
		files, ok, err := g.files(ctx, oid)
		if !ok || err != nil {
			t.Fatalf("files %d: %v, %v", n, ok, err)
		}
		listed := strings.Join(slices.Sorted(maps.Keys(files)), "\n")
		if diff := cmp.Diff(run("-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", oid), listed); diff != "" {
			t.Error(diff)
		}
	}
	lines := 0
	for range 400 {
		a, b := all[dice.IntN(len(all))], all[dice.IntN(len(all))]
		commits, ok, err := g.line(ctx, a, 7, b)
		fatal(err)
		if ok {
			var oids []string
			for _, c := range commits {
				oids = append(oids, c.OID)
			}
			lines += len(oids)
			want := run("rev-list", "--topo-order", "--max-count=7", a, "^"+b)
			if diff := cmp.Diff(want, strings.Join(oids, "\n")); diff != "" {
				t.Errorf("log (-git +here):\n%s", diff)
			}
		}
		straight, err := g.isAncestor(ctx, a, b)
		fatal(err)
		common, err := g.mergeBase(ctx, a, b)
		fatal(err)
		if bases := run("merge-base", "--all", a, b); !slices.Contains(strings.Fields(bases), common) {
			t.Errorf("merge base %s, git says %s", common, bases)
		} else if straight != (a == bases) {
			t.Errorf("%s is an ancestor of %s: %v", a, b, straight)
		}
	}
	if lines == 0 {
		t.Error("no history was without a merge")
	}
	for name, c := range map[string][3]string{
		"not there":   {"refs/heads/other", all[0], all[1]},
		"elsewhere":   {"refs/heads/deep/main", all[0], all[1]},
		"below a ref": {"refs/heads/deep/main/more", all[0], zeroOID},
		"no object":   {"refs/heads/new", strings.Repeat("1", 40), zeroOID},
	} {
		if ok, err := g.moveLooseRef(c[0], c[1], c[2]); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
		if err := g.updateRef(ctx, c[0], c[1], c[2]); err == nil {
			t.Errorf("%s: the ref was moved", name)
		}
	}
}

// gitTree has git apply the changes.
func gitTree(t *testing.T, g *gitStore, base string, changes []change) string {
	t.Helper()
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(t.TempDir(), "index")}
	step := func(stdin string, args ...string) string {
		out, err := g.run(t.Context(), []byte(stdin), env, args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if base != "" {
		step("", "read-tree", base)
	}
	var list strings.Builder
	for _, c := range slices.Backward(changes) {
		if c.OID == "" {
			list.WriteString("0 " + zeroOID + "\t" + c.Path + "\x00")
			continue
		}
		list.WriteString(c.Mode + " " + c.OID + "\t" + c.Path + "\x00")
	}
	step(list.String(), "update-index", "-z", "--index-info")
	return step("", "write-tree")
}
