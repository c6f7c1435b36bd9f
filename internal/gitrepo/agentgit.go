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
	"path/filepath"
	"strconv"
	"strings"
)

// The agent's disposable repository holds one commit of the tree that was
// exported or last seen, no history and no remote: enough for git status, git
// diff and git stash within one iteration. Its objects are a pack of the tree
// that is made once and kept beside the host's index, plus loose copies of
// what is newer; both are copied, since what an agent can write must not be
// shared. So preparing it costs a few milliseconds, and one git process when
// the pack is made.

// maxLoose is how many objects beyond the pack are copied one by one before a
// new pack is made.
const maxLoose = 500

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

// InitAgentGit gives the directory a fresh .git in place of whatever has that
// name, with the tree of the last Export, Reset or Snapshot as its only
// commit. The host never reads it again. Nothing that the agent does in it has
// a meaning for the host. Where the files of the tree are larger than 256 MiB
// together there is no .git at all.
func (w *Worktree) InitAgentGit(ctx context.Context) error {
	if err := w.initAgentGit(ctx); err != nil {
		return fmt.Errorf("prepare the agent's git: %w", err)
	}
	return nil
}

func (w *Worktree) initAgentGit(ctx context.Context) error {
	x, err := w.load()
	if err != nil {
		return err
	}
	root, err := openDir(w.dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := removeAt(root, ".git"); err != nil {
		return err
	}
	if totalSize(x) > maxAgentTree {
		return nil
	}
	git, err := w.owner.makeDirAt(root, ".git")
	if err != nil {
		return err
	}
	defer func() { _ = git.Close() }()

	commit := "tree " + string(x.tree) + "\n" +
		"author ralph <ralph@localhost> 0 +0000\ncommitter ralph <ralph@localhost> 0 +0000\n\nThe state this iteration starts from\n"
	commitOID := w.repo.algo.sum(kindCommit, []byte(commit))
	a := &agentGit{w: w, stack: &dirStack{root: git, owner: w.owner}}
	defer a.stack.cut(0)
	if err := a.objects(ctx, x); err != nil {
		return err
	}
	if err := a.loose(commitOID, kindCommit, []byte(commit)); err != nil {
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
		{"index", encodeIndex(w.repo.algo, x.entries)},
		{"refs/heads/work", []byte(string(commitOID) + "\n")},
		{"HEAD", []byte("ref: refs/heads/work\n")},
	} {
		if err := a.file(f.path, bytes.NewReader(f.content)); err != nil {
			return err
		}
	}
	return nil
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
	if err := deflate(&b, kind, data); err != nil {
		return err
	}
	return a.file(loosePlace(oid), &b)
}

func loosePlace(oid OID) string { return "objects/" + string(oid[:2]) + "/" + string(oid[2:]) }

// objects copies the tree's objects.
func (a *agentGit) objects(ctx context.Context, x *index) error {
	pack, err := a.w.agentPack(ctx, x, false)
	if err != nil {
		return err
	}
	missing, err := a.w.missingFrom(pack, x)
	if err != nil {
		return err
	}
	if len(missing) > maxLoose {
		if pack, err = a.w.agentPack(ctx, x, true); err != nil {
			return err
		}
		missing = nil
	}
	for _, ext := range []string{".pack", ".idx"} {
		if err := a.copyFile("objects/pack/pack-"+pack.name+ext, pack.path+ext); err != nil {
			return err
		}
	}
	var packed []string
	for _, oid := range missing {
		// Both sides keep loose objects in the same form.
		err := a.copyFile(loosePlace(oid), a.w.repo.loosePath(oid))
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

// agentPack is a pack of a tree's objects that the host keeps to copy from.
type agentPack struct {
	// name is git's, and path that of the files without .pack and .idx.
	name, path string
}

// agentPack returns the pack beside the index, and makes it where there is
// none or a new one is asked for.
func (w *Worktree) agentPack(ctx context.Context, x *index, anew bool) (agentPack, error) {
	dir := w.index + ".agent"
	if !anew {
		idx, err := filepath.Glob(globQuote(dir) + "/pack-*.idx")
		if err == nil && len(idx) == 1 {
			path := strings.TrimSuffix(idx[0], ".idx")
			return agentPack{name: strings.TrimPrefix(filepath.Base(path), "pack-"), path: path}, nil
		}
	}
	if err := RemoveAll(dir); err != nil {
		return agentPack{}, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return agentPack{}, err
	}
	// Deltas are taken over where there are some; looking for more would cost
	// more than the copy does.
	// Git makes a pack in the object directory and renames it, and the
	// repository may be on another file system than our data.
	out, err := w.repo.git.run(ctx, call{
		env: []string{
			"GIT_DIR=" + w.repo.view, "GIT_OBJECT_DIRECTORY=" + dir,
			"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + strconv.Quote(w.repo.objects),
		},
		args:   []string{"pack-objects", "-q", "--revs", "--window=0", filepath.Join(dir, "pack")},
		config: []string{"pack.compression=1"},
		stdin:  strings.NewReader(string(x.tree) + "\n"),
	})
	if err != nil {
		return agentPack{}, err
	}
	name := strings.TrimSpace(string(out))
	if !OID(name).Valid() {
		return agentPack{}, fmt.Errorf("git pack-objects: answered %s", quote(name))
	}
	return agentPack{name: name, path: filepath.Join(dir, "pack-"+name)}, nil
}

func globQuote(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

func totalSize(x *index) int64 {
	var total int64
	for _, e := range x.entries {
		total += int64(e.stat.size)
	}
	return total
}

// missingFrom lists the objects of the index that the pack does not hold.
func (w *Worktree) missingFrom(pack agentPack, x *index) ([]OID, error) {
	data, err := os.ReadFile(pack.path + ".idx") // #nosec G304 -- the host's own file
	if err != nil {
		return nil, err
	}
	holds, err := packNames(w.repo.algo, data)
	if err != nil {
		return nil, err
	}
	var missing []OID
	seen := map[OID]bool{}
	want := func(oid OID) {
		if !seen[oid] && !holds(oid) {
			missing = append(missing, oid)
		}
		seen[oid] = true
	}
	for _, e := range x.entries {
		if e.mode != ModeSubmodule {
			want(e.oid)
		}
	}
	if err := x.nameTrees(&w.repo.store); err != nil {
		return nil, err
	}
	for _, oid := range x.trees {
		want(oid)
	}
	return missing, nil
}

// packNames reads the names in a pack's index (version 2, gitformat-pack(5)).
func packNames(a algo, data []byte) (func(OID) bool, error) {
	const head = 8 + 256*4
	if len(data) < head || string(data[:8]) != "\xfftOc\x00\x00\x00\x02" {
		return nil, errors.New("the index of the agent's pack is broken")
	}
	fanout := func(i int) int { return int(binary.BigEndian.Uint32(data[8+4*i:])) }
	count := fanout(255)
	if count > (len(data)-head)/a.size {
		return nil, errors.New("the index of the agent's pack is broken")
	}
	names := data[head : head+count*a.size]
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
