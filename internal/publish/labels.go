package publish

import (
	"context"
	"strings"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/run"
)

// The labels of state, behind the name of the label that starts runs and a
// colon. At most one of them is on an issue; none is while a run is at work.
const (
	LabelDone       = "done"
	LabelPaused     = "paused"
	LabelNeedsHuman = "needs-human"
)

// StateLabel is the label of an issue whose run ended like that.
func StateLabel(end run.EndReason, merged bool) string {
	switch {
	case end.Complete() || merged:
		return LabelDone
	case end.NeedsPerson():
		return LabelNeedsHuman
	default:
		return LabelPaused
	}
}

// StateLabels are those of the labels that say how an earlier run ended; base is
// the label that starts runs.
func StateLabels(base string, labels []string) (old []string) {
	for _, l := range labels {
		for _, state := range []string{LabelDone, LabelPaused, LabelNeedsHuman} {
			if strings.EqualFold(l, base+":"+state) {
				old = append(old, l)
			}
		}
	}
	return old
}

// AddState puts a label of state on an issue. Nothing depends on it.
func (c *Commenter) AddState(ctx context.Context, repo *ghapp.Repo, issue int, state string) {
	label := c.Label + ":" + state
	c.try(ctx, repo, effects.StateLabel(repo.FullName(), issue, label, true, c.Effects.Time()),
		call{Do: doAddLabel, Number: issue, Name: label}, "a label of state was not put on")
}

// RemoveStates takes off what an earlier run left among the labels of an issue.
func (c *Commenter) RemoveStates(ctx context.Context, repo *ghapp.Repo, issue int, labels []string) {
	for _, l := range StateLabels(c.Label, labels) {
		c.try(ctx, repo, effects.StateLabel(repo.FullName(), issue, l, false, c.Effects.Time()),
			call{Do: doRemoveLabel, Number: issue, Name: l}, "a label of state was not taken off")
	}
}
