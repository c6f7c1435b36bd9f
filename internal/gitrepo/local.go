package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// OpenLocal opens the repository whose work tree dir lies in, for the command
// line. The answers "no repository", "bare" and "no commit yet" are
// *run.UserError, and so is a configuration that a run could change.
//
// The repository's own configuration stays in force for what is harmless in it
// (where refs are kept, sparse checkouts, line ends); hooks, monitors and
// filter drivers are off. So a file that a filter makes (Git LFS) is written as
// git stores it when a run changes it.
func (g *Git) OpenLocal(ctx context.Context, dir string) (*Repo, error) {
	r, err := g.openLocal(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("open repository %s: %w", quotePath(dir), err)
	}
	return r, nil
}

func (g *Git) openLocal(ctx context.Context, dir string) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	// This one call sees the person's own configuration, so that git's
	// ownership check decides by their safe.directory.
	out, err := g.run(ctx, call{
		args: []string{
			"rev-parse", "--path-format=absolute", "--is-bare-repository", "--show-object-format",
			"--git-dir", "--git-common-dir", "--git-path", "objects", "--git-path", "info/exclude", "--show-toplevel",
		},
		dir: dir, personal: true,
	})
	if err != nil {
		return nil, localError(dir, string(out), err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 7 {
		return nil, fmt.Errorf("git rev-parse answered %d lines", len(lines))
	}
	if lines[1] != "sha1" {
		return nil, &run.UserError{
			Message: fmt.Sprintf("the repository of %s names its objects by %s", quotePath(dir), run.PrintableLine(lines[1])),
			Hint:    "only SHA-1 is supported, as it is by GitHub",
		}
	}
	gitDir, common, objects, exclude, top := lines[2], lines[3], lines[4], lines[5], lines[6]
	view := filepath.Join(common, "ralph-view")
	if err := borrow(view, objects, common); err != nil {
		return nil, viewError(common, err)
	}
	r := &Repo{store: newStore(g, view, objects), gitDir: gitDir, top: top}
	r.lfs = filepath.Join(common, "lfs", "objects")
	if err := r.refuseConfigOfTree(ctx, common); err != nil {
		return nil, err
	}
	if err := r.followIgnores(ctx, exclude); err != nil {
		return nil, err
	}
	if r.config, err = r.emptyFilters(ctx); err != nil {
		return nil, err
	}
	if _, err = r.Resolve(ctx, "HEAD"); errors.Is(err, ErrNotFound) {
		err = &run.UserError{Message: quotePath(top) + " has no commit yet", Hint: "commit something first", Err: err}
	}
	return r, err
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
		return err
	}
}

// viewError is why nothing could be written to a repository's git dir.
func viewError(gitDir string, err error) error {
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return &run.UserError{
			Message: quotePath(gitDir) + " cannot be written",
			Hint: "commits are stored there, and a dry run needs it, too: make it writable for you, or run in a " +
				"clone of your own", Err: err,
		}
	}
	return err
}

// followIgnores has the view ignore what the person's own git does besides .gitignore files: by
// info/exclude, and by the file of core.excludesFile, which is less than that.
func (r *Repo) followIgnores(ctx context.Context, exclude string) error {
	if err := ensureCopy(filepath.Join(r.view, "info", "exclude"), exclude); err != nil {
		return &run.UserError{
			Message: fmt.Sprintf("the ignore rules in %s cannot be read: %v", quotePath(exclude), err),
			Hint:    "make that file readable", Err: err,
		}
	}
	out, err := r.refs(ctx, call{args: []string{"config", "--type=path", "-z", "core.excludesFile"}, personal: true})
	switch {
	case exitCode(err) == 1: // git's own default
		r.excludes = filepath.Join(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(os.Getenv("HOME"), ".config")), "git/ignore")
		return nil
	case len(out) > 1: // git runs at the top
		r.excludes = absolute(r.top, strings.TrimSuffix(string(out), "\x00"))
	}
	return err
}

// refuseConfigOfTree refuses a configuration that files of the checkout are part of, with a
// *run.UserError: what a run lands there names the programs that git runs as the person. It
// does not matter whether such a file is there now, or the condition of its include holds.
func (r *Repo) refuseConfigOfTree(ctx context.Context, common string) error {
	var files []string
	for _, query := range [][]string{
		{"--list", "--name-only"}, {"--type=path", "--get-regexp", `^include(if\..*)?\.path$`},
	} {
		out, err := r.refs(ctx, call{args: append([]string{"config", "--show-origin", "-z"}, query...), personal: true})
		if err != nil && exitCode(err) != 1 { // 1: nothing is included
			return err
		}
		for pair := range slices.Chunk(strings.Split(string(out), "\x00"), 2) { // origin, and key with value
			file, ok := strings.CutPrefix(pair[0], "file:")
			if !ok {
				continue
			}
			file = absolute(r.top, file)
			if _, included, ok := strings.Cut(pair[1], "\n"); ok {
				file = absolute(filepath.Dir(file), included)
			}
			files = append(files, file)
		}
	}
	for _, file := range files {
		for _, path := range []string{file, resolved(file)} {
			if within(r.top, path) && !within(common, path) && !within(r.gitDir, path) {
				return &run.UserError{
					Message: "git's configuration includes " + quotePath(path) + ", a file of the checkout, which a run could change",
					Hint:    "move that file out of the checkout, or drop the include while you run",
				}
			}
		}
	}
	return nil
}

