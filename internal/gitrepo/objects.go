package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
)

// The kinds of objects.
const (
	kindBlob   = "blob"
	kindTree   = "tree"
	kindCommit = "commit"
)

// maxTree and maxCommit bound trees and commits that are read into memory.
const (
	maxTree   = 64 << 20
	maxCommit = 4 << 20
)

// store is where objects are read and written, through helpers that work in a git dir of
// our own.
type store struct {
	git *Git
	// view is a bare repository with a configuration of ours: the repository itself where
	// that is ours, else one that borrows its objects. env is the way there.
	view string
	env  []string
	// objects is the directory that takes what is written.
	objects string
	// held is about how many bytes a fork takes on disk; nil where nobody counts.
	held *atomic.Int64
	// lfs is the directory of the contents that Git LFS keeps, "" for none.
	lfs string

	reader, hasher, trees, differ *helper
}

func newStore(g *Git, view, objects string) store {
	s := store{git: g, view: view, objects: objects, env: []string{"GIT_DIR=" + view, "GIT_OBJECT_DIRECTORY=" + objects}}
	make := func(dir string, args ...string) *helper {
		return &helper{git: g, call: call{args: args, env: s.env, dir: dir}}
	}
	s.reader = make("", "cat-file", "--batch-command", "-z")
	s.hasher = make(view, "hash-object", "-w", "--no-filters", "--stdin-paths")
	s.trees = make("", "mktree", "--missing", "--batch", "-z")
	s.differ = make("", "diff-tree", "--stdin", "-r", "--raw", "-z", "--no-abbrev", "--no-renames",
		"--ignore-submodules=none")
	return s
}

// call runs git on the objects, without anyone's configuration.
func (s *store) call(ctx context.Context, c call) ([]byte, error) {
	c.env = append(c.env, s.env...)
	return s.git.run(ctx, c)
}

