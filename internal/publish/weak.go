package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/publish/effects"
)

// What a call does.
const (
	doReact          = "react"
	doReactToComment = "react to comment"
	doAddLabel       = "add label"
	doRemoveLabel    = "remove label"
	doComment        = "comment"
	doFold           = "fold"
	doShowCheck      = "show check"
	doCloseCheck     = "close check"
)

const (
	// firstRepeat and lastRepeat bound the pause before a weak effect is repeated.
	firstRepeat = 5 * time.Second
	lastRepeat  = 10 * time.Minute
	// forbiddenFor is how long an effect that the App has no permission for is repeated:
	// a person may put that right.
	forbiddenFor = 7 * 24 * time.Hour
	// FirstPatience is how long a run waits for a weak effect that a Repeater makes later.
	FirstPatience = 2 * time.Second
	// repeatWithin is longer than repeating one takes. After that, whoever was at it is
	// taken for dead.
	repeatWithin = 3 * time.Minute
	// repeatEvery is the pause between two looks for what is due.
	repeatEvery = time.Second
)

// call is a weak effect, one that nothing waits for, as the store keeps it: all that it
// takes to make it. Its JSON is on disk: fields may be added, not renamed.
type call struct {
	At ghapp.Place `json:"at"`
	Do string      `json:"do"`
	// Number is that of an issue or pull request, Comment a comment's, Node a node id.
	Number  int    `json:"number,omitempty"`
	Comment int64  `json:"comment,omitempty"`
	Node    string `json:"node,omitempty"`
	// Name is the label or the reaction.
	Name string `json:"name,omitempty"`
	// Body is a whole comment, which ends with Mark.
	Body string `json:"body,omitempty"`
	Mark string `json:"mark,omitempty"`
	// Check is what a check run is to show. Without an ID it is looked for, and made
	// where it is to be shown.
	Check *ghapp.CheckWrite `json:"check,omitempty"`
}

// find looks for what may not be done twice.
func (c call) find(ctx context.Context, gh GitHub) (commentRecord, bool, error) {
	if c.Do != doComment {
		return commentRecord{}, false, nil // doing it again changes nothing
	}
	found, err := gh.FindComment(ghapp.WithPurpose(ctx, "comment"), c.Number, c.Mark)
	if errors.Is(err, ghapp.ErrNotFound) {
		return commentRecord{}, false, nil
	}
	return c.record(found), err == nil, err
}

func (c call) record(said ghapp.Comment) commentRecord {
	return commentRecord{ID: said.ID, URL: said.URL, Node: said.NodeID, SHA256: textHash(c.Body)}
}

// act makes the effect.
func (c call) act(ctx context.Context, gh GitHub) (commentRecord, error) {
	if c.Do != doComment {
		return commentRecord{}, c.repeatable(ctx, gh)
	}
	said, err := gh.Comment(ghapp.WithPurpose(ctx, "comment"), c.Number, c.Body)
	return c.record(said), err
}

// repeatable makes an effect that is the same done twice.
func (c call) repeatable(ctx context.Context, gh GitHub) error {
	reaction, label := ghapp.WithPurpose(ctx, "reaction"), ghapp.WithPurpose(ctx, "label")
	switch c.Do {
	case doReact:
		return gh.React(reaction, c.Number, c.Name)
	case doReactToComment:
		return gh.ReactToComment(reaction, c.Comment, c.Name)
	case doAddLabel:
		return gh.AddLabels(label, c.Number, c.Name)
	case doRemoveLabel:
		return gh.RemoveLabel(label, c.Number, c.Name)
	case doFold:
		return gh.FoldComment(ghapp.WithPurpose(ctx, "comment"), c.Node)
	case doShowCheck, doCloseCheck:
		return c.writeCheck(ghapp.WithPurpose(ctx, "check"), gh)
	default:
		return fmt.Errorf("publish: no call is named %q", c.Do)
	}
}

