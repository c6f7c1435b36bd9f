package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxPast bounds the commits of a History: where a level of merges would go
// beyond, it ends before that level.
const maxPast = 10_000

// pastCommit is what a commit says of where it stands.
type pastCommit struct {
	Tree    OID   `json:"tree"`
	When    int64 `json:"when"`
	Parents []OID `json:"parents,omitempty"`
	// Loose: none of the agents' packs that git made holds it.
	Loose bool `json:"loose,omitempty"`
}

// past is the newest part of a history, as deep as git clone --depth takes it.
type past struct {
	known map[OID]pastCommit
	// commits begin with the tip; each comes before those deeper than it.
	commits []OID
	// boundary are the commits whose parents are left out.
	boundary []OID
	// patience is how many more loose commits are read before git is asked.
	patience int
}

// past reads the commits that are fewer than depth steps away from the tip, but
// for those that are known. ErrNotFound where there is no such commit here.
func (r *Repo) past(ctx context.Context, tip OID, depth int, known map[OID]pastCommit) (*past, error) {
	if !r.algo.owns(tip) {
		return nil, fmt.Errorf("history of %s: %w", quote(string(tip)), ErrNotFound)
	}
	cut, err := r.shallow()
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", tip, err)
	}
	p := &past{known: maps.Clone(known), patience: maxLoose}
	if p.known == nil {
		p.known = map[OID]pastCommit{}
	}
	seen := map[OID]bool{tip: true}
	for level, last := []OID{tip}, false; len(level) > 0 && !last; depth-- {
		if err := p.learn(ctx, r, level, depth); err != nil {
			return nil, fmt.Errorf("history of %s: %w", tip, err)
		}
		p.commits = append(p.commits, level...)
		next := p.parentsOf(level, seen)
		last = depth == 1 || len(p.commits)+len(next) > maxPast
		for _, oid := range level {
			if cut[oid] || last && len(p.known[oid].Parents) > 0 {
				p.boundary = append(p.boundary, oid)
			}
		}
		level = next
	}
	slices.Sort(p.boundary)
	return p, nil
}

// parentsOf lists the parents of commits that were not seen before.
func (p *past) parentsOf(commits []OID, seen map[OID]bool) []OID {
	var parents []OID
	for _, oid := range commits {
		for _, parent := range p.known[oid].Parents {
			if !seen[parent] {
				seen[parent] = true
				parents = append(parents, parent)
			}
		}
	}
	return parents
}

// learn reads the commits that are not known yet: the newest, which are loose,
// by themselves; the others most often with all that are needed after them, by
// one process; old side branches one level at a time.
func (p *past) learn(ctx context.Context, r *Repo, commits []OID, depth int) error {
	for _, oid := range commits {
		if _, known := p.known[oid]; known || p.patience == 0 {
			continue
		}
		p.patience--
		kind, data, err := r.readLoose(oid, maxCommit)
		if err != nil || kind != kindCommit {
			continue // git finds it, or says what is wrong
		}
		info, err := parseCommit(oid, data)
		if err != nil {
			return err
		}
		p.known[oid] = pastCommit{Tree: info.Tree, When: committed(data), Parents: info.Parents}
	}
	for _, arg := range []string{fmt.Sprintf("--max-count=%d", 2*depth+100), "--no-walk=unsorted"} {
		var ask bytes.Buffer
		for _, oid := range commits {
			if _, known := p.known[oid]; !known {
				fmt.Fprintln(&ask, oid)
			}
		}
		if ask.Len() == 0 {
			return nil
		}
		out, err := r.refs(ctx, call{
			args:  []string{"rev-list", "--no-commit-header", "--format=%H %T %ct %P", arg, "--stdin"},
			stdin: &ask,
		})
		if exitCode(err) == 128 && strings.Contains(stderrOf(err), "bad object") {
			return fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		if err != nil {
			return err
		}
		if err := p.parse(string(out)); err != nil {
			return err
		}
	}
	return nil
}

// committed is when a commit was made, in seconds.
func committed(commit []byte) int64 {
	head, _, _ := strings.Cut(string(commit), "\n\n")
	_, line, _ := strings.Cut(head, "\ncommitter ")
	line, _, _ = strings.Cut(line, "\n")
	_, when := parseSignature(line)
	return when.Unix()
}

func (p *past) parse(out string) error {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return fmt.Errorf("git rev-list: answered %s", quote(line))
		}
		when, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			return fmt.Errorf("git rev-list: answered %s", quote(line))
		}
		c := pastCommit{Tree: OID(fields[1]), When: when}
		for _, parent := range fields[3:] {
			c.Parents = append(c.Parents, OID(parent))
		}
		p.known[OID(fields[0])] = c
	}
	return nil
}

// shallow lists the commits whose parents the repository itself does not have,
// being a clone of a part.
func (r *Repo) shallow() (map[OID]bool, error) {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(r.objects), "shallow")) // #nosec G304 -- the host's own file
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	cut := map[OID]bool{}
	for line := range strings.Lines(string(data)) {
		cut[OID(strings.TrimSpace(line))] = true
	}
	return cut, nil
}

// beyond is what git pack-objects has to be asked for the commits that are not
// held, with all they consist of: "" where there are none. Of those that are
// held every object is there, so that nothing of them is needed, and nobody has
// to look behind them.
func (p *past) beyond(held map[OID]bool) string {
	ends, fresh, base := map[OID]bool{}, []OID{}, []OID{}
	for _, oid := range p.boundary {
		ends[oid] = true
	}
	var cut strings.Builder
	for _, oid := range p.commits {
		if held[oid] {
			continue
		}
		fresh = append(fresh, oid)
		if ends[oid] {
			fmt.Fprintf(&cut, "--shallow %s\n", oid)
			continue
		}
		for _, parent := range p.known[oid].Parents {
			if held[parent] {
				fmt.Fprintf(&cut, "--shallow %s\n", parent)
				base = append(base, parent)
			}
		}
	}
	if len(fresh) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(cut.String())
	for _, oid := range fresh {
		fmt.Fprintln(&b, oid)
	}
	for _, oid := range base {
		fmt.Fprintf(&b, "^%s\n", oid)
	}
	return b.String()
}
