package gitrepo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxAgentPast bounds the packs of a history, in bytes: they are copied for
	// each agent.
	maxAgentPast = 256 << 20
	// maxAgentPacks is how many packs are kept before one is made of them all.
	maxAgentPacks = 16
)

// agentPacks are the packs, in a directory of the host's own beside its index,
// that agents' repositories are copied from, and what is noted of them.
type agentPacks struct {
	w    *Worktree
	dir  string
	note packNote
	// holds are the lookups of the packs, and few is that of the one of few objects, which
	// has so many.
	holds    []func(OID) bool
	few      func(OID) bool
	fewCount int
}

// packNote is what is noted of the packs. A pack that it does not name is one
// whose making was cut off.
type packNote struct {
	// Depth is that of the History, and Tip its commit, of this tree and time.
	Depth int   `json:"depth"`
	Tip   OID   `json:"tip,omitempty"`
	Tree  OID   `json:"tree,omitempty"`
	When  int64 `json:"when,omitempty"`
	// Shallow are the commits whose parents are left out.
	Shallow []OID `json:"shallow,omitempty"`
	// Commits are those that are held with all they consist of.
	Commits map[OID]pastCommit `json:"commits,omitempty"`
	// Left says why there is no history though one was asked for. It is not
	// tried again.
	Left string `json:"left,omitempty"`
	// Packs are git's names of the packs that it made. Few is that of the one with the few
	// objects of commits that are not worth such a pack yet; see fewPack.
	Packs []string `json:"packs,omitempty"`
	Few   string   `json:"few,omitempty"`
}

func (p *agentPacks) path(pack, ext string) string { return filepath.Join(p.dir, "pack-"+pack+ext) }
func (p *agentPacks) noteFile() string             { return filepath.Join(p.dir, "kept.json") }

// all are the packs that an agent's repository has.
func (p *agentPacks) all() []string {
	if p.note.Few == "" {
		return p.note.Packs
	}
	return append(slices.Clip(p.note.Packs), p.note.Few)
}

// agentPacks brings the packs up to date with the history and the tree of the
// index. What they lack is so little that it is copied one by one.
func (w *Worktree) agentPacks(ctx context.Context, x *index, h History) (p *agentPacks, missing []OID, err error) {
	p = &agentPacks{w: w, dir: w.index + ".agent"}
	if err := p.open(h.Depth); err != nil {
		return nil, nil, err
	}
	if h.Depth > 0 && h.Tip != "" && h.Tip != p.note.Tip && p.note.Left == "" {
		if err := p.follow(ctx, h); err != nil {
			return nil, nil, err
		}
	}
	if len(p.note.Packs) == 0 {
		return p, nil, p.add(ctx, string(x.tree)+"\n")
	}
	missing, loose, err := p.lacking(x.tree)
	if err != nil || loose {
		return p, missing, err
	}
	want := string(x.tree) + "\n"
	if p.note.Tip == "" {
		if err := p.clear(); err != nil {
			return nil, nil, err
		}
	} else {
		want = fmt.Sprintf("--shallow %s\n%s^%s\n", p.note.Tip, want, p.note.Tip)
	}
	return p, nil, p.add(ctx, want)
}

// lacking lists the objects of commits and trees that no pack holds. It says false
// where they are too many to be taken one by one, or packed in the repository.
func (p *agentPacks) lacking(roots ...OID) (_ []OID, loose bool, err error) {
	found := map[OID]bool{}
	for _, root := range roots {
		err := p.walk(root, found)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrTooLarge) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return slices.Sorted(maps.Keys(found)), true, nil
}

