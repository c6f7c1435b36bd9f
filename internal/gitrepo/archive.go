package gitrepo

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Tar writes the files below the folder dir of a commit or tree ("." for all)
// that pick takes by their paths in that folder, as a tar file. The same content
// gives the same bytes: order, times and owners are fixed. Submodules, and names
// that no work tree may hold, are left out. ErrNotFound where there is no such folder, ErrTooLarge where the files
// hold more than limit bytes together.
func (r *Repo) Tar(
	ctx context.Context, w io.Writer, treeish OID, dir string, pick func(path string) bool, limit int64,
) error {
	all, err := r.listTree(ctx, treeish)
	if err != nil {
		return fmt.Errorf("list %s: %w", quotePath(dir), err)
	}
	prefix := dir + "/"
	if dir == "." {
		prefix = ""
	}
	var files []entry
	found := prefix == ""
	for _, e := range all {
		path, below := strings.CutPrefix(e.path, prefix)
		found = found || below
		if below && e.mode != ModeSubmodule && cleanPath(e.path) == nil && pick(path) {
			files = append(files, entry{path: path, mode: e.mode, oid: e.oid})
		}
	}
	if !found {
		return fmt.Errorf("%s: %w", quotePath(dir), ErrNotFound)
	}
	out := tar.NewWriter(w)
	for chunk := range slices.Chunk(files, tarChunk) {
		if err := r.tarFiles(ctx, out, chunk, &limit); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write a tar file: %w", err)
	}
	return nil
}

// tarChunk is how many files are asked of git at a time.
const tarChunk = 1000

// tarFiles writes files in their order. The contents come in any.
func (r *Repo) tarFiles(ctx context.Context, out *tar.Writer, files []entry, limit *int64) error {
	oids := make([]OID, len(files))
	for i, f := range files {
		oids[i] = f.oid
	}
	contents := make([][]byte, len(files))
	err := r.readEach(ctx, oids, func(i int, size int64, blob io.Reader) (err error) {
		if *limit -= size; *limit < 0 {
			return ErrTooLarge
		}
		contents[i], err = io.ReadAll(blob)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the files: %w", err)
	}
	for i, f := range files {
		h := &tar.Header{
			Name: f.path, Mode: int64(permOf(f.mode)), Size: int64(len(contents[i])), Typeflag: tar.TypeReg,
			Format: tar.FormatPAX,
		}
		if f.mode == ModeSymlink {
			h.Typeflag, h.Linkname, h.Size, contents[i] = tar.TypeSymlink, string(contents[i]), 0, nil
		}
		if err := out.WriteHeader(h); err != nil {
			return fmt.Errorf("write a tar file: %w", err)
		}
		if _, err := out.Write(contents[i]); err != nil {
			return fmt.Errorf("write a tar file: %w", err)
		}
	}
	return nil
}
