package inline

import (
	"context"
	"slices"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// mergedNotes are what the plans of this checkout noted whose work a person has merged, the
// newest first: the last commit of the run is on the default branch or, where the work
// stays on the branch that is checked out, on that. The run id itself is left out.
func (c *checkout) mergedNotes(ctx context.Context, st *store.Store, id run.ID) (notes []string, err error) {
	rows, err := st.RunsOfCheckout(ctx, c.repo.Top())
	if err != nil {
		return nil, err
	}
	tips, err := c.mergedTips(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range slices.Backward(rows) {
		if len(notes) == host.MaxNoted {
			break
		}
		s, err := loop.Decode(row.State)
		if err != nil || row.ID == id || s.Head == "" || s.Head == s.Base {
			continue // unreadable, this very run, or nothing that could be merged
		}
		doc, err := progress.Parse([]byte(s.LandedProgress))
		if err != nil || doc.Notes() == "" {
			continue
		}
		for _, tip := range tips {
			merged, err := c.repo.Contains(ctx, tip, gitrepo.OID(s.Head))
			if err != nil {
				return notes, err
			}
			if merged {
				notes = append(notes, doc.Notes())
				break
			}
		}
	}
	return notes, nil
}

// mergedTips are the commits whose history counts as merged.
func (c *checkout) mergedTips(ctx context.Context) ([]gitrepo.OID, error) {
	v, err := c.view(ctx)
	if err != nil {
		return nil, err
	}
	def, _ := v.defaultBranch()
	tips := []gitrepo.OID{v.refs.Here[def], v.refs.Origin[def]}
	if c.here {
		tips = append(tips, v.head)
	}
	return slices.DeleteFunc(tips, func(tip gitrepo.OID) bool { return tip == "" }), nil
}
