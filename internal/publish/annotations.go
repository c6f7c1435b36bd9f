package publish

import (
	"bytes"
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
)

const (
	// maxAnnotated is the size of a file up to which its lines are counted.
	maxAnnotated = 1 << 20
	// maxAnnotation and maxAnnotationTitle are in characters.
	maxAnnotation      = 500
	maxAnnotationTitle = 80
)

// annotations are what the gates that failed last say of lines of the files at
// the run's head: those that held the work up, and then the advisory ones. A
// gate may have run on work that did not land, so a file that is another one at
// the head is left out. They are an extra: trouble with them is not one of the run.
func (p *Publisher) annotations(ctx context.Context, s loop.State) []ghapp.Annotation {
	var out []ghapp.Annotation
	type checked struct{ tree, path string }
	lines := make(map[checked]int) // of files that were looked at; 0 where there is none to annotate
	add := func(g gate.Result) error {
		for _, at := range gate.Locations(p.Mask.Mask(g.Output)) {
			if len(out) == ghapp.MaxAnnotations {
				return nil
			}
			file := checked{g.Tree, at.Path}
			n, known := lines[file]
			if !known {
				var err error
				if n, err = p.countLines(ctx, s.HeadTree, file.tree, file.path); err != nil {
					return err
				}
				lines[file] = n
			}
			message := Plain(p.Mask.Mask, at.Message, maxAnnotation)
			if at.Line > n || message == "" {
				continue
			}
			out = append(out, ghapp.Annotation{
				Path: at.Path, Line: at.Line, Column: at.Column, Failure: g.Verdict.Standing.Holds(),
				Title: Plain(p.Mask.Mask, g.Gate, maxAnnotationTitle), Message: message,
			})
		}
		return nil
	}
	for _, holds := range []bool{true, false} {
		for _, g := range s.GateLast {
			if g.Passed || g.Verdict.Standing.Holds() != holds || !holds && g.Verdict.Standing != gate.Noted {
				continue
			}
			if err := add(g); err != nil {
				zerolog.Ctx(ctx).Warn().Err(err).Msg("what the gates say of lines was not looked up")
				return out
			}
		}
	}
	return out
}

// countLines is how many lines a file has in the head's tree, 0 where there is none, it is
// another one in the tree that was checked, or it is too large to be looked at.
func (p *Publisher) countLines(ctx context.Context, head, tree, path string) (int, error) {
	repo, err := p.Objects(ctx)
	if err != nil {
		return 0, err
	}
	var data [2][]byte
	for i, oid := range []string{head, tree} {
		data[i], err = repo.ReadFile(ctx, gitrepo.OID(oid), path, maxAnnotated)
		if errors.Is(err, gitrepo.ErrNotFound) || errors.Is(err, gitrepo.ErrTooLarge) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
	}
	if !bytes.Equal(data[0], data[1]) {
		return 0, nil
	}
	n := bytes.Count(data[0], []byte("\n"))
	if len(data[0]) > 0 && !bytes.HasSuffix(data[0], []byte("\n")) {
		n++
	}
	return n, nil
}
