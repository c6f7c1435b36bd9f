package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/run"
)

// OpenLocal opens the repository whose work tree dir lies in, for the command
// line. The answers "no repository", "bare" and "no commit yet" are
// *run.UserError.
//
// The repository's own configuration stays in force for what is harmless in it
// (where refs are kept, sparse checkouts, line ends); hooks, monitors and
// filter drivers are off. So a file that a filter makes (Git LFS) is written as
// git stores it when a run changes it.
func (g *Git) OpenLocal(ctx context.Context, dir string) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	// This one call sees the person's own configuration, so that git's
	// ownership check decides by their safe.directory.
	out, err := g.run(ctx, call{
		args: []string{
			"rev-parse", "--path-format=absolute", "--is-bare-repository", "--show-object-format",
			"--git-dir", "--git-common-dir", "--git-path", "objects", "--show-toplevel",
		},
		dir:    dir,
		person: true,
	})
	if err != nil {
		return nil, localError(dir, string(out), err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 6 {
		return nil, fmt.Errorf("open repository %s: git rev-parse answered %d lines", quotePath(dir), len(lines))
	}
	format, err := algoByName(lines[1])
	if err != nil {
		return nil, fmt.Errorf("open repository %s: %w", quotePath(dir), err)
	}
	gitDir, common, objects, top := lines[2], lines[3], lines[4], lines[5]
	view, err := makeView(filepath.Join(common, "ralph-view"), format)
	if err != nil {
		return nil, fmt.Errorf("open repository %s: %w", quotePath(dir), err)
	}
	r := &Repo{
		store:  store{git: g, algo: format, objects: objects, view: view},
		gitDir: gitDir,
		top:    top,
	}
	if r.config, err = r.emptyFilters(ctx); err != nil {
		return nil, fmt.Errorf("open repository %s: %w", quotePath(dir), err)
	}
	if _, err := r.Resolve(ctx, "HEAD"); errors.Is(err, ErrNotFound) {
		return nil, &run.UserError{
			Message: quotePath(top) + " has no commit yet", Hint: "commit something first", Err: err,
		}
	} else if err != nil {
		return nil, fmt.Errorf("open repository %s: %w", quotePath(dir), err)
	}
	return r, nil
}

func localError(dir, out string, err error) error {
	said := stderrOf(err)
	switch {
	case strings.Contains(said, "not a git repository"):
		return &run.UserError{
			Message: quotePath(dir) + " is not in a git repository",
			Hint:    "go to your repository, or create one with git init and a first commit", Err: err,
		}
	case strings.Contains(said, "dubious ownership"):
		return &run.UserError{
			Message: "the repository of " + quotePath(dir) + " belongs to another user",
			Hint:    "if you trust it: git config --global --add safe.directory " + quotePath(dir), Err: err,
		}
	case strings.HasPrefix(out, "true\n") || strings.Contains(said, "must be run in a work tree"):
		return &run.UserError{
			Message: quotePath(dir) + " is a git dir or a bare repository",
			Hint:    "run in a checkout of it", Err: err,
		}
	default:
		return fmt.Errorf("open repository %s: %w", quotePath(dir), err)
	}
}

// makeView makes a git dir that holds nothing but a configuration of ours:
// through it git reads the person's objects without their configuration.
func makeView(dir string, a algo) (string, error) {
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if a.name != "sha1" {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = " + a.name + "\n"
	}
	// HEAD comes last: git takes the directory for a git dir from then on.
	for _, sub := range []string{"objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o750); err != nil {
			return "", err
		}
	}
	for _, f := range []struct{ name, content string }{
		{"config", config},
		{"HEAD", "ref: refs/heads/none\n"},
	} {
		path := filepath.Join(dir, f.name)
		if old, err := os.ReadFile(path); err == nil && string(old) == f.content { // #nosec G304 -- within the git dir
			continue
		}
		if err := replaceFile(path, []byte(f.content)); err != nil {
			return "", err
		}
	}
	return dir, nil
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

// emptyFilters returns the options that turn every filter driver of the
// repository's configuration into one that does nothing.
func (r *Repo) emptyFilters(ctx context.Context) ([]string, error) {
	out, err := r.refs(ctx, call{args: []string{"config", "-z", "--name-only", "--get-regexp", `^filter\.`}})
	if exitCode(err) == 1 {
		return nil, nil // none
	}
	if err != nil {
		return nil, err
	}
	var drivers []string
	for key := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if at := strings.LastIndexByte(key, '.'); at > 0 {
			drivers = append(drivers, key[:at])
		}
	}
	slices.Sort(drivers)
	var config []string
	for _, d := range slices.Compact(drivers) {
		if strings.Contains(d, "=") {
			return nil, &run.UserError{
				Message: "the repository configures a filter driver named " + quote(d),
				Hint:    "rename it: a name with an equals sign cannot be switched off",
			}
		}
		config = append(config, d+".clean=", d+".smudge=", d+".process=", d+".required=false")
	}
	return config, nil
}