// writeCheck brings a check run to where it is to be in the end.
func (c call) writeCheck(ctx context.Context, gh GitHub) error {
	if c.Check == nil {
		return errors.New("publish: a check run is missing")
	}
	write := *c.Check
	if write.ID == "" || len(write.Annotations) > 0 {
		found, err := gh.FindCheck(ctx, write.HeadOID, write.Name, write.ExternalID)
		switch {
		case errors.Is(err, ghapp.ErrNotFound) && c.Do == doCloseCheck:
			return nil // it was never made
		case err != nil && !errors.Is(err, ghapp.ErrNotFound):
			return err
		case err == nil:
			write.ID = found.ID
			if found.Annotations > 0 {
				write.Annotations = nil // GitHub adds to those that are there
			}
		}
	}
	_, err := gh.WriteChecks(ctx, ghapp.PRChange{}, write)
	return err
}

// weakly makes an effect that nothing waits for. Where it fails, and somebody repeats
// such effects, that is no error.
func (p *Publisher) weakly(ctx context.Context, key effects.Key, c call) error {
	c.At = p.GitHub.Place()
	first, cancel := ctx, context.CancelFunc(func() {})
	if p.Effects.Patience > 0 {
		first, cancel = context.WithTimeout(ctx, p.Effects.Patience)
	}
	defer cancel()
	_, err := effects.Do(first, p.Effects, key, c,
		func(ctx context.Context) (commentRecord, bool, error) { return c.find(ctx, p.GitHub) },
		func(ctx context.Context) (commentRecord, error) { return c.act(ctx, p.GitHub) })
	if err == nil || errors.Is(err, effects.ErrKept) {
		return nil
	}
	kept, kerr := p.keep(ctx, key, c, err)
	if kerr != nil || !kept {
		return errors.Join(err, kerr)
	}
	zerolog.Ctx(ctx).Info().Err(err).Str("effect", key.String()).Msg("what nothing waits for failed; it is repeated")
	return nil
}

// keep leaves what has failed to the background, if there is one and it makes sense.
func (p *Publisher) keep(ctx context.Context, key effects.Key, c call, failed error) (kept bool, err error) {
	now := p.Effects.Time()
	pause, again := repeatAfter(failed, 0, 0)
	if p.Effects.Patience == 0 || !again {
		return false, nil
	}
	c.At = p.GitHub.Place()
	return true, effects.Keep(ctx, p.Effects, key, c, now.Add(pause))
}

// repeatAfter says whether an effect that has failed so many times before is repeated,
// and after which pause. age is for how long it has been wanted.
func repeatAfter(err error, tries int, age time.Duration) (pause time.Duration, again bool) {
	class, after := ghapp.Classify(err)
	answered, ok := errors.AsType[*ghapp.Error](err)
	pause = min(firstRepeat<<min(tries, 10), lastRepeat)
	switch class {
	case ghapp.NotFound, ghapp.Invalid:
		return 0, false // what it is about is gone, or was never right
	case ghapp.Forbidden:
		return lastRepeat, age < forbiddenFor
	case ghapp.Permanent:
		// An error that is not GitHub's may pass; its word does not.
		return pause, !ok || answered.Status == 0
	case ghapp.RateLimited:
		return min(max(after, firstRepeat), lastRepeat), true
	default:
		return pause, true
	}
}

// WeakStore gives out what is to be repeated. *store.Store is one.
type WeakStore interface {
	effects.Store
	DueEffect(ctx context.Context, kind string, now, until time.Time, longest time.Duration) (effects.Row, error)
	LabelOvertaken(ctx context.Context, owner, repo string, issue int, add bool, since time.Time,
		by [2]string) (overtaken bool, err error)
}

// Repeater makes weak effects that have failed, until they succeed or no longer matter.
// Several may share a store. It is safe for concurrent use.
type Repeater struct {
	Store WeakStore
	// GitHub gives the repository at a place.
	GitHub func(at ghapp.Place) GitHub
	// Now is the clock.
	Now func() time.Time
}