// walk adds what a commit or tree consists of, as far as no pack holds it.
// fs.ErrNotExist where some of it is no loose object, ErrTooLarge where it is too
// many.
func (p *agentPacks) walk(oid OID, found map[OID]bool) error {
	if found[oid] || p.has(oid) {
		return nil
	}
	repo := p.w.repo
	kind, data, err := repo.readLoose(oid, maxTree)
	if err != nil {
		return err
	}
	found[oid] = true
	if kind == kindCommit {
		info, err := parseCommit(oid, data)
		if err != nil {
			return err
		}
		return p.walk(info.Tree, found)
	}
	items, err := parseTree(repo.algo, data)
	if err != nil {
		return err
	}
	for _, item := range items {
		switch {
		case item.mode == ModeSubmodule || found[item.oid]:
		case item.isDir():
			if err := p.walk(item.oid, found); err != nil {
				return err
			}
		case !p.has(item.oid):
			if _, err := os.Lstat(repo.loose(item.oid)); err != nil {
				return err
			}
			found[item.oid] = true
		}
		if p.fewCount+len(found) > maxLoose {
			return ErrTooLarge
		}
	}
	return nil
}

// open reads what is kept, and begins anew where that is of no use any more.
func (p *agentPacks) open(depth int) error {
	data, err := os.ReadFile(p.noteFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if json.Unmarshal(data, &p.note) != nil { // none, or cut when the power failed
		p.note = packNote{Depth: -1}
	}
	if p.note.Depth == depth && len(p.note.Packs) < maxAgentPacks {
		if err = p.load(p.note.Packs); err == nil && p.note.Few != "" {
			err = p.loadFew()
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errBrokenPack) {
			return err
		}
	}
	left := p.note.Left
	if p.note.Depth != depth {
		left = ""
	}
	if err := p.clear(); err != nil {
		return err
	}
	p.note.Depth, p.note.Left = depth, left
	return nil
}

// clear takes the packs away, and leaves of the note what was asked for.
func (p *agentPacks) clear() error {
	if err := RemoveAll(p.dir); err != nil {
		return err
	}
	p.note, p.holds = packNote{Depth: p.note.Depth, Left: p.note.Left}, nil
	p.few, p.fewCount = nil, 0
	return os.Mkdir(p.dir, 0o700)
}

func (p *agentPacks) load(packs []string) error {
	for _, pack := range packs {
		data, err := os.ReadFile(p.path(pack, ".idx"))
		if err != nil {
			return err
		}
		holds, err := packNames(p.w.repo.algo, data)
		if err != nil {
			return err
		}
		p.holds = append(p.holds, holds)
	}
	return nil
}

func (p *agentPacks) loadFew() error {
	data, err := os.ReadFile(p.path(p.note.Few, ".idx"))
	if err != nil {
		return err
	}
	if p.few, err = packNames(p.w.repo.algo, data); err != nil {
		return err
	}
	p.fewCount, err = packCount(p.w.repo.algo, data)
	return err
}

// extend puts objects that are loose into the pack of few. ErrTooLarge where they are
// for git to pack.
func (p *agentPacks) extend(oids []OID) error {
	repo := p.w.repo
	f := newFewPack(repo.algo)
	if p.note.Few != "" {
		pack, err := os.ReadFile(p.path(p.note.Few, ".pack"))
		if err != nil {
			return err
		}
		idx, err := os.ReadFile(p.path(p.note.Few, ".idx"))
		if err != nil {
			return err
		}
		if f, err = readFewPack(repo.algo, pack, idx); err != nil {
			return err
		}
	}
	for _, oid := range oids {
		kind, data, err := repo.readLoose(oid, maxFewBytes)
		if err == nil {
			err = f.add(oid, kind, data)
		}
		if err != nil {
			return err
		}
	}
	name, pack, idx := f.finish()
	if err := replaceFile(p.path(name, ".pack"), pack); err != nil {
		return err
	}
	p.note.Few = name
	if err := replaceFile(p.path(name, ".idx"), idx); err != nil {
		return err
	}
	return p.loadFew()
}

func (p *agentPacks) save() error {
	data, err := json.Marshal(p.note)
	if err != nil {
		return err
	}
	return replaceFile(p.noteFile(), data)
}

// follow takes in the commits that are new, after the branch moved. Where the
// commit is not here, the history stays that of the commit before; where git
// cannot give it, or it is too large to be copied for each agent, there is none.
func (p *agentPacks) follow(ctx context.Context, h History) error {
	now, err := p.w.repo.past(ctx, h.Tip, h.Depth, p.note.Commits)
	if errors.Is(err, ErrNotFound) && h.Fetch != nil && h.Fetch(ctx) == nil {
		now, err = p.w.repo.past(ctx, h.Tip, h.Depth, p.note.Commits)
	}
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		err = p.hold(ctx, h.Tip, now)
	}
	switch {
	case exitCode(err) == 128:
		return p.leave("the repository holds only a part of it")
	case err != nil:
		return err
	}
	size, err := p.size()
	if err == nil && size > maxAgentPast {
		return p.leave(fmt.Sprintf("it is larger than %d MiB", maxAgentPast>>20))
	}
	return err
}