// Top is the directory of the person's checkout; "" for a mirror.
func (r *Repo) Top() string { return r.top }

// CheckedOut says whether the branch is the one that is checked out. It reads
// the file HEAD and starts no process.
func (r *Repo) CheckedOut(branch string) (bool, error) {
	head, err := os.ReadFile(filepath.Join(r.gitDir, "HEAD"))
	if err != nil {
		return false, fmt.Errorf("read HEAD: %w", err)
	}
	return strings.TrimSpace(string(head)) == "ref: "+branchRef(branch), nil
}

// Identity returns the name and email that the person's own git would commit
// with.
func (r *Repo) Identity(ctx context.Context) (name, email string, err error) {
	var env []string
	for _, key := range []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "EMAIL"} {
		if v, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+v)
		}
	}
	out, err := r.refs(ctx, call{args: []string{"var", "GIT_AUTHOR_IDENT"}, env: env, person: true})
	if exitCode(err) == 128 {
		return "", "", &run.UserError{
			Message: "git does not know who you are",
			Hint:    `set it with git config --global user.name "…" and git config --global user.email "…"`, Err: err,
		}
	}
	if err != nil {
		return "", "", fmt.Errorf("identity: %w", err)
	}
	who, _ := parseSignature(strings.TrimSpace(string(out)))
	return who.Name, who.Email, nil
}

// Dirty lists the tracked files whose content in the person's checkout or
// index differs from HEAD. Submodules are not looked into.
func (r *Repo) Dirty(ctx context.Context) ([]string, error) {
	if r.top == "" {
		return nil, errors.New("dirty: a mirror has no checkout")
	}
	out, err := r.refs(ctx, call{args: []string{
		"status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=all",
	}})
	if err != nil {
		return nil, fmt.Errorf("dirty: %w", err)
	}
	var paths []string
	for record := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if len(record) > 3 { // two letters and a space
			paths = append(paths, record[3:])
		}
	}
	return paths, nil
}

// Ignored says whether the person's git ignores a path of the checkout.
func (r *Repo) Ignored(ctx context.Context, path string) (bool, error) {
	_, err := r.refs(ctx, call{args: []string{"check-ignore", "-q", "--", "./" + path}, person: true})
	if exitCode(err) == 1 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ignored: %w", err)
	}
	return true, nil
}

// AdvanceCheckout moves the person's index and checkout from one tree to the
// next. Files that do not differ between the two are left alone, changed or
// not; so are untracked files. Where it would lose a change or an untracked
// file it writes no file and returns a *ConflictError. A call that was cut off
// may be repeated.
func (r *Repo) AdvanceCheckout(ctx context.Context, oldTree, newTree OID) error {
	if r.top == "" {
		return errors.New("advance checkout: a mirror has no checkout")
	}
	if !r.algo.owns(oldTree) || !r.algo.owns(newTree) {
		return fmt.Errorf("advance checkout from %s to %s: %w", quote(string(oldTree)), quote(string(newTree)), ErrNotFound)
	}
	if oldTree == newTree {
		return nil
	}
	changes, err := r.Diff(ctx, oldTree, newTree)
	if err != nil {
		return fmt.Errorf("advance checkout: %w", err)
	}
	err = r.advance(ctx, oldTree, newTree, changes)
	if _, conflict := errors.AsType[*ConflictError](err); !conflict {
		return err
	}
	// Perhaps an earlier call was cut off, or came through to its end.
	taken, takeErr := r.takeIn(ctx, changes)
	if takeErr != nil {
		return fmt.Errorf("advance checkout: %w", takeErr)
	}
	if taken == 0 {
		return err
	}
	return r.advance(ctx, oldTree, newTree, changes)
}

