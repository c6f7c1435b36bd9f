package publish

import (
	"context"
	"strings"

	"github.com/rs/zerolog"

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

// setState puts a label of state on an issue or takes it off. It is recorded also where it
// works at once: what was wanted before and still waits is out of date.
func (c *Commenter) setState(ctx context.Context, repo *ghapp.Repo, issue int, label string, on bool) {
	do := doRemoveLabel
	if on {
		do = doAddLabel
	}
	pub := Publisher{GitHub: repo, Effects: c.Effects}
	key := effects.StateLabel(repo.FullName(), issue, label, on, c.Effects.Time())
	if err := pub.weakly(ctx, key, call{Do: do, Number: issue, Name: label}); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("label", label).Bool("on", on).Msg("a label of state was not set")
	}
}

// AddState puts a label of state on an issue. Nothing depends on it.
func (c *Commenter) AddState(ctx context.Context, repo *ghapp.Repo, issue int, state string) {
	c.setState(ctx, repo, issue, c.Label+":"+state, true)
}

// RemoveStates takes off what an earlier run left among the labels of an issue.
func (c *Commenter) RemoveStates(ctx context.Context, repo *ghapp.Repo, issue int, labels []string) {
	for _, l := range StateLabels(c.Label, labels) {
		c.setState(ctx, repo, issue, l, false)
	}
}