// WeakKinds are the kinds of effects that a Repeater makes.
func WeakKinds() []effects.Kind {
	return []effects.Kind{effects.KindReaction, effects.KindLabel, effects.KindComment, effects.KindFold,
		effects.KindShown, effects.KindOvertaken}
}

// Run repeats what is due until ctx ends. Each kind has a goroutine of its own, so that
// one that hangs stops no other.
func (r *Repeater) Run(ctx context.Context) {
	var kinds sync.WaitGroup
	for _, kind := range WeakKinds() {
		kinds.Go(func() {
			tick := time.NewTicker(repeatEvery)
			defer tick.Stop()
			for {
				if err := r.Repeat(ctx, kind); err != nil && ctx.Err() == nil {
					zerolog.Ctx(ctx).Error().Err(err).Msg("repeating what nothing waits for failed; it is tried again")
				}
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	kinds.Wait()
}

// Repeat makes the effects of a kind that are due, up to the first that fails: the rest
// would fail like it. The error is the store's.
func (r *Repeater) Repeat(ctx context.Context, kind effects.Kind) error {
	for ctx.Err() == nil {
		row, err := r.Store.DueEffect(ctx, string(kind), r.Now(), r.Now().Add(repeatWithin), lastRepeat)
		if errors.Is(err, effects.ErrNone) {
			return nil
		}
		if err != nil {
			return err
		}
		if done, err := r.repeat(ctx, row); err != nil || !done {
			return err
		}
	}
	return nil
}

func (r *Repeater) repeat(ctx context.Context, row effects.Row) (done bool, err error) {
	log := zerolog.Ctx(ctx).With().Str("effect", row.Key).Logger()
	var c call
	if err := json.Unmarshal(row.Intent, &c); err != nil {
		log.Error().Err(err).Msg("what nothing waits for cannot be read; it is dropped")
		return true, r.finish(ctx, row, commentRecord{})
	}
	if stale, err := r.overtaken(ctx, row, c); err != nil || stale {
		if err == nil {
			err = r.finish(ctx, row, commentRecord{})
		}
		return true, err
	}
	gh := r.GitHub(c.At)
	rec, found, failed := c.find(ctx, gh)
	if failed == nil && !found {
		rec, failed = c.act(ctx, gh)
	}
	if failed == nil {
		return true, r.finish(ctx, row, rec)
	}
	if ctx.Err() != nil {
		return false, nil // it is due again when whoever stopped it has started
	}
	pause, again := repeatAfter(failed, row.Tries, r.Now().Sub(row.CreatedAt))
	if !again {
		log.Warn().Err(failed).Msg("what nothing waits for is dropped")
		return true, r.finish(ctx, row, commentRecord{})
	}
	log.Debug().Err(failed).Dur("again_in", pause).Msg("what nothing waits for failed again")
	return false, r.Store.KeepEffect(context.WithoutCancel(ctx), row.Key, row.Intent, r.Now().Add(pause))
}

func (r *Repeater) finish(ctx context.Context, row effects.Row, rec commentRecord) error {
	result, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode result of %s: %w", row.Key, err)
	}
	return r.Store.FinishEffect(context.WithoutCancel(ctx), row.Key, result)
}

// overtaken says whether a label would tell of what was. Of those that wait for an issue only
// the last counts: a label of state takes the place of the one before, and of putting on and
// taking off the same label the later one decides.
func (r *Repeater) overtaken(ctx context.Context, row effects.Row, c call) (bool, error) {
	if c.Do != doAddLabel && c.Do != doRemoveLabel {
		return false, nil
	}
	repo := c.At.Owner + "/" + c.At.Name
	later := func(name string, on bool) string { return ":" + effects.Label("", repo, c.Number, name, on).Name }
	by := [2]string{later(c.Name, true) + "\n", later(c.Name, false) + "\n"}
	if c.Do == doAddLabel {
		by[0] = later("", true) // any of them
	}
	return r.Store.LabelOvertaken(ctx, c.At.Owner, c.At.Name, c.Number, c.Do == doAddLabel, row.CreatedAt, by)
}