// takeIn tells the index of those files of the checkout that are as the changes
// want them already; their number is returned. Nothing is written to the
// checkout, and nothing can be lost: what they hold is in the new tree.
func (r *Repo) takeIn(ctx context.Context, changes []Change) (int, error) {
	var lines bytes.Buffer
	n := 0
	for _, c := range changes {
		path := filepath.Join(r.top, filepath.FromSlash(c.Path))
		info, err := os.Lstat(path)
		switch {
		case c.Status == Deleted && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)):
			fmt.Fprintf(&lines, "0 %s\t%s\x00", r.algo.zero(), c.Path)
			n++
		case c.Status != Deleted && err == nil && info.Mode().IsRegular() && info.Size() <= maxTakeIn:
			data, err := os.ReadFile(path) //nolint:gosec // a path of the tree, in the person's own checkout
			if err != nil {
				return 0, err
			}
			if r.algo.sum(kindBlob, data) == c.NewOID {
				fmt.Fprintf(&lines, "%o %s\t%s\x00", c.NewMode, c.NewOID, c.Path)
				n++
			}
		}
	}
	if n == 0 {
		return 0, nil
	}
	_, err := r.refs(ctx, call{args: []string{"update-index", "-z", "--index-info"}, stdin: &lines})
	if err != nil {
		return 0, err
	}
	_, err = r.refs(ctx, call{args: []string{"update-index", "-q", "--refresh"}})
	if err != nil && exitCode(err) != 1 { // 1: some file differs
		return 0, err
	}
	return n, nil
}

// maxTakeIn bounds the files that takeIn looks into.
const maxTakeIn = 100 << 20

func (r *Repo) advance(ctx context.Context, oldTree, newTree OID, changes []Change) error {
	if err := r.untrackedInTheWay(ctx, changes); err != nil {
		return err
	}
	readTree := func() error {
		_, err := r.refs(ctx, call{
			args: []string{"read-tree", "-m", "-u", "--no-recurse-submodules", string(oldTree), string(newTree)},
		})
		return err
	}
	err := readTree()
	if exitCode(err) == 128 && strings.Contains(stderrOf(err), "not uptodate") {
		// The file may only have been touched. A refresh compares the content;
		// its exit status says that some file does differ, and read-tree says
		// which matters.
		_, refreshErr := r.refs(ctx, call{args: []string{"update-index", "-q", "--refresh"}})
		if refreshErr != nil && exitCode(refreshErr) != 1 {
			return fmt.Errorf("advance checkout: %w", refreshErr)
		}
		err = readTree()
	}
	if exitCode(err) == 128 {
		if paths, conflict := conflictPaths(stderrOf(err)); conflict {
			return fmt.Errorf("advance checkout: %w", &ConflictError{Paths: paths, Err: err})
		}
	}
	if err != nil {
		return fmt.Errorf("advance checkout: %w", err)
	}
	return nil
}

// untrackedInTheWay looks for files that are in the new tree only and stand in
// the checkout already. read-tree itself would overwrite an ignored one.
func (r *Repo) untrackedInTheWay(ctx context.Context, changes []Change) error {
	deleted := map[string]bool{}
	for _, c := range changes {
		if c.Status == Deleted {
			deleted[c.Path] = true
		}
	}
	var inTheWay []string
	for _, c := range changes {
		if c.Status != Added {
			continue
		}
		// A directory may stand there whose files the new tree deletes, but then
		// no others.
		err := filepath.WalkDir(filepath.Join(r.top, filepath.FromSlash(c.Path)),
			func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				rel, err := filepath.Rel(r.top, path)
				if err == nil && !deleted[filepath.ToSlash(rel)] {
					inTheWay = append(inTheWay, filepath.ToSlash(rel))
				}
				return err
			})
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return fmt.Errorf("advance checkout: %w", err)
		}
	}
	if len(inTheWay) == 0 {
		return nil
	}
	// What the index holds already is not untracked; read-tree looks after it.
	out, err := r.refs(ctx, call{
		args: append([]string{"ls-files", "-z", "--"}, inTheWay...), env: []string{"GIT_LITERAL_PATHSPECS=1"},
	})
	if err != nil {
		return fmt.Errorf("advance checkout: %w", err)
	}
	tracked := strings.Split(string(out), "\x00")
	inTheWay = slices.DeleteFunc(inTheWay, func(path string) bool { return slices.Contains(tracked, path) })
	if len(inTheWay) > 0 {
		return fmt.Errorf("advance checkout: %w", &ConflictError{Paths: inTheWay})
	}
	return nil
}

