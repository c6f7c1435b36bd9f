package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/redact"
)

// Limits of what one proposal is searched for secrets: larger files are data,
// and the rest of a larger change is not looked at.
const (
	maxScanFile = 8 << 20
	maxScanAll  = 64 << 20
)

// withoutSecrets masks a progress file in which an agent wrote a secret that the
// host knows. What it wrote is carried on from call to call: refusing it would
// refuse all that follows.
func (h *Host) withoutSecrets(doc *progress.Doc) (*progress.Doc, error) {
	known := slices.ContainsFunc(h.cfg.Mask.Find(doc.Bytes()),
		func(s redact.Secret) bool { return s.Rule == redact.Known })
	if !known {
		return doc, nil
	}
	masked, err := progress.Parse([]byte(h.cfg.Mask.Mask(string(doc.Bytes()))))
	if err != nil {
		return nil, fmt.Errorf("read the masked progress: %w", err)
	}
	return masked, nil
}

// Secrets implements loop.Trees. A secret that stood in one of the changed
// files before is no news, wherever it moved.
func (h *Host) Secrets(ctx context.Context, from, to string) ([]gate.Leak, error) {
	repo, _, err := h.worktree(ctx)
	if err != nil {
		return nil, err
	}
	diff, err := repo.Diff(ctx, gitrepo.OID(from), gitrepo.OID(to))
	if err != nil {
		return nil, fmt.Errorf("compare trees: %w", err)
	}
	left := int64(maxScanAll)
	scan := func(oid gitrepo.OID, mode uint32) ([]redact.Secret, error) {
		if mode != gitrepo.ModeFile && mode != gitrepo.ModeExecutable || left <= 0 {
			return nil, nil
		}
		src, err := repo.Blob(ctx, oid, maxScanFile)
		if errors.Is(err, gitrepo.ErrTooLarge) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read a changed file: %w", err)
		}
		left -= int64(len(src))
		return h.cfg.Mask.Find(src), nil
	}
	type suspect struct {
		path   string
		secret redact.Secret
	}
	var suspects []suspect
	old := map[string]bool{}
	named := func(path string) []redact.Secret {
		return slices.DeleteFunc(h.cfg.Mask.Find([]byte(path)), func(s redact.Secret) bool { return !s.Critical })
	}
	for _, c := range diff {
		if c.NewMode == 0 {
			for _, s := range named(c.Path) {
				old[s.Value] = true
			}
			continue
		}
		found, err := scan(c.NewOID, c.NewMode)
		if err != nil {
			return nil, err
		}
		shown := c.Path
		if c.OldMode == 0 {
			for _, s := range named(c.Path) {
				s.Line, shown = 0, h.cfg.Mask.Mask(c.Path)
				found = append(found, s)
			}
		}
		for _, s := range found {
			suspects = append(suspects, suspect{shown, s})
		}
	}
	if len(suspects) == 0 {
		return nil, nil
	}
	left = maxScanAll
	for _, c := range diff {
		found, err := scan(c.OldOID, c.OldMode)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			old[s.Value] = true
		}
	}
	var leaks []gate.Leak
	for _, s := range suspects {
		if !old[s.secret.Value] {
			leaks = append(leaks, gate.Leak{Path: s.path, Line: s.secret.Line, Rule: s.secret.Rule, Critical: s.secret.Critical})
		}
	}
	return leaks, nil
}