// hold notes a history, and takes in those of its commits that are not held: in a
// pack of git's, or where they are few, in that of few.
func (p *agentPacks) hold(ctx context.Context, tip OID, now *past) error {
	commits, packed := map[OID]pastCommit{}, map[OID]bool{}
	for oid, c := range p.note.Commits {
		commits[oid], packed[oid] = c, !c.Loose
	}
	fresh := slices.DeleteFunc(slices.Clone(now.commits), func(oid OID) bool {
		_, held := commits[oid]
		return held
	})
	loose, few, err := p.lacking(fresh...)
	if err != nil {
		return err
	}
	before := p.note.Few
	if few = few && len(p.note.Packs) > 0; few && len(loose) > 0 {
		err = p.extend(loose)
		if few = err == nil; err != nil && !errors.Is(err, ErrTooLarge) && !errors.Is(err, errBrokenPack) {
			return err
		}
	}
	if !few {
		maps.DeleteFunc(commits, func(oid OID, _ pastCommit) bool { return !packed[oid] })
		fresh, p.note.Few, p.few, p.fewCount = now.commits, "", nil, 0
	}
	for _, oid := range fresh {
		if !packed[oid] {
			c := now.known[oid]
			c.Loose = few
			commits[oid] = c
		}
	}
	is := now.known[tip]
	p.note.Tip, p.note.Tree, p.note.When, p.note.Shallow = tip, is.Tree, is.When, now.boundary
	p.note.Commits = commits
	if few {
		err = p.save()
	} else {
		err = p.add(ctx, now.beyond(packed))
	}
	if err != nil || before == "" || before == p.note.Few {
		return err
	}
	return errors.Join(os.Remove(p.path(before, ".pack")), os.Remove(p.path(before, ".idx")))
}

func (p *agentPacks) leave(why string) error {
	p.note.Left = why
	return p.clear()
}

func (p *agentPacks) size() (total int64, err error) {
	for _, pack := range p.all() {
		info, err := os.Stat(p.path(pack, ".pack"))
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	return total, nil
}

// add makes a pack of the objects that are asked for, in the words of git
// pack-objects --revs.
func (p *agentPacks) add(ctx context.Context, want string) error {
	repo := p.w.repo
	// Deltas are taken over where there are some; looking for more would cost
	// more than the copy does.
	// Git makes a pack in the object directory and renames it, and the
	// repository may be on another file system than our data.
	out, err := repo.git.run(ctx, call{
		env: []string{
			"GIT_DIR=" + repo.view, "GIT_OBJECT_DIRECTORY=" + p.dir,
			"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + repo.alternates(),
		},
		args: []string{
			"pack-objects", "-q", "--revs", "--window=0", "--delta-base-offset", filepath.Join(p.dir, "pack"),
		},
		config: []string{"pack.compression=1"},
		stdin:  strings.NewReader(want),
	})
	if err != nil {
		return err
	}
	name := strings.TrimSpace(string(out))
	if !OID(name).Valid() {
		return fmt.Errorf("git pack-objects: answered %s", quote(name))
	}
	if err := p.load([]string{name}); err != nil {
		return err
	}
	if !slices.Contains(p.note.Packs, name) {
		p.note.Packs = append(p.note.Packs, name)
	}
	return p.save()
}

func (p *agentPacks) has(oid OID) bool {
	return p.few != nil && p.few(oid) || slices.ContainsFunc(p.holds, func(holds func(OID) bool) bool { return holds(oid) })
}
