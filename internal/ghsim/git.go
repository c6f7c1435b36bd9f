package ghsim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/proc"
)

// The modes of a git tree entry.
const (
	modeFile = "100644"
	modeExec = "100755"
	modeLink = "120000"
	modeTree = "040000"
)

// zeroOID stands for "no object" in git's plumbing and in push events.
const zeroOID = "0000000000000000000000000000000000000000"

// errNoObject: a revision, path or object is not in the repository.
var errNoObject = errors.New("no such object")

// gitStore is one bare repository. Its methods do not lock: git itself keeps
// concurrent readers and one writer apart, and ref updates compare and swap.
type gitStore struct {
	git string // path of the program
	dir string
	// commits caches parsed commits: an object never changes.
	commits map[string]*commitObject
	// answers are what fixed was told.
	mu      sync.Mutex
	answers map[string]told
}

// told is what a git command printed, and the error where it ended with code 1, its "no".
type told struct {
	out []byte
	err error
}

// person is an author or committer.
type person struct {
	Name, Email string
	When        time.Time
}

func (p person) header() string {
	_, offset := p.When.Zone()
	sign := '+'
	if offset < 0 {
		sign, offset = '-', -offset
	}
	return fmt.Sprintf("%s <%s> %d %c%02d%02d", gitName(p.Name), gitName(p.Email), p.When.Unix(), sign, offset/3600,
		offset/60%60)
}

// gitName drops what would end a field of a commit header.
func gitName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '<' || r == '>' || r == '\n' || r == 0 {
			return -1
		}
		return r
	}, s)
}

// commitObject is a parsed commit.
type commitObject struct {
	OID, Tree         string
	Parents           []string
	Author, Committer person
	Message           string
}

func (c *commitObject) subject() string {
	subject, _, _ := strings.Cut(c.Message, "\n")
	return subject
}

func (c *commitObject) body() string {
	_, body, _ := strings.Cut(c.Message, "\n")
	return strings.Trim(body, "\n")
}

// treeEntry is one line of a tree.
type treeEntry struct {
	Mode, Type, OID, Path string
	Size                  int64
}

// change is one line of an index update: an empty OID deletes the path.
type change struct {
	Mode, OID, Path string
}

// env is the whole environment of every git process: no configuration but the
// repository's own, no prompt, no locale.
func gitEnv(extra ...string) []string {
	return proc.ScrubbedEnv(append([]string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "HOME=" + os.DevNull,
	}, extra...)...)
}

func (g *gitStore) run(ctx context.Context, stdin []byte, env []string, args ...string) ([]byte, error) {
	res, err := proc.Run(ctx, proc.Cmd{
		Path:        g.git,
		Args:        append([]string{"-C", g.dir, "-c", "core.hooksPath=" + os.DevNull}, args...),
		Env:         gitEnv(env...),
		Stdin:       bytes.NewReader(stdin),
		StdoutLimit: 256 << 20,
	})
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", args[0], err)
	}
	return res.Stdout, nil
}

// fixed is run for commands whose answer follows from the objects that they name alone. Such
// objects never change, so git is asked once.
func (g *gitStore) fixed(ctx context.Context, args ...string) ([]byte, error) {
	if slices.ContainsFunc(args[1:], func(a string) bool { return !strings.HasPrefix(a, "-") && !isOID(a) }) {
		return g.run(ctx, nil, nil, args...)
	}
	key := strings.Join(args, " ")
	g.mu.Lock()
	known, ok := g.answers[key]
	g.mu.Unlock()
	if ok {
		return known.out, known.err
	}
	b, err := g.run(ctx, nil, nil, args...)
	if exit := new(proc.ExitError); err == nil || errors.As(err, &exit) && exit.Code == 1 {
		g.mu.Lock()
		g.answers[key] = told{b, err}
		g.mu.Unlock()
	}
	return b, err
}

// initStore makes an empty bare repository that serves what GitHub serves.
func initStore(ctx context.Context, git, dir, defaultBranch string) (*gitStore, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make repository: %w", err)
	}
	g := &gitStore{git: git, dir: dir, commits: map[string]*commitObject{}, answers: map[string]told{}}
	if _, err := g.run(ctx, nil, nil, "init", "--quiet", "--bare", "--initial-branch="+defaultBranch); err != nil {
		return nil, err
	}
	const settings = `[uploadpack]
	allowFilter = true
	allowAnySHA1InWant = true
[receive]
	hideRefs = refs/pull
	autogc = false
[gc]
	auto = 0
[core]
	logAllRefUpdates = false
`
	f, err := os.OpenFile(filepath.Join(dir, "config"), os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // of the repository just made
	if err != nil {
		return nil, fmt.Errorf("configure repository: %w", err)
	}
	_, err = f.WriteString(settings)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("configure repository: %w", err)
	}
	return g, nil
}

