package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Repo is an object store and refs that the host owns: a mirror, or the
// person's own repository on the command line. It may be shared.
type Repo struct {
	store
	// gitDir holds the refs, HEAD and the index.
	gitDir string
	// top is the work tree of a local repository.
	top string
	// config holds options that outrank the repository's own configuration.
	config []string
	remote Remote
	// excludes is the file of the rules that the person has for all their repositories.
	excludes string
	forked   bool
}

// refs runs git on the repository's own git dir: plumbing that reads and moves
// refs and the person's index, and runs nothing.
func (r *Repo) refs(ctx context.Context, c call) ([]byte, error) {
	c.env = append(c.env, "GIT_DIR="+r.gitDir)
	if r.top != "" {
		c.env = append(c.env, "GIT_WORK_TREE="+r.top)
		c.dir = r.top
	}
	c.config = append(c.config, r.config...)
	return r.git.run(ctx, c)
}

// Head returns the branch that is checked out ("" where HEAD is detached) and
// its commit.
func (r *Repo) Head(ctx context.Context) (branch string, oid OID, err error) {
	out, err := r.refs(ctx, call{args: []string{"rev-parse", "HEAD^{commit}", "--symbolic-full-name", "HEAD", "--"}})
	if err != nil {
		return "", "", fmt.Errorf("head: %w", err)
	}
	lines := strings.Split(string(out), "\n")
	if len(lines) < 2 {
		return "", "", fmt.Errorf("head: git rev-parse answered %s", quote(string(out)))
	}
	if oid, err = parseOID(lines[0]); err != nil {
		return "", "", fmt.Errorf("head: %w", err)
	}
	branch, attached := strings.CutPrefix(lines[1], "refs/heads/")
	if !attached {
		branch = ""
	}
	return branch, oid, nil
}

// Resolve returns the commit that ref (a branch, tag, full ref name, HEAD or
// object name) points to. ErrNotFound where there is none.
func (r *Repo) Resolve(ctx context.Context, ref string) (OID, error) {
	switch {
	case OID(ref).Valid(), ref == "HEAD", ValidRef(ref), ValidBranch(ref):
	default:
		return "", fmt.Errorf("resolve %s: not a ref name: %w", quote(ref), ErrNotFound)
	}
	out, err := r.refs(ctx, call{
		args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", ref + "^{commit}"},
	})
	if exitCode(err) == 1 {
		return "", fmt.Errorf("resolve %s: %w", quotePath(ref), ErrNotFound)
	}
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", quotePath(ref), err)
	}
	return parseOID(strings.TrimSpace(string(out)))
}

// CommitInfo is what a commit says.
type CommitInfo struct {
	OID     OID
	Tree    OID
	Parents []OID
	Author  Person
	// When is the author's date.
	When time.Time
	// Subject is the first line of the message, Body what follows the blank
	// line after it.
	Subject, Body string
}

// Person is an author.
type Person struct {
	Name, Email string
}

// CommitInfo reads one commit. ErrNotFound where there is none.
func (r *Repo) CommitInfo(ctx context.Context, oid OID) (CommitInfo, error) {
	if _, err := r.TreeOf(ctx, oid); err != nil {
		return CommitInfo{}, err
	}
	infos, err := r.log(ctx, "--no-walk", string(oid))
	if err != nil || len(infos) == 0 {
		return CommitInfo{}, fmt.Errorf("read commit %s: %w", oid, err)
	}
	return infos[0], nil
}

// TreeOf returns the tree of a commit. ErrNotFound where there is none.
func (r *Repo) TreeOf(ctx context.Context, commit OID) (tree OID, err error) {
	err = ErrNotFound
	if commit.Valid() {
		tree, err = r.find(ctx, kindTree, string(commit)+"^{commit}^{tree}", nil)
	}
	if err != nil {
		return "", fmt.Errorf("read commit %s: %w", quotePath(string(commit)), err)
	}
	return tree, nil
}