// makeBare makes a bare repository with nothing but a configuration of ours.
func makeBare(dir string) error {
	for _, sub := range []string{"objects/info", "refs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	const config = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n[uploadpack]\n\tallowAnySHA1InWant = true\n"
	// HEAD comes last: git takes the directory for a git dir from then on.
	return errors.Join(ensureFile(filepath.Join(dir, "config"), config),
		ensureFile(filepath.Join(dir, "HEAD"), "ref: refs/heads/work\n"))
}

// borrow makes a bare repository that borrows the objects of a directory. shallow lists
// the commits among them whose parents are not there.
func borrow(dir, objects string, shallow []byte) error {
	if err := makeBare(dir); err != nil {
		return err
	}
	return errors.Join(ensureFile(filepath.Join(dir, "shallow"), string(shallow)),
		ensureFile(filepath.Join(dir, "objects/info/alternates"), quoteC(objects)+"\n"))
}

// quoteC quotes a path as git's own files have it. Git takes all bytes as they are but these,
// and knows no escape of Go's for others.
func quoteC(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// ensureFile gives a file of the host's own that content.
func ensureFile(path, content string) error {
	old, err := os.ReadFile(path) // #nosec G304 -- the host's own file
	if err == nil && string(old) == content || errors.Is(err, fs.ErrNotExist) && content == "" {
		return nil
	}
	return replaceFile(path, []byte(content))
}

// read returns an object of the kind and of at most limit bytes. The name is that of an
// object, or one that git derives from it. ErrNotFound where there is none.
func (s *store) read(ctx context.Context, kind, name string, limit int64) (data []byte, err error) {
	o, err := s.find(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	if o.size > limit {
		return nil, fmt.Errorf("object %s of %d bytes: %w", name, o.size, ErrTooLarge)
	}
	err = s.contents(ctx, name, func(r io.Reader, size int64) error {
		data = make([]byte, size)
		_, err := io.ReadFull(r, data)
		return err
	})
	return data, err
}

// derive is the name of the object of the kind that a name stands for. ErrNotFound where
// there is none.
func (s *store) derive(ctx context.Context, kind, name string) (OID, error) {
	o, err := s.find(ctx, kind, name)
	return o.oid, err
}

// object is what git says of one.
type object struct {
	oid  OID
	kind string
	size int64
}

// find looks for an object of the kind.
func (s *store) find(ctx context.Context, kind, name string) (o object, err error) {
	err = s.reader.ask(ctx, func(w io.Writer) error {
		_, err := io.WriteString(w, "info "+name+"\x00")
		return err
	}, func(r *bufio.Reader) error {
		o, err = readObject(r, name)
		return err
	})
	if err == nil && o.kind != kind {
		err = fmt.Errorf("%s %s: %w", kind, quote(name), ErrNotFound)
	}
	return o, err
}

// contents hands over the content of an object that is there.
func (s *store) contents(ctx context.Context, name string, do func(r io.Reader, size int64) error) error {
	var failed error
	err := s.reader.ask(ctx, func(w io.Writer) error {
		_, err := io.WriteString(w, "contents "+name+"\x00")
		return err
	}, func(r *bufio.Reader) error {
		o, err := readObject(r, name)
		if err != nil || o.kind == "" {
			return errors.Join(err, fmt.Errorf("object %s is gone", quote(name)))
		}
		content := &io.LimitedReader{R: r, N: o.size}
		if failed = do(content, o.size); failed != nil {
			return failed
		}
		// What was left, and the line feed after the content.
		_, err = io.CopyN(io.Discard, r, content.N+1)
		return err
	})
	if failed != nil {
		return failed
	}
	return err
}

// readObject reads what git cat-file says before the content: no kind where there is no
// such object.
func readObject(r *bufio.Reader, name string) (o object, err error) {
	header := ""
	// The answer "… missing" repeats the name, which may hold line feeds.
	for header == "" || len(header) <= len(name) && strings.HasPrefix(name, header) {
		line, err := r.ReadString('\n')
		if err != nil {
			return o, err
		}
		header += line
	}
	header = strings.TrimSuffix(header, "\n")
	if rest, asked := strings.CutPrefix(header, name+" "); asked && (rest == "missing" || rest == "ambiguous") {
		return o, nil
	}
	fields := strings.Fields(header)
	if len(fields) == 3 && OID(fields[0]).Valid() {
		if size, err := strconv.ParseInt(fields[2], 10, 64); err == nil && size >= 0 {
			return object{OID(fields[0]), fields[1], size}, nil
		}
	}
	return o, fmt.Errorf("answered %s", quote(header))
}

// writeBlob stores a blob of so many bytes. It goes through a file of our own, so that git
// opens nothing of an agent's and nothing is held in memory.
func (s *store) writeBlob(ctx context.Context, r io.Reader, size int64) (oid OID, err error) {
	f, err := os.CreateTemp(s.view, "incoming-")
	if err != nil {
		return "", fmt.Errorf("write blob: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = io.CopyN(f, r, size)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("write blob: %w", err)
	}
	oid, err = s.writeWith(ctx, s.hasher, []byte(filepath.Base(f.Name())+"\n"))
	if err == nil && s.held != nil {
		s.held.Add(max(size, block))
	}
	return oid, err
}

// writeWith has a helper store one object.
func (s *store) writeWith(ctx context.Context, h *helper, question []byte) (oid OID, err error) {
	err = h.ask(ctx, func(w io.Writer) error {
		_, err := w.Write(question)
		return err
	}, func(r *bufio.Reader) error {
		line, err := r.ReadString('\n')
		if err == nil {
			oid, err = ParseOID(strings.TrimSuffix(line, "\n"))
		}
		return err
	})
	return oid, err
}

// writeTree stores a tree of these items, in whatever order.
func (s *store) writeTree(ctx context.Context, items []treeItem) (OID, error) {
	var b bytes.Buffer
	for _, i := range items {
		kind := kindBlob
		switch {
		case i.isDir():
			kind = kindTree
		case i.mode == ModeSubmodule:
			kind = kindCommit
		}
		fmt.Fprintf(&b, "%o %s %s\t%s\x00", i.mode, kind, i.oid, i.name)
	}
	b.WriteByte(0) // an empty line ends a tree
	oid, err := s.writeWith(ctx, s.trees, b.Bytes())
	if err == nil && s.held != nil {
		s.held.Add(max(int64(b.Len()), block))
	}
	return oid, err
}