// isOID says whether s is a whole object name, which needs no ref to resolve.
func isOID(s string) bool {
	if len(s) != len(zeroOID) {
		return false
	}
	for _, r := range s {
		if !strings.ContainsRune("0123456789abcdef", r) {
			return false
		}
	}
	return true
}

// safeRev refuses what git would read as an option, a range or a reflog.
func safeRev(rev string) bool {
	return rev != "" && !strings.HasPrefix(rev, "-") && !strings.Contains(rev, "..") &&
		!strings.ContainsAny(rev, " ~^:?*[\\\x00\n@{") ||
		isOID(rev)
}

// ref is the object a full ref name points at, or errNoObject.
func (g *gitStore) ref(ctx context.Context, name string) (string, error) {
	refs, err := g.refs(ctx, name)
	if err != nil {
		return "", err
	}
	for _, r := range refs {
		if r.Name == name {
			return r.OID, nil
		}
	}
	return "", fmt.Errorf("ref %s: %w", name, errNoObject)
}

type gitRef struct{ Name, OID, Type string }

// refs lists the refs that start with prefix ("refs/heads/ralph" also finds
// refs/heads/ralph/7, and refs/heads/ralphie).
func (g *gitStore) refs(ctx context.Context, prefix string) ([]gitRef, error) {
	refs, ok := g.looseRefs(ctx)
	if ok {
		return slices.DeleteFunc(refs, func(r gitRef) bool { return !strings.HasPrefix(r.Name, prefix) }), nil
	}
	b, err := g.run(ctx, nil, nil, "for-each-ref", "--format=%(objectname) %(objecttype) %(refname)", "refs")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(f) == 3 && strings.HasPrefix(f[2], prefix) {
			refs = append(refs, gitRef{Name: f[2], OID: f[0], Type: f[1]})
		}
	}
	return refs, nil
}

// branch is the tip of a branch, or errNoObject.
func (g *gitStore) branch(ctx context.Context, name string) (string, error) {
	return g.ref(ctx, "refs/heads/"+name)
}

// resolveCommit turns a branch, tag, ref or object name into a commit.
func (g *gitStore) resolveCommit(ctx context.Context, rev string) (string, error) {
	missing := fmt.Errorf("revision %q: %w", rev, errNoObject)
	if !safeRev(rev) {
		return "", missing
	}
	var names strings.Builder
	for _, prefix := range []string{"refs/heads/", "refs/tags/", "refs/", ""} {
		names.WriteString(prefix + rev + "^{commit}\n")
	}
	b, err := g.run(ctx, []byte(names.String()), nil, "cat-file", "--batch-check")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == "commit" {
			return f[0], nil
		}
	}
	return "", missing
}

// object reads one object; wantType "" takes any.
func (g *gitStore) object(ctx context.Context, name, wantType string) (oid, typ string, data []byte, err error) {
	if strings.ContainsAny(name, "\n\x00") || name == "" {
		return "", "", nil, fmt.Errorf("object %q: %w", name, errNoObject)
	}
	if isOID(name) {
		typ, data, ok, err := g.readLoose(name)
		if ok && wantType != "" && typ != wantType {
			err = fmt.Errorf("%s %q: %w", wantType, name, errNoObject)
		}
		if ok || err != nil {
			return name, typ, data, err
		}
	}
	b, err := g.run(ctx, []byte(name+"\n"), nil, "cat-file", "--batch")
	if err != nil {
		return "", "", nil, err
	}
	head, rest, _ := bytes.Cut(b, []byte("\n"))
	f := strings.Fields(string(head))
	if len(f) != 3 || wantType != "" && f[1] != wantType {
		return "", "", nil, fmt.Errorf("%s %q: %w", wantType, name, errNoObject)
	}
	return f[0], f[1], bytes.TrimSuffix(rest, []byte("\n")), nil
}

// commit reads and parses a commit.
func (g *gitStore) commit(ctx context.Context, oid string) (*commitObject, error) {
	if c := g.commits[oid]; c != nil {
		return c, nil
	}
	if !isOID(oid) {
		return nil, fmt.Errorf("commit %q: %w", oid, errNoObject)
	}
	_, _, data, err := g.object(ctx, oid, "commit")
	if err != nil {
		return nil, err
	}
	c := parseCommit(oid, data)
	g.commits[oid] = c
	return c, nil
}

