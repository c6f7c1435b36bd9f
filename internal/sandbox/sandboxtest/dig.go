package sandboxtest

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/fstree"
)

// Dig nests directories below dir, deeper than any path can name, with a file
// at the bottom.
func Dig(dir string, depth int) error {
	d, err := os.Open(filepath.Clean(dir))
	for range depth {
		if err != nil {
			return err
		}
		d, err = deeper(d)
	}
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	fd, err := unix.Openat(int(d.Fd()), "bottom", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func deeper(parent *os.File) (*os.File, error) {
	defer func() { _ = parent.Close() }()
	if err := unix.Mkdirat(int(parent.Fd()), "d", 0o700); err != nil {
		return nil, err
	}
	return fstree.OpenDirAt(parent, "d")
}
