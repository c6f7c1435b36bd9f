package gitrepo

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTar(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustGit(t, dir, "init")
	for name, content := range map[string]string{
		"README": "top\n", "app/main": "#!/bin/sh\n", "app/sub/data": "data\n", "app/left": "out\n", "apple": "not app\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "app/main"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../README", filepath.Join(dir, "app/link")); err != nil {
		t.Fatal(err)
	}
	mustGit(t, dir, "add", "-A")
	mustGit(t, dir, "commit", "-m", "one")
	git, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	repo, err := git.OpenLocal(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	_, head, err := repo.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write := func(folder string, limit int64) (string, error) {
		var b bytes.Buffer
		err := repo.Tar(t.Context(), &b, head, folder, func(path string) bool { return path != "left" }, limit)
		return b.String(), err
	}
	first, err := write("app", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for r := tar.NewReader(bytes.NewBufferString(first)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = fmt.Sprintf("%c %o %s%s", h.Typeflag, h.Mode, h.Linkname, content)
	}
	want := map[string]string{"main": "0 755 #!/bin/sh\n", "sub/data": "0 644 data\n", "link": "2 644 ../README"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if again, err := write("app", 1<<20); err != nil || again != first {
		t.Errorf("the same content gives other bytes, %v", err)
	}
	if _, err := write("app", 10); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more than the limit: %v", err)
	}
	if _, err := write("nowhere", 1<<20); !errors.Is(err, ErrNotFound) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