func parseCommit(oid string, data []byte) *commitObject {
	head, message, _ := strings.Cut(string(data), "\n\n")
	c := &commitObject{OID: oid, Message: message}
	for line := range strings.SplitSeq(head, "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "tree":
			c.Tree = value
		case "parent":
			c.Parents = append(c.Parents, value)
		case "author":
			c.Author = parsePerson(value)
		case "committer":
			c.Committer = parsePerson(value)
		}
	}
	return c
}

// parsePerson reads "Name <mail> 1700000000 +0100".
func parsePerson(s string) person {
	name, rest, _ := strings.Cut(s, " <")
	mail, stamp, _ := strings.Cut(rest, "> ")
	seconds, _, _ := strings.Cut(stamp, " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		n = 0 // git accepts such commits, so must we
	}
	return person{Name: name, Email: mail, When: time.Unix(n, 0).UTC()}
}

// log lists commits newest first: those reachable from tip and not from the
// excluded ones, at most limit (0: all).
func (g *gitStore) log(ctx context.Context, tip string, limit int, exclude ...string) ([]*commitObject, error) {
	if line, ok, err := g.line(ctx, tip, limit, exclude...); ok || err != nil {
		return line, err
	}
	args := []string{"rev-list", "--topo-order"}
	if limit > 0 {
		args = append(args, "--max-count="+strconv.Itoa(limit))
	}
	args = append(args, tip)
	for _, e := range exclude {
		args = append(args, "^"+e)
	}
	b, err := g.run(ctx, nil, nil, args...)
	if err != nil {
		return nil, err
	}
	oids := strings.Fields(string(b))
	if err := g.readCommits(ctx, oids); err != nil {
		return nil, err
	}
	commits := make([]*commitObject, 0, len(oids))
	for _, oid := range oids {
		c, err := g.commit(ctx, oid)
		if err != nil {
			return nil, err
		}
		commits = append(commits, c)
	}
	return commits, nil
}

// readCommits fills the cache, with one process for all of them.
func (g *gitStore) readCommits(ctx context.Context, oids []string) error {
	var names strings.Builder
	for _, oid := range oids {
		if g.commits[oid] != nil {
			continue
		}
		typ, data, _, err := g.readLoose(oid)
		switch {
		case err != nil:
			return err
		case typ == "commit":
			g.commits[oid] = parseCommit(oid, data)
		default:
			names.WriteString(oid + "\n")
		}
	}
	if names.Len() == 0 {
		return nil
	}
	rest, err := g.run(ctx, []byte(names.String()), nil, "cat-file", "--batch")
	if err != nil {
		return err
	}
	for len(rest) > 0 {
		head, after, _ := bytes.Cut(rest, []byte("\n"))
		f := strings.Fields(string(head))
		if len(f) != 3 {
			return fmt.Errorf("git cat-file: line %q", head)
		}
		size, err := strconv.Atoi(f[2])
		if err != nil || size >= len(after) {
			return fmt.Errorf("git cat-file: line %q", head)
		}
		g.commits[f[0]] = parseCommit(f[0], after[:size])
		rest = after[size+1:] // and the newline after the object
	}
	return nil
}

// mergeBase is the best common ancestor, or "" where there is none.
func (g *gitStore) mergeBase(ctx context.Context, a, b string) (string, error) {
	if own, ok, err := g.line(ctx, b, 0, a); err != nil {
		return "", err
	} else if ok { // what comes before the first of b's own is a's too
		switch {
		case len(own) == 0:
			return b, nil
		case len(own[len(own)-1].Parents) == 0:
			return "", nil
		}
		return own[len(own)-1].Parents[0], nil
	}
	oid, err := g.fixed(ctx, "merge-base", a, b)
	if exit := new(proc.ExitError); errors.As(err, &exit) && exit.Code == 1 {
		return "", nil
	}
	return strings.TrimSpace(string(oid)), err
}

