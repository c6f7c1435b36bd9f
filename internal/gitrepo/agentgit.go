package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/fstree"
)

// The agent's disposable repository holds the newest commits of the run's branch
// and, where the tree that the agent is given is not that of the last of them,
// one more with that tree: enough for git log, blame, status, diff and stash
// within one iteration. It has no remote, no tag and no other branch. It is a copy of a
// shallow clone that the host keeps beside its index, since what an agent can write
// must not be shared.

const (
	// maxAgentTree bounds the files of a tree, in bytes, whose agent gets a .git, and
	// maxAgentPast the objects of its history: beyond, copying them each iteration would
	// cost more than they help.
	maxAgentTree = 256 << 20
	maxAgentPast = 256 << 20
	// maxAgentPacks is how many packs a clone has before it is made anew.
	maxAgentPacks = 32
)

// agentConfig is what the agent's git starts with.
const agentConfig = `[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logallrefupdates = true
[user]
	name = agent
	email = agent@localhost
[gc]
	auto = 0
[maintenance]
	auto = false
`

// History is the part of a branch that an agent's repository shows.
type History struct {
	// Tip is the branch's newest commit; "" shows none.
	Tip OID
	// Depth is how deep it goes, as in git clone --depth; 0 shows none.
	Depth int
	// Fetch brings the tip where it is not there; nil where nobody can.
	Fetch func(ctx context.Context) error
}

// InitAgentGit gives the directory a fresh .git in place of whatever has that
// name, with the tree of the last Export, Reset or Snapshot on top of the
// history. The host never reads it again. Nothing that the agent does in it has
// a meaning for the host.
//
// Where the files of the tree are larger than 256 MiB together, or git refuses a name in
// it, there is no .git at all, and where the history is too large, or the repository lacks
// some of it, there is no history.
func (w *Worktree) InitAgentGit(ctx context.Context, h History) error {
	if err := w.initAgentGit(ctx, h); err != nil {
		return fmt.Errorf("prepare the agent's git: %w", err)
	}
	return nil
}

