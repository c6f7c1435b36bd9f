package gitrepo

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// clonedEarly is a clone of a repository whose default branch was called master then.
func clonedEarly(t *testing.T) (r *Repo, dir, remote string) {
	t.Helper()
	remote, dir = person(t, files{"a": "1"}), filepath.Join(t.TempDir(), "clone")
	mustGit(t, remote, "branch", "-m", "master")
	runClone(t, remote, dir)
	return open(t, dir), dir, remote
}

// runClone clones by the file system, which git is not let do elsewhere.
func runClone(t *testing.T, remote, dir string) {
	t.Helper()
	mustGit(t, remote, "-c", "protocol.file.allow=always", "clone", "-q", remote, dir)
}

func TestBranches(t *testing.T) {
	t.Parallel()
	r, dir, remote := clonedEarly(t)
	head := OID(mustGit(t, remote, "rev-parse", "HEAD"))
	mustGit(t, dir, "branch", "--no-track", "own")
	mustGit(t, dir, "branch", "lost", "--track", "origin/master")
	mustGit(t, dir, "config", "branch.lost.merge", "refs/heads/gone")
	check := func(want Branches) {
		t.Helper()
		got, err := r.Branches(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v, %s", err, diff)
		}
	}
	check(Branches{
		Here: map[string]OID{"master": head, "own": head, "lost": head}, Origin: map[string]OID{"master": head},
		Head: "master", Tracking: map[string]bool{"master": true},
	})
	mustGit(t, dir, "update-ref", "-d", "refs/remotes/origin/master") // what origin/HEAD stands for
	check(Branches{
		Here: map[string]OID{"master": head, "own": head, "lost": head}, Origin: map[string]OID{}, Head: "",
		Tracking: map[string]bool{},
	})
}

func TestAskOrigin(t *testing.T) {
	t.Parallel()
	r, dir, remote := clonedEarly(t)
	mustGit(t, remote, "branch", "-m", "main")
	if branch, err := r.AskOrigin(t.Context()); branch != "main" || err != nil {
		t.Errorf("after a rename: %q, %v", branch, err)
	}
	mustGit(t, remote, "symbolic-ref", "HEAD", "refs/heads/nonesuch")
	if branch, err := r.AskOrigin(t.Context()); branch != "" || !errors.Is(err, ErrNotFound) {
		t.Errorf("with a HEAD that dangles: %q, %v", branch, err)
	}
	done, cancel := context.WithCancelCause(t.Context())
	late := errors.New("too late")
	cancel(late)
	if _, err := r.AskOrigin(done); !errors.Is(err, late) {
		t.Errorf("past its time: %v", err)
	}
	mustGit(t, dir, "remote", "set-url", "origin", "https://ada:hunter2@127.0.0.1:1/x.git")
	_, err := r.AskOrigin(t.Context())
	if err == nil || errors.Is(err, ErrNotFound) || strings.Contains(err.Error(), "hunter2") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("unreachable: %v", err)
	}
	mustGit(t, dir, "remote", "rename", "origin", "upstream")
	if branch, err := r.AskOrigin(t.Context()); branch != "" || !errors.Is(err, ErrNotFound) {
		t.Errorf("without an origin: %q, %v", branch, err)
	}
}
