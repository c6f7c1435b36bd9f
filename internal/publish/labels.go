package publish

import (
	"context"
	"strings"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
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

// AddState puts a label of state on an issue. It is tried once.
func (c *Commenter) AddState(ctx context.Context, repo *ghapp.Repo, issue int, state string) {
	if err := repo.AddLabels(ghapp.WithPurpose(ctx, "label"), issue, c.Label+":"+state); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("state", state).Msg("a label of state was not put on")
	}
}

// RemoveStates takes off what an earlier run left among the labels of an issue. It is tried once.
func (c *Commenter) RemoveStates(ctx context.Context, repo *ghapp.Repo, issue int, labels []string) {
	for _, l := range StateLabels(c.Label, labels) {
		if err := repo.RemoveLabel(ghapp.WithPurpose(ctx, "label"), issue, l); err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Str("label", l).Msg("a label of state was not taken off")
		}
	}
}
