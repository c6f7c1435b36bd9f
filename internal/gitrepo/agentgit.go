package gitrepo

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/org/ralph-action/internal/fstree"
)

// The agent's disposable repository holds the newest commits of the run's branch
// and, where the tree that the agent is given is not that of the last of them,
// one more with that tree: enough for git log, blame, status, diff and stash
// within one iteration. It has no remote, no tag and no other branch. Its
// objects are packs that are kept beside the host's index (see agentPacks), plus
// loose copies of what is in no commit; all are copied, since what an agent can
// write must not be shared. So preparing it costs a few milliseconds, and a git
// process where the branch has moved by much.

// maxLoose is how many objects beyond git's packs are taken one by one: a pack of
// them costs a git process, about what so many do.
const maxLoose = 100

// maxAgentTree bounds the files of a tree, in bytes, whose agent gets a .git:
// beyond, copying it each iteration would cost more than it helps.
const maxAgentTree = 256 << 20

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
// Where the files of the tree are larger than 256 MiB together there is no .git
// at all, and where the history is, or where the repository lacks some of it,
// there is no history. Where the tip itself is not there and cannot be fetched,
// the history is that of the last tip that was.
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
	if totalSize(x) > maxAgentTree {
		return nil
	}
	git, err := makeDirAt(root, ".git")
	if err != nil {
		return err
	}
	defer func() { _ = git.Close() }()

	a := &agentGit{w: w, stack: &dirStack{root: git}}
	defer a.stack.cut(0)
	note, err := a.objects(ctx, x, h)
	if err != nil {
		return err
	}
	head, err := a.head(x.tree, note)
	if err != nil {
		return err
	}
	config := agentConfig
	if w.repo.algo.name != "sha1" {
		config = strings.Replace(config, "version = 0", "version = 1", 1) +
			"[extensions]\n\tobjectformat = " + w.repo.algo.name + "\n"
	}
	for _, f := range []struct {
		path    string
		content []byte
	}{
		{"config", []byte(config)},
		{"shallow", lines(note.Shallow)},
		{"refs/heads/work", lines([]OID{head})},
		{"HEAD", []byte("ref: refs/heads/work\n")},
	} {
		if len(f.content) == 0 {
			continue
		}
		if err := a.file(f.path, bytes.NewReader(f.content)); err != nil {
			return err
		}
	}
	if x.tree == "" {
		return nil
	}
	return a.copyFile("index", w.index)
}

func lines(oids []OID) []byte {
	var b bytes.Buffer
	for _, oid := range oids {
		fmt.Fprintln(&b, oid)
	}
	return b.Bytes()
}

// agentGit writes one disposable git dir.
type agentGit struct {
	w     *Worktree
	stack *dirStack
}

func (a *agentGit) file(path string, r io.Reader) error {
	dirPath, name := splitPath(path)
	dir, err := a.stack.at(dirPath)
	if err != nil {
		return err
	}
	_, err = a.w.writeAt(dir, name, ModeFile, r)
	return err
}

func (a *agentGit) loose(oid OID, kind string, data []byte) error {
	var b bytes.Buffer
	if err := deflate(&b, kind, int64(len(data)), bytes.NewReader(data)); err != nil {
		return err
	}
	return a.file(loosePlace(oid), &b)
}

func loosePlace(oid OID) string { return "objects/" + string(oid[:2]) + "/" + string(oid[2:]) }

// head is the commit that the agent begins at: the history's tip where that has
// the tree, or else a new one on top of it.
func (a *agentGit) head(tree OID, note packNote) (OID, error) {
	if note.Tip != "" && note.Tree == tree {
		return note.Tip, nil
	}
	parent := ""
	if note.Tip != "" {
		parent = "parent " + string(note.Tip) + "\n"
	}
	why := ""
	if note.Left != "" {
		why = "\nThe history before it is left out: " + note.Left + ".\n"
	}
	commit := fmt.Appendf(nil, "tree %s\n%sauthor ralph <ralph@localhost> %[3]d +0000\n"+
		"committer ralph <ralph@localhost> %[3]d +0000\n\nThe state this iteration starts from\n%s", tree, parent, note.When,
		why)
	oid := a.w.repo.algo.sum(kindCommit, commit)
	return oid, a.loose(oid, kindCommit, commit)
}

// objects copies the objects of the tree and of the history.
func (a *agentGit) objects(ctx context.Context, x *index, h History) (packNote, error) {
	packs, missing, err := a.w.agentPacks(ctx, x, h)
	if err != nil {
		return packNote{}, err
	}
	for _, pack := range packs.all() {
		for _, ext := range []string{".pack", ".idx"} {
			if err := a.copyFile("objects/pack/pack-"+pack+ext, packs.path(pack, ext)); err != nil {
				return packNote{}, err
			}
		}
	}
	return packs.note, a.copyLoose(ctx, missing)
}

// copyLoose copies objects one by one.
func (a *agentGit) copyLoose(ctx context.Context, oids []OID) error {
	var packed []string
	for _, oid := range oids {
		// Both sides keep loose objects in the same form.
		err := a.copyFile(loosePlace(oid), a.w.repo.loose(oid))
		if errors.Is(err, fs.ErrNotExist) {
			packed = append(packed, string(oid))
			continue
		}
		if err != nil {
			return err
		}
	}
	return a.w.repo.batch(ctx, packed, func(i int, o object) error {
		data, err := o.bytes(a.w.MaxFileSize)
		if errors.Is(err, ErrTooLarge) || o.kind == "" {
			return nil
		}
		if err != nil {
			return err
		}
		return a.loose(OID(packed[i]), o.kind, data)
	})
}

func (a *agentGit) copyFile(to, from string) error {
	f, err := os.Open(from) // #nosec G304 -- the host's own file
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return a.file(to, f)
}

func totalSize(x *index) int64 {
	var total int64
	for _, e := range x.entries {
		total += int64(e.stat.size)
	}
	return total
}

// packNames reads the names in a pack's index (version 2, gitformat-pack(5)).
func packNames(a algo, data []byte) (func(OID) bool, error) {
	count, err := packCount(a, data)
	if err != nil {
		return nil, err
	}
	fanout := func(i int) int { return int(binary.BigEndian.Uint32(data[8+4*i:])) }
	names := data[idxHeaderSize : idxHeaderSize+count*a.size]
	return func(oid OID) bool {
		raw, err := hex.DecodeString(string(oid))
		if err != nil || len(raw) != a.size {
			return false
		}
		lo, hi := 0, fanout(int(raw[0]))
		if raw[0] > 0 {
			lo = fanout(int(raw[0]) - 1)
		}
		for lo < hi {
			mid := (lo + hi) / 2
			if mid >= count {
				return false
			}
			switch bytes.Compare(names[mid*a.size:(mid+1)*a.size], raw) {
			case 0:
				return true
			case -1:
				lo = mid + 1
			default:
				hi = mid
			}
		}
		return false
	}, nil
}
