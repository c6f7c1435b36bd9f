package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/redact"
)

// Limits of what one proposal is searched for secrets, in bytes: one file, all files,
// and those that look like text. Where there is more, the proposal fails for it.
const (
	maxScanFile = 64 << 20
	maxScanAll  = 256 << 20
	maxScanText = 64 << 20
	// binaryHead is how much of a file tells whether it is text.
	binaryHead = 8 << 10
	// maxSuspects bounds what looks like a secret. So many were not all there before.
	maxSuspects = 10_000
	// maxUnsearched bounds the files that are named for not having been searched.
	maxUnsearched = 10
)

// scan searches the files of one side of a change.
type scan struct {
	repo       *gitrepo.Repo
	mask       *redact.Masker
	left, text int64
	search     redact.Search
}

// find gives what looks like a secret in a file. searched is false where it, or all
// that was searched before it, is too large, or made to tire the search. The secrets that the host knows are looked
// for in every file, whatever it looks like; other forms are those of text.
func (s *scan) find(ctx context.Context, oid gitrepo.OID, mode uint32) (_ []redact.Secret, searched bool, _ error) {
	if mode == 0 || mode == gitrepo.ModeSubmodule {
		return nil, true, nil
	}
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	src, err := s.repo.Blob(ctx, oid, min(maxScanFile, s.left))
	if errors.Is(err, gitrepo.ErrTooLarge) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read a changed file: %w", err)
	}
	s.left -= int64(len(src))
	if bytes.IndexByte(src[:min(len(src), binaryHead)], 0) >= 0 {
		return s.mask.FindKnown(ctx, src), ctx.Err() == nil, nil
	}
	if int64(len(src)) > s.text {
		return s.mask.FindKnown(ctx, src), false, nil
	}
	s.text -= int64(len(src))
	found, whole := s.mask.Search(ctx, &s.search, src)
	return found, whole, nil
}

// withoutSecrets masks a progress file in which an agent wrote a secret that the
// host knows. What it wrote is carried on from call to call: refusing it would
// refuse all that follows.
func (h *Host) withoutSecrets(ctx context.Context, doc *progress.Doc) (*progress.Doc, error) {
	known := h.cfg.Mask.FindKnown(ctx, doc.Bytes())
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(known) == 0 {
		return doc, nil
	}
	masked, err := progress.Parse([]byte(h.cfg.Mask.Mask(string(doc.Bytes()))))
	if err != nil {
		return nil, fmt.Errorf("read the masked progress: %w", err)
	}
	return masked, nil
}

// Secrets implements loop.Work. A secret that stood in one of the changed
// files before is no news, wherever it moved.
func (h *Host) Secrets(ctx context.Context, from, to string) ([]gate.Leak, error) {
	repo, err := h.Repo(ctx)
	if err != nil {
		return nil, err
	}
	diff, err := repo.Diff(ctx, gitrepo.OID(from), gitrepo.OID(to))
	if err != nil {
		return nil, fmt.Errorf("compare trees: %w", err)
	}
	now := &scan{repo: repo, mask: h.cfg.Mask, left: maxScanAll, text: maxScanText}
	type suspect struct {
		path   string
		secret redact.Secret
	}
	var suspects []suspect
	var unsearched []gate.Leak
	old := map[string]bool{}
	named := func(path string) []redact.Secret {
		found, _ := h.cfg.Mask.Search(ctx, new(redact.Search), []byte(path))
		return slices.DeleteFunc(found, func(s redact.Secret) bool { return !s.Critical })
	}
	for _, c := range diff {
		if c.NewMode == 0 {
			for _, s := range named(c.Path) {
				old[s.Value] = true
			}
			continue
		}
		found, searched, err := now.find(ctx, c.NewOID, c.NewMode)
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
		if !searched && len(unsearched) < maxUnsearched {
			unsearched = append(unsearched, gate.Leak{Path: h.cfg.Mask.Mask(c.Path), Rule: gate.RuleUnsearched, Critical: true})
		}
		for _, s := range found {
			if len(suspects) == maxSuspects {
				return []gate.Leak{{Path: shown, Line: s.Line, Rule: s.Rule, Critical: s.Critical}}, nil
			}
			suspects = append(suspects, suspect{shown, s})
		}
	}
	if ctx.Err() != nil { // the last of them was not searched
		return nil, context.Cause(ctx)
	}
	if len(suspects) == 0 {
		return unsearched, nil
	}
	then := &scan{repo: repo, mask: h.cfg.Mask, left: maxScanAll, text: maxScanText}
	for _, c := range diff {
		found, _, err := then.find(ctx, c.OldOID, c.OldMode)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			old[s.Value] = true
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var leaks []gate.Leak
	for _, s := range suspects {
		if !old[s.secret.Value] {
			leaks = append(leaks, gate.Leak{Path: s.path, Line: s.secret.Line, Rule: s.secret.Rule, Critical: s.secret.Critical})
		}
	}
	return append(leaks, unsearched...), nil
}