// conflictPaths reads the paths out of read-tree's refusals.
func conflictPaths(said string) (paths []string, conflict bool) {
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		for _, phrase := range []string{
			"not uptodate. Cannot merge", "would be overwritten by merge", "would be removed by merge",
			"would lose untracked files", "Cannot update sparse checkout", "overlaps with",
		} {
			if !strings.Contains(line, phrase) {
				continue
			}
			conflict = true
			if _, rest, ok := strings.Cut(line, "'"); ok {
				if path, _, ok := strings.Cut(rest, "'"); ok {
					paths = append(paths, path)
				}
			}
		}
	}
	return paths, conflict
}

// CreateBranch makes a branch at a commit. ErrStale where it exists.
func (r *Repo) CreateBranch(ctx context.Context, branch string, at OID) error {
	if !ValidBranch(branch) {
		return fmt.Errorf("create branch %s: not a branch name", quote(branch))
	}
	return r.UpdateRef(ctx, branchRef(branch), at, "")
}

// Checkout makes an existing branch the current one and advances the
// checkout to it. ErrNotFound where there is no such branch, a *run.UserError
// where another linked work tree has it checked out, a *ConflictError where
// changes would be lost.
func (r *Repo) Checkout(ctx context.Context, branch string) error {
	if !ValidBranch(branch) {
		return fmt.Errorf("checkout %s: not a branch name", quote(branch))
	}
	current, head, err := r.Head(ctx)
	if err != nil {
		return fmt.Errorf("checkout %s: %w", branch, err)
	}
	if current == branch {
		return nil
	}
	name, err := r.Free(ctx, branch)
	if err != nil {
		return fmt.Errorf("checkout %s: %w", branch, err)
	}
	if name != head {
		oldTree, err := r.TreeOf(ctx, head)
		if err != nil {
			return fmt.Errorf("checkout %s: %w", branch, err)
		}
		newTree, err := r.TreeOf(ctx, name)
		if err != nil {
			return fmt.Errorf("checkout %s: %w", branch, err)
		}
		if err := r.AdvanceCheckout(ctx, oldTree, newTree); err != nil {
			return fmt.Errorf("checkout %s: %w", branch, err)
		}
	}
	_, err = r.refs(ctx, call{
		args: []string{"symbolic-ref", "-m", "ralph", "HEAD", branchRef(branch)},
		env:  []string{"GIT_COMMITTER_NAME=ralph", "GIT_COMMITTER_EMAIL=ralph@localhost"},
	})
	if err != nil {
		return fmt.Errorf("checkout %s: %w", branch, err)
	}
	return nil
}

// Free gives the tip of a branch that no work tree has checked out. ErrNotFound where
// there is no such branch, a *run.UserError where one has.
func (r *Repo) Free(ctx context.Context, branch string) (OID, error) {
	out, err := r.refs(ctx, call{
		args: []string{"for-each-ref", "--format=%(objectname) %(worktreepath)", branchRef(branch)},
	})
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", branch, err)
	}
	tip, elsewhere, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), " ")
	if tip == "" {
		return "", fmt.Errorf("look at %s: %w", branch, ErrNotFound)
	}
	if elsewhere != "" {
		return "", &run.UserError{
			Message: fmt.Sprintf("the branch %s is checked out in %s", branch, quotePath(elsewhere)),
			Hint:    "run there, or check out another branch there",
		}
	}
	return OID(tip), nil
}