// HasTree says whether a tree is stored here.
func (r *Repo) HasTree(ctx context.Context, tree OID) (bool, error) {
	if !tree.Valid() {
		return false, nil
	}
	_, err := r.find(ctx, kindTree, string(tree)+"^{tree}", nil)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Contains says whether a commit is tip or one of its ancestors. One that is not here
// is not.
func (r *Repo) Contains(ctx context.Context, tip, commit OID) (bool, error) {
	if !tip.Valid() || !commit.Valid() {
		return false, nil
	}
	_, err := r.refs(ctx, call{args: []string{"merge-base", "--is-ancestor", string(commit), string(tip)}})
	if exitCode(err) > 0 {
		return false, nil
	}
	return err == nil, err
}

// Log lists the commits that are reachable from to and not from from, newest
// first. An empty from means the whole history.
func (r *Repo) Log(ctx context.Context, from, to OID) ([]CommitInfo, error) {
	if !to.Valid() || (from != "" && !from.Valid()) {
		return nil, fmt.Errorf("log %s..%s: %w", quote(string(from)), quote(string(to)), ErrNotFound)
	}
	args := []string{"--topo-order", string(to)}
	if from != "" {
		args = append(args, "^"+string(from))
	}
	return r.log(ctx, args...)
}

// Newest lists the newest n commits of tip's history by their dates.
func (r *Repo) Newest(ctx context.Context, tip OID, n int) ([]CommitInfo, error) {
	if !tip.Valid() {
		return nil, fmt.Errorf("log %s: %w", quote(string(tip)), ErrNotFound)
	}
	return r.log(ctx, fmt.Sprintf("--max-count=%d", n), string(tip))
}

func (r *Repo) log(ctx context.Context, args ...string) (infos []CommitInfo, err error) {
	out, err := r.call(ctx, call{
		args: append([]string{"log", "-z", "--encoding=UTF-8", "--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%aI%x00%B"}, args...),
	})
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	for f := range slices.Chunk(strings.Split(string(out), "\x00"), 7) {
		if len(f) < 7 {
			break // after the last one
		}
		info := CommitInfo{OID: OID(f[0]), Tree: OID(f[1]), Author: Person{Name: f[3], Email: f[4]}}
		for parent := range strings.FieldsSeq(f[2]) {
			info.Parents = append(info.Parents, OID(parent))
		}
		info.When, _ = time.Parse(time.RFC3339, f[5]) // some commits have no sound date
		subject, body, _ := strings.Cut(strings.TrimLeft(f[6], "\n"), "\n")
		info.Subject, info.Body = strings.TrimSpace(subject), strings.Trim(body, "\n")
		infos = append(infos, info)
	}
	return infos, nil
}

// CommitSpec describes a commit to make.
type CommitSpec struct {
	Tree    OID
	Parents []OID
	// Message is the whole message; a missing line feed at its end is added.
	Message string
	// Author made the change, and the commit.
	Author Person
	// When is the date of both, kept in seconds and with its zone.
	When time.Time
}

// CommitTree stores a commit and returns its name. No ref moves.
func (r *Repo) CommitTree(ctx context.Context, spec CommitSpec) (OID, error) {
	args := []string{"commit-tree"}
	for _, p := range spec.Parents {
		if !p.Valid() {
			return "", fmt.Errorf("commit: parent %s: %w", quote(string(p)), ErrNotFound)
		}
		args = append(args, "-p", string(p))
	}
	if !spec.Tree.Valid() {
		return "", fmt.Errorf("commit: tree %s: %w", quote(string(spec.Tree)), ErrNotFound)
	}
	name, email := spec.Author.Name, spec.Author.Email
	message := strings.ToValidUTF8(strings.ReplaceAll(spec.Message, "\x00", ""), "\uFFFD")
	date := fmt.Sprintf("@%d %s", spec.When.Unix(), spec.When.Format("-0700"))
	out, err := r.call(ctx, call{
		args: append(args, string(spec.Tree)), stdin: strings.NewReader(strings.TrimRight(message, "\n") + "\n"),
		env: []string{
			"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email, "GIT_AUTHOR_DATE=" + date,
			"GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email, "GIT_COMMITTER_DATE=" + date,
		},
	})
	if err != nil {
		return "", fmt.Errorf("commit: %w", err)
	}
	return parseOID(strings.TrimSpace(string(out)))
}

// UpdateRef moves ref (refs/…) from old to new. An empty old means that the
// ref must not exist yet, an empty new deletes it. ErrStale where it is not at
// old.
func (r *Repo) UpdateRef(ctx context.Context, ref string, newOID, oldOID OID) error {
	if !ValidRef(ref) {
		return fmt.Errorf("update %s: not a full ref name", quote(ref))
	}
	for _, oid := range []OID{cmp.Or(newOID, oldOID), cmp.Or(oldOID, noOID)} {
		if !oid.Valid() {
			return fmt.Errorf("update %s: %s is not an object name", ref, quote(string(oid)))
		}
	}
	args := []string{"update-ref", "--no-deref"}
	if newOID == "" {
		args = append(args, "-d", "--end-of-options", ref, string(oldOID))
	} else {
		args = append(args, "-m", "ralph", "--end-of-options", ref, string(newOID), string(cmp.Or(oldOID, noOID)))
	}
	_, err := r.refs(ctx, call{args: args, env: []string{
		// For the reflog.
		"GIT_COMMITTER_NAME=ralph", "GIT_COMMITTER_EMAIL=ralph@localhost",
	}})
	if err == nil {
		return nil
	}
	// Whatever git calls it: a ref that is elsewhere is stale.
	if at, readErr := r.Resolve(ctx, ref); readErr == nil && at != oldOID || errors.Is(readErr, ErrNotFound) && oldOID != "" {
		err = ErrStale
	}
	return fmt.Errorf("update %s: %w", ref, err)
}