// tree lists a tree. With recursive it lists everything below it, trees
// included, as GitHub does.
func (g *gitStore) tree(ctx context.Context, treeish string, recursive bool) ([]treeEntry, error) {
	args := []string{"ls-tree", "-z", "-l"}
	if recursive {
		args = append(args, "-r", "-t")
	}
	b, err := g.run(ctx, nil, nil, append(args, treeish)...)
	if err != nil {
		return nil, err
	}
	var entries []treeEntry
	for line := range strings.SplitSeq(string(b), "\x00") {
		meta, path, ok := strings.Cut(line, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 4 {
			continue
		}
		size, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil {
			size = 0 // "-" for trees and submodules
		}
		entries = append(entries, treeEntry{Mode: f[0], Type: f[1], OID: f[2], Path: path, Size: size})
	}
	return entries, nil
}

// entry looks one path up in a tree, or errNoObject.
func (g *gitStore) entry(ctx context.Context, treeish, path string) (treeEntry, error) {
	b, err := g.run(ctx, nil, nil, "--literal-pathspecs", "ls-tree", "-z", "-l", treeish, "--", path)
	if err != nil {
		return treeEntry{}, err
	}
	meta, name, ok := strings.Cut(strings.TrimSuffix(string(b), "\x00"), "\t")
	f := strings.Fields(meta)
	if !ok || len(f) != 4 || name != path {
		return treeEntry{}, fmt.Errorf("path %q: %w", path, errNoObject)
	}
	size, err := strconv.ParseInt(f[3], 10, 64)
	if err != nil {
		size = 0
	}
	return treeEntry{Mode: f[0], Type: f[1], OID: f[2], Path: name, Size: size}, nil
}

// modes maps every file of a tree to its mode.
func (g *gitStore) modes(ctx context.Context, treeish string) (map[string]string, error) {
	modes := map[string]string{}
	files, ok, err := g.files(ctx, treeish)
	for path, f := range files {
		modes[path] = f.Mode
	}
	if ok || err != nil {
		return modes, err
	}
	b, err := g.run(ctx, nil, nil, "ls-tree", "-r", "-z", treeish)
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(string(b), "\x00") {
		if meta, path, ok := strings.Cut(line, "\t"); ok {
			modes[path], _, _ = strings.Cut(meta, " ")
		}
	}
	return modes, nil
}

// writeBlobs stores contents and returns their object names in order.
func (g *gitStore) writeBlobs(contents ...[]byte) ([]string, error) {
	oids := make([]string, 0, len(contents))
	for _, data := range contents {
		oid, err := g.writeObject("blob", data)
		if err != nil {
			return nil, err
		}
		oids = append(oids, oid)
	}
	return oids, nil
}

// writeTree applies changes to a tree ("" is the empty one) and returns the
// new tree.
func (g *gitStore) writeTree(ctx context.Context, base string, changes []change) (_ string, err error) {
	if tree, ok, err := g.writeLooseTree(ctx, base, changes); ok || err != nil {
		return tree, err
	}
	dir, err := os.MkdirTemp(g.dir, "index-")
	if err != nil {
		return "", fmt.Errorf("write tree: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	if base != "" {
		if _, err := g.run(ctx, nil, env, "read-tree", base); err != nil {
			return "", err
		}
	}
	// Deletions first: a file may make place for a directory of its name.
	var list strings.Builder
	for _, c := range changes {
		if c.OID == "" {
			list.WriteString("0 " + zeroOID + "\t" + c.Path + "\x00")
		}
	}
	for _, c := range changes {
		if c.OID != "" && c.Mode != modeTree {
			list.WriteString(c.Mode + " " + c.OID + "\t" + c.Path + "\x00")
		}
	}
	if list.Len() > 0 {
		if _, err := g.run(ctx, []byte(list.String()), env, "update-index", "-z", "--index-info"); err != nil {
			return "", err
		}
	}
	for _, c := range changes {
		if c.OID != "" && c.Mode == modeTree {
			if _, err := g.run(ctx, nil, env, "read-tree", "-i", "--prefix="+c.Path+"/", c.OID); err != nil {
				return "", err
			}
		}
	}
	b, err := g.run(ctx, nil, env, "write-tree")
	return strings.TrimSpace(string(b)), err
}

// writeCommit stores a commit object; no ref moves.
func (g *gitStore) writeCommit(c commitObject) (string, error) {
	return g.writeObject("commit", []byte(c.head()+"\n"+c.Message))
}

// signCommit is writeCommit with GitHub's signature.
func (g *gitStore) signCommit(c commitObject) (string, error) {
	// As it is read: parsePerson knows no zones.
	c.Author.When, c.Committer.When = c.Author.When.UTC(), c.Committer.When.UTC()
	signature := strings.ReplaceAll(c.signature(), "\n", "\n ")
	return g.writeObject("commit", []byte(c.head()+"gpgsig "+signature+"\n\n"+c.Message))
}

// head is the commit's headers without its signature.
func (c *commitObject) head() string {
	var b strings.Builder
	b.WriteString("tree " + c.Tree + "\n")
	for _, p := range c.Parents {
		b.WriteString("parent " + p + "\n")
	}
	b.WriteString("author " + c.Author.header() + "\ncommitter " + c.Committer.header() + "\n")
	return b.String()
}

// payload is what is signed of a commit.
func (c *commitObject) payload() string { return c.head() + "\n" + c.Message }

// signature looks like one of GitHub's, and nobody can check it.
func (c *commitObject) signature() string {
	sum := sha256.Sum256([]byte(c.payload()))
	return "-----BEGIN PGP SIGNATURE-----\n\n" + base64.StdEncoding.EncodeToString(sum[:]) +
		"\n-----END PGP SIGNATURE-----\n"
}

// updateRef moves a ref from old to new; zeroOID means absent. A ref that is
// not at old is an error.
func (g *gitStore) updateRef(ctx context.Context, name, newOID, oldOID string) error {
	if ok, err := g.moveLooseRef(name, newOID, oldOID); ok || err != nil {
		return err
	}
	if newOID == zeroOID {
		_, err := g.run(ctx, nil, nil, "update-ref", "-d", name, oldOID)
		return err
	}
	_, err := g.run(ctx, nil, nil, "update-ref", name, newOID, oldOID)
	return err
}

// isAncestor says whether a is reachable from b.
func (g *gitStore) isAncestor(ctx context.Context, a, b string) (bool, error) {
	if isOID(a) && isOID(b) {
		all, err := g.reachable(ctx, b)
		return all[a], err
	}
	_, err := g.run(ctx, nil, nil, "merge-base", "--is-ancestor", a, b)
	if exit := new(proc.ExitError); errors.As(err, &exit) && exit.Code == 1 {
		return false, nil
	}
	return err == nil, err
}

// fileDiff is one changed file between two trees.
type fileDiff struct {
	Path, OldPath        string
	Status               string // added, modified, removed, renamed
	OID                  string // of the new content, of the old where removed
	Additions, Deletions int
	Patch                string
}

// changed lists the files in which two trees (or commits) differ, with renames
// found as GitHub does, and without their patches.
func (g *gitStore) changed(ctx context.Context, from, to string) ([]fileDiff, error) {
	raw, err := g.fixed(ctx, "diff-tree", "-r", "-M", "-z", "--raw", "--abbrev=40", from, to)
	if err != nil {
		return nil, err
	}
	var diffs []fileDiff
	fields := strings.Split(string(raw), "\x00")
	for i := 0; i+1 < len(fields) && strings.HasPrefix(fields[i], ":"); {
		f := strings.Fields(fields[i])
		if len(f) != 5 {
			return nil, fmt.Errorf("git diff-tree: line %q", fields[i])
		}
		d := fileDiff{Path: fields[i+1], OID: f[3], Status: "modified"}
		i += 2
		switch f[4][0] {
		case 'A':
			d.Status = "added"
		case 'D':
			d.Status, d.OID = "removed", f[2]
		case 'R':
			d.Status, d.OldPath, d.Path = "renamed", d.Path, fields[i]
			i++
		}
		diffs = append(diffs, d)
	}
	return diffs, nil
}

// diff is changed with the patches.
func (g *gitStore) diff(ctx context.Context, from, to string) ([]fileDiff, error) {
	diffs, err := g.changed(ctx, from, to)
	if err != nil || len(diffs) == 0 {
		return nil, err
	}
	patch, err := g.fixed(ctx, "diff-tree", "-r", "-M", "-p", "--no-color", "--no-ext-diff", "--no-textconv", from,
		to)
	if err != nil {
		return nil, err
	}
	// git prints the patches in the order of the raw lines.
	parts := strings.Split("\n"+string(patch), "\ndiff --git ")
	for i := range diffs {
		if i+1 >= len(parts) {
			break
		}
		if at := strings.Index(parts[i+1], "\n@@ "); at >= 0 {
			diffs[i].Patch = strings.TrimSuffix(parts[i+1][at+1:], "\n")
		}
		for line := range strings.SplitSeq(diffs[i].Patch, "\n") {
			switch {
			case strings.HasPrefix(line, "+"):
				diffs[i].Additions++
			case strings.HasPrefix(line, "-"):
				diffs[i].Deletions++
			}
		}
	}
	return diffs, nil
}

// mergeTrees merges two commits and returns the tree; ok is false where they
// conflict.
func (g *gitStore) mergeTrees(ctx context.Context, ours, theirs string) (tree string, ok bool, err error) {
	if straight, err := g.isAncestor(ctx, ours, theirs); err != nil {
		return "", false, err
	} else if straight { // nothing is to be merged
		c, err := g.commit(ctx, theirs)
		if err != nil {
			return "", false, err
		}
		return c.Tree, true, nil
	}
	b, err := g.fixed(ctx, "merge-tree", "--write-tree", ours, theirs)
	if exit := new(proc.ExitError); errors.As(err, &exit) && exit.Code == 1 {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	tree, _, _ = strings.Cut(string(b), "\n")
	return tree, true, nil
}
