package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/fstree"
)

// What .gitignore and .gitattributes files say of a path is for git to tell. It does not run
// on the agent's directory: it gets a work tree of the host's own, with copies of these files
// and empty directories, and is asked by name. How much there may be of the files, and how
// long git may compare, is bounded.

const (
	// maxIgnoreSize and maxIgnoreRules bound one file of rules, in bytes and lines.
	maxIgnoreSize  = 256 << 10
	maxIgnoreRules = 5000
	// maxIgnoreTree bounds the files of a tree together, in bytes.
	maxIgnoreTree = 4 << 20
	// DefaultMaxRuleTime bounds what git compares in one walk: patterns can be written for
	// which it does not end.
	DefaultMaxRuleTime = time.Minute
)

// The files of rules.
const (
	ignoreFile     = ".gitignore"
	attributesFile = ".gitattributes"
)

var errSlowRules = tooMuchError("the rules of .gitignore and .gitattributes files take too long to compare")

// ruleFiles are those of one walk.
type ruleFiles struct {
	repo *Repo
	// dir is the work tree of copies.
	dir string
	// bytes is how much was copied.
	bytes int64
	// ignore and attributes: there are such rules.
	ignore, attributes bool
	asker              *helper
	// left is how long git may compare yet.
	left time.Duration
}

func (w *Worktree) newRules() (*ruleFiles, error) {
	r := &ruleFiles{repo: w.repo, dir: w.index + ".rules", ignore: w.repo.top != "", left: w.MaxRuleTime}
	r.asker = &helper{git: r.repo.git, call: r.call("check-ignore", "-z", "--stdin", "--no-index", "-v", "-n")}
	return r, fstree.RemoveAll(r.dir) // of a process that died
}

// close takes the copies away.
func (r *ruleFiles) close() error {
	r.asker.mu.Lock()
	r.asker.end()
	r.asker.mu.Unlock()
	return fstree.RemoveAll(r.dir)
}

// compare has git compare, and counts how long it does: a slow disk is no fault of the rules.
func (r *ruleFiles) compare(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.left, errSlowRules)
	defer cancel()
	began := time.Now()
	err := do(ctx)
	r.left -= time.Since(began)
	return err
}

// call is git in the work tree of copies, with the person's own ignore rules.
func (r *ruleFiles) call(args ...string) call {
	return call{
		args: args, dir: r.dir, config: []string{"core.excludesFile=" + r.repo.excludes},
		env: append([]string{"GIT_WORK_TREE=" + r.dir}, r.repo.env...),
	}
}

// follow copies a directory's file of rules. None, or one that is not a regular file, has no
// rules, as with git. A tooMuchError is for the whole walk, another error for this file.
func (r *ruleFiles) follow(dir *os.File, prefix, name string) error {
	info, err := lstatAt(dir, name)
	if err != nil || !info.isRegular() || len(prefix) > maxPathLength {
		return nil //nolint:nilerr // there is none
	}
	f, err := openFileAt(dir, name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxIgnoreSize+1))
	if err != nil {
		return err
	}
	if len(data) > maxIgnoreSize {
		return fmt.Errorf("more than %d bytes", maxIgnoreSize)
	}
	if r.bytes += int64(len(data)); r.bytes > maxIgnoreTree {
		return tooMuchError(fmt.Sprintf("more than %d MiB of %s and %s files", maxIgnoreTree>>20, ignoreFile, attributesFile))
	}
	if bytes.Count(data, []byte("\n")) > maxIgnoreRules {
		return fmt.Errorf("more than %d rules", maxIgnoreRules)
	}
	r.ignore, r.attributes = r.ignore || name == ignoreFile, r.attributes || name == attributesFile
	to := filepath.Join(r.dir, prefix)
	return errors.Join(os.MkdirAll(to, 0o700), os.WriteFile(filepath.Join(to, name), data, 0o600))
}

// ignores says which of these untracked paths are ignored. Those of
// directories end in a slash. A path that a rule with "!" takes back in is false, and one that
// no rule speaks of is missing.
func (r *ruleFiles) ignores(ctx context.Context, paths []string) (map[string]bool, error) {
	ignored := map[string]bool{}
	if !r.ignore || len(paths) == 0 {
		return ignored, nil
	}
	var question bytes.Buffer
	made := ""
	for _, p := range paths {
		// A rule may be for directories alone.
		if dir := filepath.Join(r.dir, p[:strings.LastIndexByte(p, '/')+1]); dir != made {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, err
			}
			made = dir
		}
		question.WriteString("./" + strings.TrimSuffix(p, "/") + "\x00") // a colon at the start has a meaning
	}
	receive := func(in *bufio.Reader) error {
		for _, p := range paths {
			var answer [4]string // source, line, pattern and path
			for i := range answer {
				field, err := in.ReadString(0)
				if err != nil {
					return err
				}
				answer[i] = strings.TrimSuffix(field, "\x00")
			}
			if answer[2] != "" {
				ignored[p] = !strings.HasPrefix(answer[2], "!")
			}
		}
		return nil
	}
	err := r.compare(ctx, func(ctx context.Context) error { return r.asker.ask(ctx, question.Bytes(), receive) })
	return ignored, err
}

// attributesOf gives the attributes of files that change what git stores of them.
func (r *ruleFiles) attributesOf(ctx context.Context, paths []string) (map[string]attributes, error) {
	if !r.attributes || len(paths) == 0 {
		return nil, nil
	}
	all := map[string]attributes{}
	for some := range slices.Chunk(paths, maxFresh) { // what git answers is bounded
		c := r.call("check-attr", "-z", "--stdin", "filter", "crlf", "text", "eol")
		c.stdin = strings.NewReader(strings.Join(some, "\x00") + "\x00")
		var out []byte
		err := r.compare(ctx, func(ctx context.Context) (err error) {
			out, err = r.repo.git.run(ctx, c)
			return err
		})
		if err != nil {
			return nil, err
		}
		take(all, string(out))
	}
	return all, nil
}

// take adds what check-attr answered.
func take(all map[string]attributes, out string) {
	for f := range slices.Chunk(strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), 3) {
		path, value := f[0], f[len(f)-1]
		a := all[path]
		switch {
		case value == "unspecified":
			continue
		case f[1] == "filter":
			a.lfs = value == "lfs"
		case f[1] == "eol":
			a.eol = true
		default: // "crlf" is what "text" was called, which goes before
			a.text = value
		}
		all[path] = a
	}
}

// attributes say what git makes of a file when it is added.
type attributes struct {
	// lfs: its content is kept in Git LFS. Other filters are not run, and do nothing.
	lfs bool
	// text is set, unset, auto, input or "".
	text string
	// eol: its line ends are given.
	eol bool
}

// stored is what git stores of a file with this content, where the tree has old so far: line
// ends are line feeds in what is text.
func (a attributes) stored(content, old []byte) []byte {
	crlf := []byte("\r\n")
	switch {
	case a.text == "set", a.text == "input", a.text == "" && a.eol:
	case a.text != "auto", bytes.IndexByte(content, 0) >= 0, bytes.Contains(old, crlf),
		bytes.Count(content, []byte("\r")) != bytes.Count(content, crlf):
		return content
	}
	return bytes.ReplaceAll(content, crlf, []byte("\n"))
}
