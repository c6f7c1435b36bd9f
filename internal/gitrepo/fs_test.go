package gitrepo

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// A link that comes in the place of a file after somebody looked is not followed.
func TestOpenFileAtFollowsNoLink(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	files{"secret": "s", "link": "->secret"}.write(t, path)
	dir, err := openDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	if f, err := openFileAt(dir, "link"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("opened %v, %v", f, err)
	}
	f, err := openFileAt(dir, "secret")
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}
