package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
)

// sapling is a checkout of Sapling whose commits are kept in a git store. Runs work in
// a git repository of ours, the twin, which borrows the store's objects and is checked
// out at the commit that the person is on; what they commit becomes a bookmark. The
// checkout's own files are never touched.
type sapling struct {
	// root is the top of the checkout, store the bare git repository of its commits.
	root, store string
	sl, git     string
	// twin is the git repository that runs work in.
	twin string
}

// saplingBase is the branch of the twin that stands for the commit the person is on.
const saplingBase = "main"

// findSapling finds the Sapling checkout that dir lies in, nil where there is none. A
// git repository counts before it: Sapling works in those, too, and then so do we.
func findSapling(dir string) (*sapling, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return nil, nil //nolint:nilnil // no Sapling checkout is no error
		}
		if info, err := os.Lstat(filepath.Join(at, ".sl")); err == nil && info.IsDir() {
			return openSapling(at)
		}
		if at == filepath.Dir(at) {
			return nil, nil //nolint:nilnil // the same
		}
	}
}

func openSapling(root string) (*sapling, error) {
	s := &sapling{root: root, store: filepath.Join(root, ".sl", "store", "git")}
	if _, err := os.Stat(filepath.Join(s.store, "objects")); err != nil {
		return nil, &run.UserError{
			Message: root + " is a Sapling repository whose commits are not kept in git",
			Hint:    "use one that was made with `sl clone` of a git repository, or with `sl init --git`", Err: err,
		}
	}
	var err error
	if s.sl, err = proc.Look("sl"); err != nil {
		return nil, &run.UserError{
			Message: root + " is a Sapling repository, and sl was not found", Hint: "put Sapling's sl into the PATH", Err: err,
		}
	}
	if s.git, err = lookGit(); err != nil {
		return nil, err
	}
	return s, nil
}

