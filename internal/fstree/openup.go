package fstree

import (
	"context"
	"os"
)

// OpenUp gives the owner access to everything below dir, as far down as anything
// is read. No link leads out of it.
func OpenUp(ctx context.Context, dir string) error {
	// The command owns the directory itself, too.
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if info.IsDir() && info.Mode()&0o700 != 0o700 {
		if err := os.Chmod(dir, 0o700); err != nil { // #nosec G302 -- a directory
			return err
		}
	}
	return Walk(ctx, dir, func(e Entry) error {
		var want uint32
		switch {
		case e.IsDir():
			want = 0o700
		case e.IsRegular():
			want = 0o400
		}
		if e.Perm()&want == want {
			return nil
		}
		return ChmodAt(e.Dir, e.Name, e.Perm()|want)
	})
}
