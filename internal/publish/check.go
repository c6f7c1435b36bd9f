package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/effects"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/progress/island"
	"github.com/org/ralph-action/internal/run"
)

// CheckName is the name of the check run, which a branch rule may require.
const CheckName = "Ralph"

// CheckOn says where a check run belongs.
type CheckOn struct {
	// Head is the commit that the state is true of.
	Head string
	// DetailsURL is the page with the details, "" for none.
	DetailsURL string
	// StartedAt is when the run began.
	StartedAt time.Time
	// Text gives the details below the summary, in Markdown; nil is none.
	Text func() (string, error)
}

func (on CheckOn) text() (string, error) {
	if on.Text == nil {
		return "", nil
	}
	return on.Text()
}

type checkRecord struct {
	ID   int64  `json:"id"`
	Head string `json:"head"`
}

// Check shows the state on a commit, as the run's one check run there: in
// progress until the run has ended, then with the conclusion of how it ended.
// GitHub ties a check run to one commit, so a new head gets a new one, and the
// one of the head before is closed: it would say "in progress" for ever.
//
// For ghapp.ChecksRefused errors see there; nothing else depends on the check
// run.
func (p *Publisher) Check(ctx context.Context, on CheckOn, v island.View) error {
	ctx = ghapp.WithPurpose(ctx, "check")
	v = p.fill(v)
	in := ghapp.CheckInput{
		Name: CheckName, HeadOID: on.Head, ExternalID: string(p.Run), DetailsURL: on.DetailsURL, StartedAt: on.StartedAt,
		Title: checkTitle(v), Summary: island.Summary(v),
	}
	switch {
	case v.End == "":
		in.Buttons = []ghapp.Button{{ID: "stop", Label: "Stop", Description: "Stop the run; what is done stays"}}
	case !v.End.Complete():
		in.Buttons = []ghapp.Button{{ID: "retry", Label: "Go on", Description: "Go on from here, with new attempts"}}
	}
	if v.End != "" {
		in.Conclusion = v.End.Conclusion()
	}
	created := false
	var err error
	rec, err := effects.Do(ctx, p.Effects, effects.Check(p.Run, p.GitHub.FullName(), on.Head), map[string]string{"head": on.Head},
		func(ctx context.Context) (checkRecord, bool, error) {
			id, err := p.GitHub.FindCheck(ctx, on.Head, CheckName, string(p.Run))
			if errors.Is(err, ghapp.ErrNotFound) {
				return checkRecord{}, false, nil
			}
			return checkRecord{ID: id, Head: on.Head}, err == nil, err
		},
		func(ctx context.Context) (checkRecord, error) {
			if in.Text, err = on.text(); err != nil {
				return checkRecord{}, err
			}
			id, err := p.GitHub.CreateCheck(ctx, in)
			created = err == nil
			return checkRecord{ID: id, Head: on.Head}, err
		})
	if err != nil {
		return err
	}
	// While the head stays, nothing of note happens but the end.
	if !created && v.End != "" {
		if in.Text, err = on.text(); err != nil {
			return err
		}
		if err := p.GitHub.UpdateCheck(ctx, rec.ID, in); err != nil {
			return err
		}
	}
	return p.closeOvertaken(ctx, rec)
}

// closeOvertaken closes the run's check runs on the commits before head.
func (p *Publisher) closeOvertaken(ctx context.Context, head checkRecord) error {
	made, err := effects.Done[checkRecord](ctx, p.Effects, p.Run, effects.KindCheck)
	if err != nil {
		return err
	}
	closed, err := effects.Done[checkRecord](ctx, p.Effects, p.Run, effects.KindOvertaken)
	if err != nil {
		return err
	}
	for _, old := range made {
		if old == head {
			return nil // the later ones are not overtaken by it
		}
		if slices.Contains(closed, old) {
			continue
		}
		_, err := effects.Do(ctx, p.Effects, effects.Overtaken(p.Run, p.GitHub.FullName(), old.Head), nil,
			func(context.Context) (checkRecord, bool, error) {
				return checkRecord{}, false, nil // closing it again changes nothing
			},
			func(ctx context.Context) (checkRecord, error) {
				return old, p.GitHub.UpdateCheck(ctx, old.ID, ghapp.CheckInput{
					Name: CheckName, Conclusion: run.ConclusionNeutral, Title: "The run went on",
					Summary: fmt.Sprintf("Later commits followed this one. How the run stands, or ended, is shown on %s.\n", head.Head),
				})
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkTitle is "3 of 7 tasks" as long as the run goes on, and then how it
// ended. GitHub shows it beside the name of the check.
func checkTitle(v island.View) string {
	done, total := progress.Counts(island.Normalise(v.Tasks, v.Mask))
	if v.End != "" || total == 0 {
		return v.State()
	}
	return fmt.Sprintf("%d of %d tasks", done, total)
}