// prepare makes the twin below the data directory, or brings it up to date.
func (s *sapling) prepare(ctx context.Context, data string) error {
	sum := sha256.Sum256([]byte(s.root))
	s.twin = filepath.Join(data, "sapling", hex.EncodeToString(sum[:8]), filepath.Base(s.root))
	node, err := s.ask(ctx, "log", "-r", ".", "-T", "{node}")
	if err != nil {
		return err
	}
	if !isNode(node) {
		return &run.UserError{Message: s.root + " has no commit yet", Hint: "commit something first"}
	}
	if _, err := os.Stat(filepath.Join(s.twin, ".git", "HEAD")); errors.Is(err, os.ErrNotExist) {
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"update-ref", "refs/heads/" + saplingBase, node},
		{"symbolic-ref", "HEAD", "refs/heads/" + saplingBase},
		{"reset", "--quiet", "--hard"},
	} {
		if _, err := s.gitIn(ctx, s.twin, args...); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the twin, with the person's name.
func (s *sapling) begin(ctx context.Context) error {
	if err := os.MkdirAll(s.twin, 0o700); err != nil {
		return fmt.Errorf("make the repository for runs: %w", err)
	}
	if _, err := s.gitIn(ctx, s.twin, "init", "--quiet", "--template=", "--initial-branch="+saplingBase); err != nil {
		return err
	}
	info := filepath.Join(s.twin, ".git", "objects", "info")
	err := os.MkdirAll(info, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(info, "alternates"), []byte(filepath.Join(s.store, "objects")+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("make the repository for runs: %w", err)
	}
	// As in "Ann <ann@example.org>"; without one git's own configuration counts.
	who, err := s.ask(ctx, "config", "ui.username")
	if err != nil {
		return nil //nolint:nilerr // a name that is not set is exit code 1
	}
	name, rest, ok := strings.Cut(who, "<")
	if email, _, closed := strings.Cut(rest, ">"); ok && closed {
		for key, value := range map[string]string{"user.name": strings.TrimSpace(name), "user.email": email} {
			if _, err := s.gitIn(ctx, s.twin, "config", key, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// place gives what stands in the twin for the working directory and for a plan that was
// named there: a plan that is committed as it is, otherwise the file itself.
func (s *sapling) place(dir, plan string) (twinDir, twinPlan string, err error) {
	rel, err := filepath.Rel(s.root, dir)
	if err != nil {
		return "", "", fmt.Errorf("find the working directory: %w", err)
	}
	twinDir = filepath.Join(s.twin, rel)
	if err := os.MkdirAll(twinDir, 0o700); err != nil {
		return "", "", fmt.Errorf("find the working directory: %w", err)
	}
	if filepath.IsAbs(plan) {
		return twinDir, plan, nil
	}
	own, err := os.ReadFile(filepath.Join(dir, plan)) // #nosec G304 -- the person named it
	if err != nil {
		return twinDir, plan, nil //nolint:nilerr // the plan in words, or a file of the twin alone
	}
	if theirs, err := os.ReadFile(filepath.Join(twinDir, plan)); err == nil && bytes.Equal(own, theirs) { // #nosec G304 -- the same
		return twinDir, plan, nil
	}
	return twinDir, filepath.Join(dir, plan), nil
}

// bring makes a bookmark of a branch of the twin, where that has commits that the person
// lacks: of this run, or of one that could not bring them. A bookmark of that name that
// has commits of somebody else stays as it is.
func (s *sapling) bring(ctx context.Context, branch string) error {
	ref := "refs/heads/" + branch
	found, err := s.gitIn(ctx, s.twin, "for-each-ref", "--format=%(refname) %(objectname)", ref)
	if err != nil {
		return err
	}
	name, tip, _ := strings.Cut(found, " ")
	if name != ref {
		return nil
	}
	at, err := s.bookmark(ctx, branch)
	if err != nil {
		return err
	}
	has := []string{"rev-list", "--max-count=1", tip, "^refs/heads/" + saplingBase}
	if at != "" {
		has = append(has, "^"+at)
	}
	if lacks, err := s.gitIn(ctx, s.twin, has...); err != nil || lacks == "" {
		return err
	}
	if at != "" {
		if _, err := s.gitIn(ctx, s.twin, "merge-base", "--is-ancestor", at, tip); err != nil {
			return &run.UserError{
				Message: fmt.Sprintf("the bookmark %s has moved to %.12s, so the run's commits were not put on it", branch, at),
				Hint: fmt.Sprintf("they are on %s in %s; rename your bookmark (sl bookmark --rename %s NAME) and run "+
					"the same command",
					branch, s.twin, branch),
				Err: err,
			}
		}
	}
	file, err := os.CreateTemp("", "ralph-*.bundle")
	if err != nil {
		return fmt.Errorf("bring the commits into the checkout: %w", err)
	}
	bundle := file.Name()
	defer func() { _ = os.Remove(bundle) }()
	if err := file.Close(); err != nil {
		return fmt.Errorf("bring the commits into the checkout: %w", err)
	}
	// What the person's commit holds is left out. Sapling makes bookmarks of the branches
	// in a git bundle.
	if _, err := s.gitIn(ctx, s.twin, "bundle", "create", "--quiet", bundle, ref, "^refs/heads/"+saplingBase); err != nil {
		return err
	}
	_, err = s.ask(ctx, "unbundle", bundle)
	return err
}

// bookmark is the commit that a bookmark is on, "" for no such bookmark.
func (s *sapling) bookmark(ctx context.Context, name string) (string, error) {
	all, err := s.ask(ctx, "log", "-r", "bookmark()", "-T", `{node} {bookmarks}\n`)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(all) {
		if words := strings.Fields(line); len(words) > 1 && slices.Contains(words[1:], name) && isNode(words[0]) {
			return words[0], nil
		}
	}
	return "", nil
}

// isNode says whether s names a commit.
func isNode(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && (len(b) == 20 || len(b) == 32) && strings.Trim(s, "0") != ""
}

// ask runs sl in the checkout, in the form that is meant for programs.
func (s *sapling) ask(ctx context.Context, args ...string) (string, error) {
	out, err := proc.Run(ctx, proc.Cmd{
		Path: s.sl, Args: args, Dir: s.root, Env: append(os.Environ(), "HGPLAIN=1"),
	})
	if err != nil {
		return "", &run.UserError{
			Message: fmt.Sprintf("sl %s failed in %s: %v", args[0], s.root, err),
			Hint:    "see whether `sl status` works there", Err: err,
		}
	}
	return strings.TrimSpace(string(out.Stdout)), nil
}

func (s *sapling) gitIn(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := proc.Run(ctx, proc.Cmd{
		Path: s.git, Args: append([]string{"-c", "core.hooksPath=/dev/null"}, args...), Dir: dir,
		Env: proc.ScrubbedEnv("HOME="+os.Getenv("HOME"), "GIT_TERMINAL_PROMPT=0"),
	})
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out.Stdout)), nil
}
