package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	// excludes is a file of the rules that the person's git adds to those of .gitignore
	// files, "" for none.
	excludes string
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
	if oid, err = ParseOID(lines[0]); err != nil {
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
	return ParseOID(strings.TrimSpace(string(out)))
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

// Person is an author or committer.
type Person struct {
	Name, Email string
}

// CommitInfo reads one commit.
func (r *Repo) CommitInfo(ctx context.Context, oid OID) (CommitInfo, error) {
	if !oid.Valid() {
		return CommitInfo{}, fmt.Errorf("commit %s: %w", quote(string(oid)), ErrNotFound)
	}
	data, err := r.read(ctx, kindCommit, string(oid), maxCommit)
	if err != nil {
		return CommitInfo{}, fmt.Errorf("read commit: %w", err)
	}
	return parseCommit(oid, data)
}

// TreeOf returns the tree of a commit.
func (r *Repo) TreeOf(ctx context.Context, commit OID) (OID, error) {
	info, err := r.CommitInfo(ctx, commit)
	return info.Tree, err
}

// HasTree says whether a tree is stored here.
func (r *Repo) HasTree(ctx context.Context, tree OID) (bool, error) {
	if !tree.Valid() {
		return false, nil
	}
	_, err := r.find(ctx, kindTree, string(tree)+"^{tree}")
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
	args := []string{"rev-list", "--topo-order", string(to)}
	if from != "" {
		args = append(args, "^"+string(from))
	}
	out, err := r.refs(ctx, call{args: append(args, "--")})
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	var infos []CommitInfo
	for name := range strings.FieldsSeq(string(out)) {
		info, err := r.CommitInfo(ctx, OID(name))
		if err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func parseCommit(oid OID, data []byte) (CommitInfo, error) {
	info := CommitInfo{OID: oid}
	head, message, _ := strings.Cut(string(data), "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "tree":
			info.Tree = OID(value)
		case "parent":
			info.Parents = append(info.Parents, OID(value))
		case "author":
			info.Author, info.When = parseSignature(value)
		}
	}
	if !info.Tree.Valid() {
		return CommitInfo{}, fmt.Errorf("commit %s names no tree", oid)
	}
	for _, p := range info.Parents {
		if !p.Valid() {
			return CommitInfo{}, fmt.Errorf("commit %s names a broken parent", oid)
		}
	}
	subject, body, _ := strings.Cut(strings.TrimLeft(message, "\n"), "\n")
	info.Subject = strings.TrimSpace(subject)
	info.Body = strings.Trim(body, "\n")
	return info, nil
}

// parseSignature reads "Name <email> seconds zone" as leniently as git does.
func parseSignature(s string) (Person, time.Time) {
	name, rest, _ := strings.Cut(s, "<")
	email, when, _ := strings.Cut(rest, ">")
	who := Person{Name: strings.TrimSpace(name), Email: email}
	fields := strings.Fields(when)
	if len(fields) == 0 {
		return who, time.Time{}
	}
	seconds, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return who, time.Time{}
	}
	at := time.Unix(seconds, 0).UTC()
	if len(fields) > 1 {
		if zone, err := time.Parse("-0700", fields[1]); err == nil {
			_, offset := zone.Zone()
			at = at.In(time.FixedZone("", offset))
		}
	}
	return who, at
}

// CommitSpec describes a commit to make.
type CommitSpec struct {
	Tree    OID
	Parents []OID
	// Message is the whole message; a missing line feed at its end is added.
	Message string
	// Author made the change, Committer the commit; no committer means the
	// author.
	Author, Committer Person
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
	committer := spec.Committer
	if committer == (Person{}) {
		committer = spec.Author
	}
	if spec.When.IsZero() {
		return "", errors.New("commit: a time is needed")
	}
	var env []string
	for _, who := range []struct {
		role string
		Person
	}{{"AUTHOR", spec.Author}, {"COMMITTER", committer}} {
		name := printable(who.Name)
		if name == "" {
			return "", fmt.Errorf("commit: the %s has no name", strings.ToLower(who.role))
		}
		env = append(env, "GIT_"+who.role+"_NAME="+name, "GIT_"+who.role+"_EMAIL="+printable(who.Email),
			fmt.Sprintf("GIT_%s_DATE=@%d %s", who.role, spec.When.Unix(), spec.When.Format("-0700")))
	}
	message := strings.ToValidUTF8(strings.ReplaceAll(spec.Message, "\x00", ""), "\uFFFD")
	if strings.TrimSpace(message) == "" {
		return "", errors.New("commit: the message is empty")
	}
	out, err := r.call(ctx, call{
		args: append(args, string(spec.Tree)), env: env, stdin: strings.NewReader(strings.TrimRight(message, "\n") + "\n"),
	})
	if err != nil {
		return "", fmt.Errorf("commit: %w", err)
	}
	return ParseOID(strings.TrimSpace(string(out)))
}

// printable is a name or an address without what git gives a meaning to.
func printable(v string) string {
	v = strings.Map(func(c rune) rune {
		if c < ' ' || c == '<' || c == '>' || c == 0x7f {
			return -1
		}
		return c
	}, strings.ToValidUTF8(v, "\uFFFD"))
	return strings.TrimSpace(v)
}

// UpdateRef moves ref (refs/…) from old to new. An empty old means that the
// ref must not exist yet, an empty new deletes it. ErrStale where it is not at
// old.
func (r *Repo) UpdateRef(ctx context.Context, ref string, newOID, oldOID OID) error {
	if !ValidRef(ref) {
		return fmt.Errorf("update %s: not a full ref name", quote(ref))
	}
	for _, oid := range []OID{newOID, oldOID} {
		if oid != "" && !oid.Valid() {
			return fmt.Errorf("update %s: %s is not an object name", ref, quote(string(oid)))
		}
	}
	if newOID == "" && oldOID == "" {
		return nil
	}
	args := []string{"update-ref", "--no-deref"}
	if newOID == "" {
		args = append(args, "-d", "--end-of-options", ref, string(oldOID))
	} else {
		if oldOID == "" {
			oldOID = noOID
		}
		args = append(args, "-m", "ralph", "--end-of-options", ref, string(newOID), string(oldOID))
	}
	_, err := r.refs(ctx, call{args: args, env: []string{
		// For the reflog.
		"GIT_COMMITTER_NAME=ralph", "GIT_COMMITTER_EMAIL=ralph@localhost",
	}})
	if err == nil {
		return nil
	}
	// Whatever git calls it: a ref that is elsewhere is stale.
	at, readErr := r.refs(ctx, call{args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", ref}})
	if readErr != nil && exitCode(readErr) != 1 {
		return fmt.Errorf("update %s: %w", ref, err)
	}
	if oldOID == noOID {
		oldOID = ""
	}
	if OID(strings.TrimSpace(string(at))) != oldOID {
		return fmt.Errorf("update %s: %w", ref, ErrStale)
	}
	return fmt.Errorf("update %s: %w", ref, err)
}

// ReadFile returns the content of the regular file at path in a commit or
// tree. ErrNotFound where there is none (a directory, link or submodule is
// none), ErrTooLarge where it is larger than limit bytes.
func (r *Repo) ReadFile(ctx context.Context, treeish OID, path string, limit int64) ([]byte, error) {
	data, err := r.readFile(ctx, treeish, path, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", quotePath(path), err)
	}
	return data, nil
}

// Names lists what lies directly in a tree, in git's order; names of directories end
// in "/".
func (r *Repo) Names(ctx context.Context, tree OID) ([]string, error) {
	items, err := r.items(ctx, tree)
	if err != nil {
		return nil, fmt.Errorf("list a tree: %w", err)
	}
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.name
		if item.isDir() {
			names[i] += "/"
		}
	}
	return names, nil
}

// NamesIn is [Repo.Names] of a directory in a commit or tree; it has none where there is
// no such directory.
func (r *Repo) NamesIn(ctx context.Context, treeish OID, dir string) ([]string, error) {
	item, err := r.lookup(ctx, treeish, dir)
	if errors.Is(err, ErrNotFound) || err == nil && !item.isDir() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r.Names(ctx, item.oid)
}

// ModeOf is the mode of what a tree or commit has at a path: that of a file, or 040000 for a
// directory. ErrNotFound where there is nothing.
func (r *Repo) ModeOf(ctx context.Context, treeish OID, path string) (uint32, error) {
	item, err := r.lookup(ctx, treeish, path)
	return item.mode, err
}

func (r *Repo) readFile(ctx context.Context, treeish OID, path string, limit int64) ([]byte, error) {
	item, err := r.lookup(ctx, treeish, path)
	if err != nil {
		return nil, err
	}
	if item.mode&modeKind != ModeFile&modeKind {
		return nil, ErrNotFound
	}
	return r.Blob(ctx, item.oid, limit)
}

// Blob returns the content of a blob of at most limit bytes.
func (r *Repo) Blob(ctx context.Context, oid OID, limit int64) ([]byte, error) {
	if !oid.Valid() {
		return nil, fmt.Errorf("blob %s: %w", quote(string(oid)), ErrNotFound)
	}
	return r.read(ctx, kindBlob, string(oid), limit)
}