// absolute is a path that is relative to a directory, or absolute.
func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// resolved is an absolute path without the links on the way, as far as it is there.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil || path == filepath.Dir(path) {
		return target
	}
	return filepath.Join(resolved(filepath.Dir(path)), filepath.Base(path))
}

// within says whether a path is dir or below it.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// emptyFilters returns the options that turn every filter driver of the
// repository's configuration into one that does nothing.
func (r *Repo) emptyFilters(ctx context.Context) (config []string, err error) {
	out, err := r.refs(ctx, call{args: []string{"config", "-z", "--name-only", "--get-regexp", `^filter\.`}})
	if err != nil && exitCode(err) != 1 { // 1: none
		return nil, err
	}
	for key := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		driver := strings.TrimSuffix(key, filepath.Ext(key))
		if strings.Contains(driver, "=") {
			return nil, &run.UserError{
				Message: "the repository configures a filter driver named " + quote(driver),
				Hint:    "rename it: a name with an equals sign cannot be switched off",
			}
		}
		if driver != "" {
			config = append(config, driver+".clean=", driver+".smudge=", driver+".process=", driver+".required=false")
		}
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

// Signs says whether the person's own git would sign its commits. Those that are made here are
// not signed: the programs that do it are the person's.
func (r *Repo) Signs(ctx context.Context) (bool, error) {
	out, err := r.refs(ctx, call{args: []string{"config", "--type=bool", "commit.gpgSign"}, personal: true})
	if err != nil && exitCode(err) != 1 {
		return false, fmt.Errorf("read commit.gpgSign: %w", err)
	}
	return strings.TrimSpace(string(out)) == "true", nil
}

// Identity returns the name and email that the person's own git would commit
// with.
func (r *Repo) Identity(ctx context.Context) (name, email string, err error) {
	out, err := r.refs(ctx, call{args: []string{"var", "GIT_AUTHOR_IDENT"}, personal: true})
	if exitCode(err) == 128 {
		return "", "", &run.UserError{
			Message: "git does not know who you are",
			Hint:    `set it with git config --global user.name "…" and git config --global user.email "…"`, Err: err,
		}
	}
	if err != nil {
		return "", "", fmt.Errorf("identity: %w", err)
	}
	name, rest, _ := strings.Cut(string(out), " <")
	email, _, _ = strings.Cut(rest, ">")
	return name, email, nil
}

// Dirty lists the tracked files whose content in the person's checkout or
// index differs from HEAD. Submodules are not looked into.
func (r *Repo) Dirty(ctx context.Context) ([]string, error) {
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
	_, err := r.refs(ctx, call{args: []string{"check-ignore", "-q", "--", "./" + path}, personal: true})
	if exitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// AdvanceCheckout moves the person's index and checkout from one tree to the
// next. Files that do not differ between the two are left alone, changed or
// not; so are untracked files. Where it would lose a change or an untracked
// file it writes no file and returns a *ConflictError. A call that came through may be
// repeated.
func (r *Repo) AdvanceCheckout(ctx context.Context, oldTree, newTree OID) error {
	return r.advance(ctx, oldTree, newTree)
}

// CanAdvance is the error that AdvanceCheckout would give, and moves nothing.
func (r *Repo) CanAdvance(ctx context.Context, oldTree, newTree OID) error {
	return r.advance(ctx, oldTree, newTree, "--dry-run")
}

func (r *Repo) advance(ctx context.Context, oldTree, newTree OID, options ...string) error {
	changes, err := r.Diff(ctx, oldTree, newTree)
	if err == nil && len(changes) > 0 {
		err = r.readTree(ctx, oldTree, newTree, changes, options)
	}
	if err != nil {
		return fmt.Errorf("advance checkout: %w", err)
	}
	return nil
}

func (r *Repo) readTree(ctx context.Context, oldTree, newTree OID, changes []Change, options []string) error {
	if err := r.ignoredInTheWay(ctx, changes); err != nil {
		return err
	}
	// A file may only have been touched. A refresh compares the content; its exit status
	// says that some file does differ, and read-tree says which matters.
	_, err := r.refs(ctx, call{args: []string{"update-index", "-q", "--refresh"}})
	if err != nil && exitCode(err) != 1 {
		return err
	}
	_, err = r.refs(ctx, call{
		args: append(append([]string{"read-tree", "-m", "-u", "--no-recurse-submodules"}, options...),
			string(oldTree), string(newTree)),
	})
	// "error: Entry 'a' not uptodate. Cannot merge.", or that an untracked file would be lost
	if named := inTheWay().FindAllStringSubmatch(stderrOf(err), -1); exitCode(err) == 128 && named != nil {
		conflict := &ConflictError{Err: err}
		for _, match := range named {
			conflict.Paths = append(conflict.Paths, match[1])
		}
		return conflict
	}
	return err
}

var inTheWay = strs.Lazy(`(?m)^error: (?:Entry|Updating|Untracked working tree file) '(.*?)'`)

// ignoredInTheWay looks for ignored files that stand where the new tree has a file, which
// git itself would overwrite.
func (r *Repo) ignoredInTheWay(ctx context.Context, changes []Change) error {
	args := []string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"}
	first := len(args)
	for _, c := range changes {
		if _, err := os.Lstat(filepath.Join(r.top, filepath.FromSlash(c.Path))); c.Status == Added && err == nil {
			args = append(args, c.Path)
		}
	}
	if len(args) == first {
		return nil
	}
	out, err := r.refs(ctx, call{args: args, env: []string{"GIT_LITERAL_PATHSPECS=1"}, personal: true})
	if err == nil && len(out) > 0 {
		err = &ConflictError{Paths: strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")}
	}
	return err
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
