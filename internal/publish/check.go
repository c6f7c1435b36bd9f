package publish

import (
	"context"
	"time"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/publish/effects"
)

// CheckName is the name of the check run, which a branch rule may require.
const CheckName = "Ralph"

// Check is what the check run of a run that has ended shows, beside the state.
type Check struct {
	// Head is the commit that the state is true of.
	Head string
	// DetailsURL is the page with the details, "" for none.
	DetailsURL string
	// StartedAt is when the run began.
	StartedAt time.Time
	// Text gives the details below the summary, in Markdown; nil is none.
	Text func() (string, error)
	// Annotations are what the checks say of lines.
	Annotations []ghapp.Annotation
}

// ShowCheck makes the run's one check run, which says on its last commit how it has ended.
func (p *Publisher) ShowCheck(ctx context.Context, c Check, v View) error {
	ctx = ghapp.WithPurpose(ctx, "check")
	_, err := effects.Do(ctx, p.Effects, effects.Check(p.Run, p.GitHub.FullName(), c.Head), nil,
		func(ctx context.Context) (none struct{}, found bool, err error) {
			found, err = p.GitHub.FindCheck(ctx, c.Head, CheckName, string(p.Run))
			return none, found, err
		},
		func(ctx context.Context) (none struct{}, err error) {
			in, err := p.checkInput(c, v)
			if err != nil {
				return none, err
			}
			return none, p.GitHub.CreateCheck(ctx, in)
		})
	return err
}

func (p *Publisher) checkInput(c Check, v View) (in ghapp.CheckInput, err error) {
	v = p.fill(v)
	in = ghapp.CheckInput{
		Name: CheckName, HeadOID: c.Head, ExternalID: string(p.Run), DetailsURL: c.DetailsURL, StartedAt: c.StartedAt,
		Conclusion: v.End.Conclusion(), Title: v.State(), Summary: summaryOf(v), Annotations: c.Annotations,
	}
	if !p.ByJob && !v.End.Complete() {
		in.Buttons = []ghapp.Button{{ID: "retry", Label: "Retry", Description: "Continue from here with new attempts"}}
	}
	if c.Text != nil {
		in.Text, err = c.Text()
	}
	return in, err
}
