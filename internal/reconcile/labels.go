package reconcile

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
	labelDone       = "done"
	labelPaused     = "paused"
	labelNeedsHuman = "needs-human"
)

// stateLabel is the label of an issue whose run ended like that.
func stateLabel(end run.EndReason, merged bool) string {
	switch {
	case end.Complete() || merged:
		return labelDone
	case end.NeedsPerson():
		return labelNeedsHuman
	default:
		return labelPaused
	}
}

// stateLabels are those of the labels that say how an earlier run ended.
func stateLabels(base string, labels []string) (old []string) {
	for _, l := range labels {
		for _, state := range []string{labelDone, labelPaused, labelNeedsHuman} {
			if strings.EqualFold(l, base+":"+state) {
				old = append(old, l)
			}
		}
	}
	return old
}

// label puts a label of state on an issue. Nothing depends on it.
func (r *Reconciler) label(ctx context.Context, repo *ghapp.Repo, issue int, state string) {
	if err := repo.AddLabels(ghapp.WithPurpose(ctx, "label"), issue, r.cfg.Decoder.Label+":"+state); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Int("issue", issue).Msg("a label of state was not put on")
	}
}

// unlabel takes off what an earlier run left.
func (r *Reconciler) unlabel(ctx context.Context, repo *ghapp.Repo, issue int, labels []string) {
	for _, l := range stateLabels(r.cfg.Decoder.Label, labels) {
		if err := repo.RemoveLabel(ghapp.WithPurpose(ctx, "label"), issue, l); err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Int("issue", issue).Msg("a label of state was not taken off")
		}
	}
}
