package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/publish/island"
	"github.com/org/ralph-action/internal/run"
)

// CheckName is the name of the check run, which a branch rule may require.
const CheckName = "Ralph"

// CheckOn says where a check run belongs.
type CheckOn struct {
	// Head is the commit that the state is true of.
	Head string
	// PR is the pull request as it was just read, to be brought up to date in the
	// same call; nil for none.
	PR *ghapp.PR
	// Ready: that pull request is to leave draft, in the same call.
	Ready bool
	// DetailsURL is the page with the details, "" for none.
	DetailsURL string
	// StartedAt is when the run began.
	StartedAt time.Time
	// Text gives the details below the summary, in Markdown; nil is none.
	Text func() (string, error)
	// Annotations are what the checks say of lines, shown once the run has ended.
	Annotations []ghapp.Annotation
}

func (on CheckOn) text() (string, error) {
	if on.Text == nil {
		return "", nil
	}
	return on.Text()
}

type checkRecord struct {
	// ID is its node id, "" where there is none, or where the background sees to it.
	ID   string `json:"id"`
	Head string `json:"head"`
}

// Check shows the state on a commit, as the run's one check run there: in
// progress until the run has ended, then with the conclusion of how it ended.
// GitHub ties a check run to one commit, so a new head gets a new one, and the
// one of the head before is closed in the same request: it would say "in
// progress" for ever.
//
// The pull request on.PR is brought up to date by the same request, and given
// back as it is then; nil says that it was not, since there was nothing to write
// about checks, or since GitHub did not take it: UpdatePR tells why. ErrEdited
// says what it does there.
//
// For ghapp.ChecksRefused errors see there; nothing else depends on the check
// run.
func (p *Publisher) Check(ctx context.Context, on CheckOn, v island.View) (described *ghapp.PR, err error) {
	ctx = ghapp.WithPurpose(ctx, "check")
	old, err := p.overtaken(ctx, on.Head)
	if err != nil {
		return nil, err
	}
	change, err := p.changeOf(on, v)
	if err != nil {
		return nil, err
	}
	in := p.checkInput(on, v)
	var out ghapp.WrittenChecks
	var refused error // of those that were written beside the run's own
	made := false
	rec, err := effects.Do(ctx, p.Effects, effects.Check(p.Run, p.GitHub.FullName(), on.Head),
		map[string]string{"head": on.Head},
		func(ctx context.Context) (checkRecord, bool, error) {
			found, err := p.GitHub.FindCheck(ctx, on.Head, CheckName, string(p.Run))
			if errors.Is(err, ghapp.ErrNotFound) {
				return checkRecord{}, false, nil
			}
			return checkRecord{ID: found.ID, Head: on.Head}, err == nil, err
		},
		func(ctx context.Context) (checkRecord, error) {
			if in.Text, err = on.text(); err != nil {
				return checkRecord{}, err
			}
			out, refused = p.GitHub.WriteChecks(ctx, change,
				append([]ghapp.CheckWrite{{CheckInput: in}}, closing(old, on.Head)...)...)
			if made = out.IDs[0] != ""; !made {
				return checkRecord{}, refused
			}
			return checkRecord{ID: out.IDs[0], Head: on.Head}, nil
		})
	if err != nil {
		return nil, err
	}
	if !made {
		writes := closing(old, on.Head)
		// While the head stays, nothing of note happens but the end.
		if v.End != "" && rec.ID != "" {
			if in.Text, err = on.text(); err != nil {
				return nil, err
			}
			if in.Annotations, err = p.newAnnotations(ctx, on); err != nil {
				return nil, err
			}
			writes = append([]ghapp.CheckWrite{{ID: rec.ID, CheckInput: in}}, writes...)
		}
		if len(writes) == 0 {
			return nil, nil //nolint:nilnil // nothing was asked of GitHub
		}
		out, refused = p.GitHub.WriteChecks(ctx, change, writes...)
	}
	if err := p.recordClosed(ctx, old, out.IDs[len(out.IDs)-len(old):]); err != nil {
		return nil, err
	}
	if on.PR == nil || change.Body != "" && !out.Described {
		return nil, refused
	}
	pr := *on.PR
	if change.Body != "" {
		pr.Body = change.Body
	}
	pr.Draft = pr.Draft && !out.Ready
	return &pr, refused
}

// KeepChecks leaves it to the background to show on the last commit how the run has
// ended, and to close the run's check runs on the commits before: what Check does at the
// end, and has failed to. kept says whether there is a background.
func (p *Publisher) KeepChecks(ctx context.Context, on CheckOn, v island.View, failed error) (kept bool, err error) {
	if _, again := repeatAfter(failed, 0, 0); p.Effects.Patience == 0 || !again {
		return false, nil
	}
	in := p.checkInput(on, v)
	if in.Text, err = on.text(); err != nil {
		return false, err
	}
	heads, err := effects.Intended(ctx, p.Effects, p.Run, effects.KindCheck)
	if err != nil {
		return false, err
	}
	repo := p.GitHub.FullName()
	for _, key := range heads {
		if head := headOf(key); head != on.Head {
			write := closing([]checkRecord{{Head: head}}, on.Head)[0]
			write.HeadOID, write.ExternalID = head, string(p.Run)
			if _, err := p.keep(ctx, effects.Overtaken(p.Run, repo, head), call{Do: doCloseCheck, Check: &write},
				failed); err != nil {
				return false, err
			}
		}
	}
	kept, err = p.keep(ctx, effects.Shown(p.Run, repo, on.Head),
		call{Do: doShowCheck, Check: &ghapp.CheckWrite{CheckInput: in}}, failed)
	for _, key := range heads {
		if err == nil && kept {
			err = p.settleCheck(ctx, key, checkRecord{Head: headOf(key)})
		}
	}
	return kept, err
}

