package sandboxtest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/org/ralph-action/internal/fstree"
)

func testEnvironment(t *testing.T, f *fixture) {
	spec := f.sh(t, `env; echo "home: $(ls -A "$HOME" | wc -l)"; : >"$HOME/x" && : >"$TMPDIR/x" && echo writable`)
	spec.Env["GIVEN"] = "a b\n=c"
	spec.Env["LANG"] = "xx_YY"
	spec.PassEnv = []string{PlantedPass, "RALPH_TEST_UNSET"}
	for _, round := range []string{"first", "second"} {
		spec.RunDir = filepath.Join(t.TempDir(), round)
		st, out := f.do(t, spec)
		if st.ExitCode != 0 {
			t.Fatalf("exit %d: %s", st.ExitCode, st.Stderr)
		}
		if strings.Contains(out, Planted) {
			t.Error("a variable of the host is visible")
		}
		if got := strings.Contains(out, PlantedPass+"=planted"); got != f.PassesEnv {
			t.Errorf("the variable named in PassEnv is visible: %v, want %v", got, f.PassesEnv)
		}
		if strings.Contains(out, "RALPH_TEST_UNSET") {
			t.Error("a variable that the host has not is set")
		}
		for _, want := range []string{
			"GIVEN=a b\n=c\n", "LANG=xx_YY\n", "TERM=dumb\n", "HOME=/", "TMPDIR=/", "PATH=/", "writable\n",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in %q", want, out)
			}
		}
		if _, count, _ := strings.Cut(out, "home: "); !strings.HasPrefix(strings.TrimSpace(count), "0") {
			t.Errorf("the home is not fresh: %q", count)
		}
	}
}

// testCache: what one start leaves in its cache the next one finds, if it is
// given the same; tools are led there unless the caller says otherwise.
func testCache(t *testing.T, f *fixture) {
	caches := []string{f.tree(t), f.tree(t)}
	run := func(cache, script string) string {
		spec := f.sh(t, script)
		spec.CacheDir, spec.Env["GOMODCACHE"] = cache, "/own"
		st, out := f.do(t, spec)
		if st.ExitCode != 0 {
			t.Errorf("exit %d: %s", st.ExitCode, st.Stderr)
		}
		return out
	}
	if out := run(caches[0],
		`[ "$GOCACHE" = "$RALPH_CACHE/go-build" ] && echo $GOMODCACHE; mkdir -p "$GOCACHE"; echo kept >"$GOCACHE/x"`); out != "/own\n" {
		t.Errorf("output %q", out)
	}
	if out := run(caches[0], `cat "$GOCACHE/x"`); out != "kept\n" {
		t.Errorf("the same cache holds %q", out)
	}
	if out := run(caches[1], `ls -A "$RALPH_CACHE"; ls "$GOCACHE" 2>/dev/null; true`); out != "given\n" {
		t.Errorf("another cache holds %q", out)
	}
	if out := run("", `echo "<$RALPH_CACHE$GOCACHE>"; ls -d /run/cache 2>/dev/null; true`); out != "<>\n" {
		t.Errorf("without a cache: %q", out)
	}
}

func testWorkTree(t *testing.T, f *fixture) {
	// What the host put in is writable for the command, at any depth.
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a/b/f"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := fileOwner(t, outside)
	if err := os.Symlink(outside, filepath.Join(dir, "a/link")); err != nil {
		t.Fatal(err)
	}
	if err := f.box.Prepare(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	spec := f.sh(t, `set -e; echo 2 >>a/b/f; mkdir new; echo 3 >new/g; echo 4 >new/closed; chmod 000 new/closed new`)
	spec.Workspace = dir
	if st, _ := f.do(t, spec); st.ExitCode != 0 {
		t.Fatalf("exit %d: %s", st.ExitCode, st.Stderr)
	}
	if err := fstree.OpenUp(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a/b/f": "12\n", "new/g": "3\n", "new/closed": "4\n"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(data) != want {
			t.Errorf("%s: %q, %v; want %q", name, data, err, want)
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode()&0o400 == 0 {
			t.Errorf("%s: mode %v, %v; its owner cannot read it", name, info.Mode(), err)
		}
	}
	if after := fileOwner(t, outside); after != before {
		t.Errorf("a link out of the tree was followed: its target belongs to %d, not %d", after, before)
	}

	// And again: what the command left is there in the next start.
	if err := f.box.Prepare(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	spec = f.sh(t, "cat new/g && echo 5 >>new/g")
	spec.Workspace = dir
	if st, out := f.do(t, spec); out != "3\n" || st.ExitCode != 0 {
		t.Errorf("second start: %q, exit %d: %s", out, st.ExitCode, st.Stderr)
	}
}

func fileOwner(t *testing.T, path string) uint32 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Uid
}
