package effects

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// Kind names a sort of effect.
type Kind string

// The kinds of effects. Each has a constructor that says what makes two
// effects of the kind the same one. Bringing a pull request's text up to date
// is not among them: it sets a state, is compared with what is there first, and
// so may be repeated at will.
const (
	KindComment Kind = "comment"
	KindBranch  Kind = "branch"
	KindCommit  Kind = "commit"
	KindPR      Kind = "pr"
	KindReady   Kind = "ready"
	KindLabel   Kind = "label"
	KindCheck   Kind = "check"
	KindReply   Kind = "reply"
	KindResolve Kind = "resolve"
	KindLook    Kind = "look"
)

// Key identifies one effect: what it is at most once for.
type Key struct {
	// Run is whose effect it is; empty for effects outside of any run.
	Run  run.ID
	Kind Kind
	// Name tells the effects of one kind and run apart.
	Name string
}

// String is the form the store keeps: "kind:run:name".
func (k Key) String() string {
	return strings.Join([]string{string(k.Kind), string(k.Run), k.Name}, ":")
}

// Comment is one thing to say on an issue: "comment:<run>:<repo>#<issue>:<what>".
// What names the occasion, not the words: "ended", "questions".
func Comment(id run.ID, repo string, issue int, what string) Key {
	return Key{id, KindComment, place(repo, issue) + ":" + what}
}

// Branch is the making of a run's branch: "branch:<run>:<repo>:<branch>".
func Branch(id run.ID, repo, branch string) Key {
	return Key{id, KindBranch, repo + ":" + branch}
}

// Commit is the landing of a tree: "commit:<run>:<iteration>:<tree>". The same
// tree in a later iteration is another commit.
func Commit(id run.ID, iteration int, tree string) Key {
	return Key{id, KindCommit, strconv.Itoa(iteration) + ":" + tree}
}

// PR is the opening of a run's pull request: "pr:<run>:<repo>:<branch>".
func PR(id run.ID, repo, branch string) Key {
	return Key{id, KindPR, repo + ":" + branch}
}

// Ready is taking a pull request out of draft, once per run: a person who puts
// it back is not overruled. "ready:<run>:<repo>#<number>".
func Ready(id run.ID, repo string, number int) Key {
	return Key{id, KindReady, place(repo, number)}
}

// Label is putting a label on, once per run: "label:<run>:<repo>#<issue>:<name>".
func Label(id run.ID, repo string, issue int, name string) Key {
	return Key{id, KindLabel, place(repo, issue) + ":" + name}
}

// Check is the making of a run's check run on a commit: "check:<run>:<repo>@<oid>".
func Check(id run.ID, repo, oid string) Key {
	return Key{id, KindCheck, repo + "@" + oid}
}

// Reply is the answer in a conversation of a pull request to what a commit did:
// "reply::<repo>#<number>:<comment>@<oid>". It is that of no run: a later one that
// finds it missing makes it.
func Reply(repo string, number int, comment int64, oid string) Key {
	return Key{Kind: KindReply, Name: place(repo, number) + ":" + strconv.FormatInt(comment, 10) + "@" + oid}
}

// Resolve is resolving that conversation, once for each such answer: a person who
// opens it again is not overruled. "resolve::<repo>#<number>:<comment>@<oid>".
func Resolve(repo string, number int, comment int64, oid string) Key {
	return Key{Kind: KindResolve, Name: place(repo, number) + ":" + strconv.FormatInt(comment, 10) + "@" + oid}
}

// Look is a look at GitHub for what became of a webhook, before anything is done about it: "look::<guid>".
func Look(guid string) Key { return Key{Kind: KindLook, Name: guid} }

func place(repo string, number int) string { return repo + "#" + strconv.Itoa(number) }

// Store remembers effects. *store.Store is one.
type Store interface {
	// BeginEffect records the intent, or returns the row an earlier call left;
	// Fresh tells the two apart.
	BeginEffect(ctx context.Context, key string, id run.ID, kind string, intent []byte, now time.Time) (store.Effect,
		error)
	// FinishEffect records that the effect happened. The first result stays.
	FinishEffect(ctx context.Context, key string, result []byte) error
	// Effects returns the effects of a run, in the order they were intended.
	Effects(ctx context.Context, id run.ID) ([]store.Effect, error)
}

// Runner carries out effects.
type Runner struct {
	Store Store
	// Now tells the time; nil means time.Now.
	Now func() time.Time
}

// Time is the runner's clock.
func (r Runner) Time() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// Do makes the effect key happen once and returns its result, which must
// survive a round trip through JSON. The intent is kept for people who look
// into the store.
//
// find looks for the effect in the outside world; it is only asked where an
// earlier call intended the effect and did not live to tell, or may have done so unknown to the
// store, see store.Effect.Fresh. act makes it happen. An error of either is returned as it is;
// calling Do again then asks find first.
func Do[T any](
	ctx context.Context, r Runner, key Key, intent any, find func(context.Context) (T, bool, error),
	act func(context.Context) (T, error),
) (T, error) {
	var zero T
	wanted, err := json.Marshal(intent)
	if err != nil {
		return zero, fmt.Errorf("encode intent of %s: %w", key, err)
	}
	row, err := r.Store.BeginEffect(ctx, key.String(), key.Run, string(key.Kind), wanted, r.Time())
	if err != nil {
		return zero, fmt.Errorf("record intent of %s: %w", key, err)
	}
	if row.Status == store.EffectDone {
		var done T
		if err := json.Unmarshal(row.Result, &done); err != nil {
			return zero, fmt.Errorf("decode result of %s: %w", key, err)
		}
		return done, nil
	}
	result, err := obtain(ctx, row.Fresh, find, act)
	if err != nil {
		return zero, err
	}
	got, err := json.Marshal(result)
	if err != nil {
		return zero, fmt.Errorf("encode result of %s: %w", key, err)
	}
	// The effect is out there: a caller that gives up now must not lose the
	// record of it.
	if err := r.Store.FinishEffect(context.WithoutCancel(ctx), key.String(), got); err != nil {
		return zero, fmt.Errorf("record result of %s: %w", key, err)
	}
	return result, nil
}

func obtain[T any](
	ctx context.Context, first bool, find func(context.Context) (T, bool, error), act func(context.Context) (T, error),
) (T, error) {
	if !first {
		if found, ok, err := find(ctx); err != nil || ok {
			return found, err
		}
	}
	return act(ctx)
}

// Result is the result of one effect, where it is recorded as done.
func Result[T any](ctx context.Context, r Runner, key Key) (result T, ok bool, err error) {
	rows, err := r.Store.Effects(ctx, key.Run)
	if err != nil {
		return result, false, fmt.Errorf("look up %s: %w", key, err)
	}
	for _, row := range rows {
		if row.Key != key.String() || row.Status != store.EffectDone {
			continue
		}
		if err := json.Unmarshal(row.Result, &result); err != nil {
			return result, false, fmt.Errorf("decode result of %s: %w", key, err)
		}
		return result, true, nil
	}
	return result, false, nil
}
