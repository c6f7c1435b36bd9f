package host

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/gob"
	"fmt"
	"io"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/run"
)

// Unfinished keeps work that is in no commit yet, one tree for each run.
type Unfinished interface {
	// Keep stores data in the place of what was kept for the run before.
	Keep(ctx context.Context, id run.ID, tree string, data []byte) error
	// Kept gives it back, nil where that tree is not the one that is kept.
	Kept(ctx context.Context, id run.ID, tree string) ([]byte, error)
}

// maxUnfinished bounds the files of unfinished work that is kept, in bytes. What is
// larger is on this machine alone.
const maxUnfinished = 16 << 20

// packed is a tree as what it changes of another one.
type packed struct {
	Base  gitrepo.OID
	Edits []gitrepo.TreeEdit
}

// pack makes data of a tree; nil for one that changes too much.
func pack(ctx context.Context, repo *gitrepo.Repo, base, tree gitrepo.OID) ([]byte, error) {
	changes, err := repo.Diff(ctx, base, tree)
	if err != nil {
		return nil, err
	}
	p, left := packed{Base: base}, int64(maxUnfinished)
	for _, c := range changes {
		edit := gitrepo.TreeEdit{Path: c.Path, Mode: c.NewMode, Remove: c.Status == gitrepo.Deleted}
		if !edit.Remove {
			if edit.Data, err = repo.Blob(ctx, c.NewOID, left); err != nil {
				return nil, nil //nolint:nilerr // too large, or a submodule: it is on this machine alone
			}
			left -= int64(len(edit.Data))
		}
		p.Edits = append(p.Edits, edit)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := gob.NewEncoder(z).Encode(p); err != nil {
		return nil, fmt.Errorf("pack unfinished work: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack unfinished work: %w", err)
	}
	return b.Bytes(), nil
}

// unpack makes the tree of data again; its base has to be there.
func unpack(ctx context.Context, repo *gitrepo.Repo, data []byte) (gitrepo.OID, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return "", fmt.Errorf("read unfinished work: %w", err)
	}
	var p packed
	if err := gob.NewDecoder(io.LimitReader(z, 4*maxUnfinished)).Decode(&p); err != nil {
		return "", fmt.Errorf("read unfinished work: %w", err)
	}
	if there, err := repo.HasTree(ctx, p.Base); err != nil || !there {
		return "", err
	}
	return repo.TreeWith(ctx, p.Base, p.Edits)
}
