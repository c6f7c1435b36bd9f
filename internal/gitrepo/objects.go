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
	"time"
)

// The kinds of objects.
const (
	kindBlob   = "blob"
	kindTree   = "tree"
	kindCommit = "commit"
)

// incoming begins the names of files that are being stored.
const incoming = "incoming-"

// maxTree bounds trees that are read into memory.
const maxTree = 64 << 20

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
	// lfs is the directory of the contents that Git LFS keeps, "" for none.
	lfs string

	reader, hasher, trees, differ *helper
}

func newStore(g *Git, view, objects string) store {
	s := store{git: g, view: view, objects: objects, env: []string{"GIT_DIR=" + view, "GIT_OBJECT_DIRECTORY=" + objects}}
	start := func(dir string, args ...string) *helper {
		return &helper{git: g, call: call{args: args, env: s.env, dir: dir}}
	}
	s.reader = start("", "cat-file", "--batch-command")
	s.hasher = start(view, "hash-object", "-w", "--no-filters", "--stdin-paths")
	s.trees = start("", "mktree", "--missing", "--batch", "-z")
	s.differ = start("", "diff-tree", "--stdin", "-r", "--raw", "-z", "--no-abbrev", "--no-renames",
		"--ignore-submodules=none")
	return s
}

// call runs git on the objects, without anyone's configuration.
func (s *store) call(ctx context.Context, c call) ([]byte, error) {
	c.env = append(c.env, s.env...)
	return s.git.run(ctx, c)
}

// makeBare makes a bare repository with nothing but a configuration of ours, and takes away
// what a process that died was about to store in one.
func makeBare(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, incoming+"*"))
	if err != nil {
		return err
	}
	for _, file := range left { // another process may be at work: what it stores is young
		if info, err := os.Lstat(file); err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(file)
		}
	}
	for _, sub := range []string{"objects/info", "refs", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	const config = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n[uploadpack]\n\tallowAnySHA1InWant = true\n"
	// HEAD comes last: git takes the directory for a git dir from then on.
	return errors.Join(ensureFile(filepath.Join(dir, "config"), config),
		ensureFile(filepath.Join(dir, "HEAD"), "ref: refs/heads/work\n"))
}

// borrow makes a bare repository that borrows the objects of a directory. What commits of it
// have no parents there is said in the file shallow of a git dir, as in the one that is made.
func borrow(dir, objects, gitDir string) error {
	if err := makeBare(dir); err != nil {
		return err
	}
	return errors.Join(ensureCopy(filepath.Join(dir, "shallow"), filepath.Join(gitDir, "shallow")),
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

// ensureCopy gives a file of the host's own what another one has; one that is not there has nothing.
func ensureCopy(path, from string) error {
	content, err := os.ReadFile(from) // #nosec G304 -- of a git dir of ours, or the person's own
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return ensureFile(path, string(content))
}

// replaceFile writes a file of the host's own so that it appears whole.
func replaceFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// find looks for the object of the kind that a name stands for: that of an object, or one that
// git derives from it. do gets its content; nil asks for none. ErrNotFound where there is none.
func (s *store) find(ctx context.Context, kind, name string, do func(r io.Reader, size int64) error) (OID, error) {
	command := "info "
	if do != nil {
		command = "contents "
	}
	var oid OID
	var found string
	var failed error
	err := s.reader.ask(ctx, []byte(command+name+"\n"), func(r *bufio.Reader) error {
		line, err := r.ReadString('\n')
		if err != nil || strings.HasSuffix(line, " missing\n") {
			return err
		}
		f := strings.Fields(line)
		if len(f) != 3 || !OID(f[0]).Valid() {
			return fmt.Errorf("answered %s", quote(line))
		}
		oid, found = OID(f[0]), f[1]
		size, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil || do == nil {
			return err
		}
		content := &io.LimitedReader{R: r, N: size}
		if found == kind {
			failed = do(content, size)
		}
		// What was left, and the line feed after the content.
		_, err = io.CopyN(io.Discard, r, content.N+1)
		return err
	})
	if err == nil && found != kind {
		err = fmt.Errorf("%s %s: %w", kind, quote(name), ErrNotFound)
	}
	return oid, errors.Join(err, failed)
}

// read returns an object of the kind and of at most limit bytes; see find.
func (s *store) read(ctx context.Context, kind, name string, limit int64) (data []byte, err error) {
	_, err = s.find(ctx, kind, name, func(r io.Reader, size int64) error {
		if size > limit {
			return fmt.Errorf("object %s of %d bytes: %w", name, size, ErrTooLarge)
		}
		data = make([]byte, size)
		_, err := io.ReadFull(r, data)
		return err
	})
	return data, err
}

// writeBlob stores a blob of so many bytes. It goes through a file of our own, so that git
// opens nothing of an agent's and nothing is held in memory.
func (s *store) writeBlob(ctx context.Context, r io.Reader, size int64) (oid OID, err error) {
	f, err := os.CreateTemp(s.view, incoming)
	if err != nil {
		return "", fmt.Errorf("write blob: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = io.CopyN(f, r, size)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("write blob: %w", err)
	}
	return writeWith(ctx, s.hasher, []byte(filepath.Base(f.Name())+"\n"))
}

// writeWith has a helper store one object.
func writeWith(ctx context.Context, h *helper, question []byte) (oid OID, err error) {
	err = h.ask(ctx, question, func(r *bufio.Reader) error {
		line, err := r.ReadString('\n')
		if err == nil {
			oid, err = parseOID(strings.TrimSuffix(line, "\n"))
		}
		return err
	})
	return oid, err
}

// WriteBlob stores data and returns its name.
func (s *store) WriteBlob(ctx context.Context, data []byte) (OID, error) {
	return s.writeBlob(ctx, bytes.NewReader(data), int64(len(data)))
}

// Blob returns the content of a blob of at most limit bytes.
func (s *store) Blob(ctx context.Context, oid OID, limit int64) ([]byte, error) {
	if !oid.Valid() {
		return nil, fmt.Errorf("blob %s: %w", quote(string(oid)), ErrNotFound)
	}
	return s.read(ctx, kindBlob, string(oid), limit)
}