// headOf is the commit of a check run's key. After a renaming earlier keys have another
// prefix; commits hold no "@".
func headOf(key string) string { return key[strings.LastIndexByte(key, '@')+1:] }

// settleCheck records what has become of a check run, unless that is known already.
func (p *Publisher) settleCheck(ctx context.Context, key string, rec checkRecord) error {
	result, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode result of %s: %w", key, err)
	}
	return p.Effects.Store.FinishEffect(context.WithoutCancel(ctx), key, result)
}

// changeOf is what becomes of the pull request along with the check run.
func (p *Publisher) changeOf(on CheckOn, v island.View) (ghapp.PRChange, error) {
	if on.PR == nil {
		return ghapp.PRChange{}, nil
	}
	change := ghapp.PRChange{ID: on.PR.NodeID, Ready: on.Ready && on.PR.Draft}
	body, err := p.text(*on.PR, v)
	if err == nil && body != on.PR.Body {
		change.Body = body
	}
	return change, err
}

// checkInput is what the check run says, but for its text.
func (p *Publisher) checkInput(on CheckOn, v island.View) ghapp.CheckInput {
	v = p.fill(v)
	in := ghapp.CheckInput{
		Name: CheckName, HeadOID: on.Head, ExternalID: string(p.Run), DetailsURL: on.DetailsURL, StartedAt: on.StartedAt,
		Title: checkTitle(v), Summary: island.Summary(v),
	}
	switch {
	case p.ByJob:
	case v.End == "":
		in.Buttons = []ghapp.Button{{ID: "stop", Label: "Stop", Description: "Stop the run; finished work stays"}}
	case !v.End.Complete():
		in.Buttons = []ghapp.Button{{ID: "retry", Label: "Retry", Description: "Continue from here with new attempts"}}
	}
	if v.End != "" {
		in.Conclusion, in.Annotations = v.End.Conclusion(), on.Annotations
	}
	return in
}

// newAnnotations are the annotations that the check run does not have yet: GitHub adds
// to those that are there, and an earlier attempt may have got through.
func (p *Publisher) newAnnotations(ctx context.Context, on CheckOn) ([]ghapp.Annotation, error) {
	if len(on.Annotations) == 0 {
		return nil, nil
	}
	found, err := p.GitHub.FindCheck(ctx, on.Head, CheckName, string(p.Run))
	if err != nil && !errors.Is(err, ghapp.ErrNotFound) || found.Annotations > 0 {
		return nil, err
	}
	return on.Annotations, nil
}

// overtaken are the run's check runs on the commits before head that nothing
// has closed yet.
func (p *Publisher) overtaken(ctx context.Context, head string) ([]checkRecord, error) {
	made, err := effects.Done[checkRecord](ctx, p.Effects, p.Run, effects.KindCheck)
	if err != nil {
		return nil, err
	}
	closed, err := effects.Done[checkRecord](ctx, p.Effects, p.Run, effects.KindOvertaken)
	if err != nil {
		return nil, err
	}
	lost, err := p.lost(ctx, made, head)
	if err != nil {
		return nil, err
	}
	var out []checkRecord
	for _, old := range append(made, lost...) {
		if old.Head == head {
			break // the later ones are not overtaken by it
		}
		if old.ID != "" && !slices.Contains(closed, old) {
			out = append(out, old)
		}
	}
	return out, nil
}

// lost are the check runs of which it is not known whether GitHub made them: the run went
// on without. They are looked for once, when the next commit gets its own.
func (p *Publisher) lost(ctx context.Context, made []checkRecord, head string) (out []checkRecord, err error) {
	keys, err := effects.Intended(ctx, p.Effects, p.Run, effects.KindCheck)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		of := headOf(key)
		if of == head {
			break
		}
		if slices.ContainsFunc(made, func(c checkRecord) bool { return c.Head == of }) {
			continue
		}
		found, err := p.GitHub.FindCheck(ctx, of, CheckName, string(p.Run))
		if err != nil && !errors.Is(err, ghapp.ErrNotFound) {
			return nil, err
		}
		rec := checkRecord{ID: found.ID, Head: of}
		if err := p.settleCheck(ctx, key, rec); err != nil {
			return nil, err
		}
		out = append(out, rec)
	}
	return out, nil
}

// closing is what the check runs of commits before head are to say.
func closing(old []checkRecord, head string) []ghapp.CheckWrite {
	var out []ghapp.CheckWrite
	for _, c := range old {
		out = append(out, ghapp.CheckWrite{ID: c.ID, CheckInput: ghapp.CheckInput{
			Name: CheckName, Conclusion: run.ConclusionNeutral, Title: "The run continued",
			Summary: fmt.Sprintf("The run made later commits. Its current status is on %s.\n", head),
		}})
	}
	return out
}

// recordClosed keeps in mind which check runs GitHub has closed; ids has "" for the
// others, which are left for the next time: closing one again changes nothing.
func (p *Publisher) recordClosed(ctx context.Context, old []checkRecord, ids []string) error {
	for i, c := range old {
		if ids[i] == "" {
			continue
		}
		_, err := effects.Do(ctx, p.Effects, effects.Overtaken(p.Run, p.GitHub.FullName(), c.Head), nil,
			func(context.Context) (checkRecord, bool, error) { return c, true, nil },
			func(context.Context) (checkRecord, error) { return c, nil })
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