func (w *Worktree) initAgentGit(ctx context.Context, h History) error {
	x, err := w.load()
	if err != nil {
		return err
	}
	root, err := openDir(w.dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := fstree.RemoveAt(ctx, root, ".git"); err != nil {
		return err
	}
	total := int64(0)
	for _, e := range x.entries {
		if !e.Filled {
			total += int64(e.Stat.Size)
		}
	}
	if total > maxAgentTree {
		return nil
	}
	c := &agentClone{repo: w.repo, dir: w.index + ".git", index: x}
	if err := c.follow(ctx, h); errors.Is(err, errNames) {
		return nil
	} else if err != nil {
		return err
	}
	git, err := makeDirAt(root, ".git")
	if err != nil {
		return err
	}
	defer func() { _ = git.Close() }()
	return c.copyTo(git)
}

// agentClone is the bare repository that agents' ones are copies of.
type agentClone struct {
	repo  *Repo
	dir   string
	index *index
}

// follow brings the clone up to date.
func (c *agentClone) follow(ctx context.Context, h History) error {
	// A file says that the clone is whole, and why it has no history if it cannot have one.
	whole := filepath.Join(c.dir, "whole")
	without, err := os.ReadFile(whole) // #nosec G304 -- the host's own file
	packs, _ := filepath.Glob(filepath.Join(c.dir, "objects/pack/*.pack"))
	if err != nil || len(packs) >= maxAgentPacks {
		err = fstree.RemoveAll(c.dir)
	} else {
		err = os.Remove(whole)
	}
	if err != nil {
		return err
	}
	var tip OID
	if h.Depth > 0 && len(without) == 0 {
		if tip, err = c.tip(ctx, h); err != nil {
			return err
		}
	}
	err = c.fetch(ctx, tip, h.Depth, string(without))
	if tip != "" && ctx.Err() == nil && (exitCode(err) >= 0 || errors.Is(err, ErrTooLarge)) {
		without = []byte("the repository holds only a part of it, or it is too large")
		if err = fstree.RemoveAll(c.dir); err == nil {
			err = c.fetch(ctx, "", 0, string(without))
		}
	}
	if err != nil {
		return err
	}
	return replaceFile(whole, without)
}

// tip is the newest commit of the history, "" where it is not there.
func (c *agentClone) tip(ctx context.Context, h History) (OID, error) {
	for try := range 2 {
		_, err := c.repo.TreeOf(ctx, h.Tip)
		if !errors.Is(err, ErrNotFound) {
			return h.Tip, err
		}
		if try > 0 || h.Fetch == nil {
			break
		}
		if err := h.Fetch(ctx); err != nil && ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	return "", nil
}

// fetch brings HEAD with its history into the clone, and makes the index of it.
func (c *agentClone) fetch(ctx context.Context, tip OID, depth int, without string) error {
	if err := makeBare(c.dir); err != nil {
		return err
	}
	head, depth, err := c.head(ctx, tip, depth, without)
	if err != nil {
		return err
	}
	git := func(stdin io.Reader, args ...string) error {
		_, err := c.repo.git.run(ctx, call{
			args: args, stdin: stdin,
			env:    []string{"GIT_DIR=" + c.dir, "GIT_INDEX_FILE=" + filepath.Join(c.dir, "index"), "GIT_WORK_TREE=" + c.dir},
			config: []string{"protocol.file.allow=always", "fetch.unpackLimit=1", "pack.writeReverseIndex=false"},
		})
		return err
	}
	err = git(nil,
		"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--update-shallow", "--force",
		fmt.Sprintf("--depth=%d", depth), "--end-of-options", c.repo.view, string(head)+":refs/heads/work")
	if err != nil {
		return err
	}
	size, err := fileBytes(filepath.Join(c.dir, "objects"))
	if err == nil && tip != "" && size > maxAgentTree+maxAgentPast {
		err = fmt.Errorf("the history: %w", ErrTooLarge)
	}
	if err != nil {
		return err
	}
	if err := git(nil, "read-tree", string(c.index.tree)); exitCode(err) == 128 {
		return errNames
	} else if err != nil {
		return err
	}
	var missing bytes.Buffer
	for _, e := range c.index.entries {
		if (e.Withheld && e.Mode != ModeSubmodule || e.Filled) && e.Submodule == "" {
			missing.WriteString(e.Path + "\x00")
		}
	}
	if missing.Len() == 0 {
		return nil
	}
	return git(&missing, "update-index", "-z", "--skip-worktree", "--stdin")
}

// errNames: git refuses to put names of the tree into an index.
var errNames = errors.New("the tree holds names that git refuses")

// head is the commit that the agent begins at: the history's tip where that has
// the tree, or else a new one on top of it.
func (c *agentClone) head(ctx context.Context, tip OID, depth int, without string) (OID, int, error) {
	spec := CommitSpec{
		Tree: c.index.tree, Message: "The state this iteration starts from", Author: Person{"ralph", "ralph@localhost"},
		When: time.Unix(0, 0).UTC(),
	}
	if without != "" {
		spec.Message += "\n\nThe history before it is left out: " + without + "."
	}
	if tip == "" {
		depth = 0
	} else {
		info, err := c.repo.CommitInfo(ctx, tip)
		if err != nil || info.Tree == spec.Tree {
			return tip, depth, err
		}
		spec.Parents, spec.When = []OID{tip}, info.When
	}
	oid, err := c.repo.CommitTree(ctx, spec)
	return oid, depth + 1, err
}

// copyTo copies what an agent may have of the clone.
func (c *agentClone) copyTo(git *os.File) error {
	stack := &dirStack{root: git}
	defer func() { stack.cut(0) }()
	write := func(path string, r io.Reader) error {
		dirPath, name := splitPath(path)
		dir, err := stack.at(dirPath)
		if err != nil {
			return err
		}
		_, err = writeAt(dir, name, ModeFile, r)
		return err
	}
	packs, err := filepath.Glob(filepath.Join(c.dir, "objects/pack/pack-*"))
	if err != nil {
		return err
	}
	for _, path := range append(packs, filepath.Join(c.dir, "refs/heads/work"), filepath.Join(c.dir, "shallow"),
		filepath.Join(c.dir, "index")) {
		f, err := os.Open(path) // #nosec G304 -- the host's own file
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = write(strings.TrimPrefix(path, c.dir+"/"), f)
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return errors.Join(write("config", strings.NewReader(agentConfig)), write("HEAD", strings.NewReader("ref: refs/heads/work\n")))
}
