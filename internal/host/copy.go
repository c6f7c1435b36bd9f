package host

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/org/ralph-action/internal/fstree"
)

// copiers bounds how many files are copied at once: each waits for the disk as often
// as for the processor.
const copiers = 4

// copyTree copies plain files, directories and links below from into the empty
// directory to. No link is followed, so that nothing outside is read; what is
// neither of the three has no place in a cache and is left out, as is what nests
// deeper than fstree.MaxDepth. Files share their content with the originals until one
// of them is written, where the file system can do that.
func copyTree(ctx context.Context, to, from string) error {
	src, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer func() { _ = dst.Close() }()
	type modes struct {
		path string
		mode fs.FileMode
	}
	var shut []modes // directories that are made read-only once they are full
	files, ctx := errgroup.WithContext(ctx)
	files.SetLimit(copiers)
	err = fstree.Walk(ctx, from, func(e fstree.Entry) error {
		switch {
		case e.IsDir():
			if err := dst.Mkdir(e.Path, 0o700); err != nil {
				return err
			}
			shut = append(shut, modes{e.Path, fs.FileMode(e.Perm()).Perm() | 0o500})
		case e.IsLink():
			target, err := src.Readlink(e.Path)
			if err != nil {
				return err
			}
			return dst.Symlink(target, e.Path)
		case e.IsRegular():
			files.Go(func() error { return copyPlain(dst, src, e.Path) })
		}
		return nil
	})
	err = errors.Join(files.Wait(), err)
	for _, m := range slices.Backward(shut) {
		err = errors.Join(err, dst.Chmod(m.path, m.mode))
	}
	return err
}

// copyPlain keeps the time, by which tools tell what is stale.
func copyPlain(dst, src *os.Root, path string) error {
	in, err := src.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := dst.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o400)
	if err != nil {
		return err
	}
	if err = clone(out, in); err != nil {
		_, err = io.Copy(out, in)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return dst.Chtimes(path, info.ModTime(), info.ModTime())
}
