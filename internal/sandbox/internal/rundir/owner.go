package rundir

import (
	"context"
	"os"
	"syscall"

	"github.com/org/ralph-action/internal/fstree"
)

// Own gives dir and everything below it to a user. Links are changed themselves,
// never followed. It is fast where nothing is to change, and hears a cancel.
func Own(ctx context.Context, dir string, uid, gid int) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != uid || int(st.Gid) != gid {
		if err := os.Lchown(dir, uid, gid); err != nil {
			return err
		}
	}
	return fstree.Walk(ctx, dir, func(e fstree.Entry) error {
		if int(e.Stat.Uid) == uid && int(e.Stat.Gid) == gid {
			return nil
		}
		return fstree.ChownAt(e.Dir, e.Name, uid, gid)
	})
}
