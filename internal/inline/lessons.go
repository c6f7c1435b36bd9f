package inline

import (
	"context"
	"slices"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// maxUnmerged bounds the lessons that are looked at for whether their work has been
// merged meanwhile.
const maxUnmerged = 200

// markMergedLessons marks the lessons whose work a person has merged since: the newest
// commit of their run is on the default branch or, where the work stays on the branch
// that is checked out, on that.
func (c *checkout) markMergedLessons(ctx context.Context, st *store.Store) error {
	lessons, err := st.UnmergedLessons(ctx, c.repo.Top(), maxUnmerged)
	if err != nil || len(lessons) == 0 {
		return err
	}
	tips, err := c.mergedTips(ctx)
	if err != nil {
		return err
	}
	looked := map[run.ID]bool{}
	for _, l := range lessons { // the newest of each run first
		if l.Commit == "" || looked[l.Run] {
			continue
		}
		looked[l.Run] = true
		for _, tip := range tips {
			merged, err := c.repo.Contains(ctx, tip, gitrepo.OID(l.Commit))
			if err != nil {
				return err
			}
			if merged {
				if err := st.MergeLessons(ctx, c.repo.Top(), l.Run); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
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
