package publish

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/publish/island"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// Properties are tried on the same values each time; `make seeds` draws others.
var _ = flag.Set("rapid.seed", "1")

// flaky is a GitHub whose weak calls fail as a test wants, before or after they took
// effect. It keeps all that was done.
type flaky struct {
	GitHub

	mu       sync.Mutex
	fail     func(what string) (before, after error)
	labels   map[string]bool
	comments []ghapp.Comment
	checks   []ghapp.CheckWrite
}

func (f *flaky) do(what string, act func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, after := f.fail(what)
	if before != nil {
		return before
	}
	act()
	return after
}

func (f *flaky) FullName() string { return "acme/widgets" }
func (f *flaky) Place() ghapp.Place {
	return ghapp.Place{Installation: 1, Owner: "acme", Name: "widgets"}
}

func (f *flaky) React(_ context.Context, issue int, content string) error {
	return f.do("reaction", func() { f.labels[fmt.Sprint("reaction ", issue, content)] = true })
}

func (f *flaky) AddLabels(_ context.Context, issue int, labels ...string) error {
	return f.do("label", func() { f.labels[fmt.Sprint(issue, labels[0])] = true })
}

func (f *flaky) RemoveLabel(_ context.Context, issue int, label string) error {
	return f.do("label", func() { delete(f.labels, fmt.Sprint(issue, label)) })
}

func (f *flaky) Comment(_ context.Context, _ int, body string) (c ghapp.Comment, err error) {
	err = f.do("comment", func() {
		c = ghapp.Comment{ID: int64(len(f.comments) + 1), Body: body}
		f.comments = append(f.comments, c)
	})
	return c, err
}

func (f *flaky) FindComment(_ context.Context, _ int, marker string) (c ghapp.Comment, err error) {
	err = f.do("comment", func() {
		i := slices.IndexFunc(f.comments, func(c ghapp.Comment) bool { return strings.Contains(c.Body, marker) })
		if i >= 0 {
			c = f.comments[i]
		}
	})
	if err == nil && c.ID == 0 {
		err = ghapp.ErrNotFound
	}
	return c, err
}

func (f *flaky) WriteChecks(_ context.Context, _ ghapp.PRChange, writes ...ghapp.CheckWrite) (ghapp.WrittenChecks,
	error) {
	out := ghapp.WrittenChecks{IDs: make([]string, len(writes))}
	err := f.do("check", func() {
		for i, w := range writes {
			at := slices.IndexFunc(f.checks, func(c ghapp.CheckWrite) bool { return c.ID == w.ID })
			if w.ID == "" {
				w.ID = fmt.Sprint("check ", len(f.checks))
				f.checks = append(f.checks, w)
			} else {
				f.checks[at].Conclusion = w.Conclusion
			}
			out.IDs[i] = w.ID
		}
	})
	if err != nil {
		out.IDs = make([]string, len(writes))
	}
	return out, err
}

func (f *flaky) FindCheck(_ context.Context, oid, _, externalID string) (found ghapp.FoundCheck, err error) {
	err = f.do("check", func() {
		for _, c := range f.checks {
			if c.HeadOID == oid && c.ExternalID == externalID {
				found.ID = c.ID
			}
		}
	})
	if err == nil && found.ID == "" {
		err = ghapp.ErrNotFound
	}
	return found, err
}

func badGateway() error { return &ghapp.Error{Op: "try", Status: 502, Class: ghapp.Transient} }

// TestWeakEffectsAllComeToBe: whatever fails of what nothing waits for, before or after
// GitHub did it, and for however long, all of it is there once GitHub works, once each.
func TestWeakEffectsAllComeToBe(t *testing.T) {
	t.Parallel()
	st, err := store.Open(context.WithoutCancel(t.Context()), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		now := func() time.Time { return at }
		away := map[string]time.Time{}
		for _, kind := range []string{"reaction", "label", "comment", "check"} {
			away[kind] = at.Add(time.Duration(rapid.IntRange(0, 120).Draw(rt, "minutes without "+kind)) * time.Minute)
		}
		gh := &flaky{labels: map[string]bool{}, fail: func(what string) (before, after error) {
			switch {
			case !at.Before(away[what]):
				return nil, nil
			case rapid.Bool().Draw(rt, what+" fails afterwards"):
				return nil, badGateway()
			default:
				return badGateway(), nil
			}
		}}
		p := &Publisher{GitHub: gh, Effects: effects.Runner{Store: st, Now: now, Patience: FirstPatience},
			Run: run.ID(fmt.Sprint("r-", n)), Issue: n}
		r := &Repeater{Store: st, Now: now, GitHub: func(ghapp.Place) GitHub { return gh }}
		must := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		must(p.React(t.Context(), ghapp.ReactionSeen))
		must(p.SetLabel(t.Context(), "ralph:done", true))
		for i := range 3 {
			must(p.say(t.Context(), fmt.Sprint("answer:", i), fmt.Sprint("Said ", i)))
		}
		// The head moves on while check runs cannot be written, then the run ends.
		v := island.View{}
		_, _ = p.Check(t.Context(), CheckOn{Head: "old"}, v)
		at = at.Add(time.Duration(rapid.IntRange(0, 150).Draw(rt, "minutes to the next commit")) * time.Minute)
		v.End = run.EndAllTasksComplete
		if _, err := p.Check(t.Context(), CheckOn{Head: "new"}, v); err != nil {
			kept, err := p.KeepChecks(t.Context(), CheckOn{Head: "new"}, v, err)
			if must(err); !kept {
				rt.Fatal("the check run was not kept")
			}
		}
		left := map[string]int{"": 1}
		for range 100 {
			for _, kind := range WeakKinds() {
				must(r.Repeat(t.Context(), kind))
			}
			var err error
			left, err = st.KeptEffects(t.Context())
			must(err)
			if len(left) == 0 {
				break
			}
			at = at.Add(5 * time.Minute)
		}
		if len(left) > 0 {
			rt.Fatalf("never done: %v", left)
		}
		rows, err := st.Effects(t.Context(), p.Run)
		must(err)
		for _, row := range rows {
			if row.Status != store.EffectDone {
				rt.Errorf("%s is intended for ever", row.Key)
			}
		}
		if diff := cmp.Diff(map[string]bool{
			fmt.Sprint("reaction ", n, ghapp.ReactionSeen): true, fmt.Sprint(n, "ralph:done"): true,
		}, gh.labels); diff != "" {
			rt.Error(diff)
		}
		var said []string
		for _, c := range gh.comments {
			text, _, _ := strings.Cut(c.Body, "\n")
			said = append(said, text)
		}
		slices.Sort(said)
		if diff := cmp.Diff([]string{"Said 0", "Said 1", "Said 2"}, said); diff != "" {
			rt.Error(diff)
		}
		shown := map[string]int{}
		for _, c := range gh.checks {
			shown[c.HeadOID]++
			if c.Conclusion == "" {
				rt.Errorf("the check run on %s is open for ever", c.HeadOID)
			}
		}
		if shown["new"] != 1 || shown["old"] > 1 {
			rt.Errorf("check runs %v", shown)
		}
	})
}

// TestWeakEffectsThatNoLongerMatter are dropped: what GitHub does not know, and a label
// that tells of a run before the last.
func TestWeakEffectsThatNoLongerMatter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		age   time.Duration
		again bool
	}{
		"gone":               {err: &ghapp.Error{Status: 404, Class: ghapp.NotFound}},
		"refused as invalid": {err: &ghapp.Error{Status: 422, Class: ghapp.Invalid}},
		"no permission":      {err: &ghapp.Error{Status: 403, Class: ghapp.Forbidden}, again: true},
		"never had one":      {err: &ghapp.Error{Status: 403, Class: ghapp.Forbidden}, age: 8 * 24 * time.Hour},
		"no token":           {err: &ghapp.Error{Status: 401, Class: ghapp.Unauthorised}, age: 90 * 24 * time.Hour, again: true},
		"away for months":    {err: badGateway(), age: 90 * 24 * time.Hour, again: true},
	} {
		if _, again := repeatAfter(c.err, 3, c.age); again != c.again {
			t.Errorf("%s: repeated %v", name, again)
		}
	}
}

// TestOnlyTheLastLabelIsSet: of the labels of state that wait while GitHub takes none, the
// last takes the place of those before, an earlier one of its name goes, and none is
// written twice.
func TestOnlyTheLastLabelIsSet(t *testing.T) {
	t.Parallel()
	st, err := store.Open(context.WithoutCancel(t.Context()), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	at, issue := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 0
	rapid.Check(t, func(rt *rapid.T) {
		issue++
		works, writes := false, 0
		gh := &flaky{labels: map[string]bool{}, fail: func(string) (before, after error) {
			if !works {
				return badGateway(), nil
			}
			writes++
			return nil, nil
		}}
		now := func() time.Time { return at }
		p := &Publisher{GitHub: gh, Effects: effects.Runner{Store: st, Now: now, Patience: FirstPatience}, Issue: issue}
		want, named := map[string]bool{}, map[string]bool{}
		for range rapid.IntRange(1, 8).Draw(rt, "labels") {
			at = at.Add(time.Second)
			name := rapid.SampledFrom([]string{"ralph:done", "ralph:paused", "ralph:needs-human"}).Draw(rt, "name")
			c := call{Do: doRemoveLabel, Number: issue, Name: name}
			on := rapid.Bool().Draw(rt, "on")
			if on {
				c.Do = doAddLabel
				clear(want)
				want[fmt.Sprint(issue, name)] = true
			} else {
				delete(want, fmt.Sprint(issue, name))
			}
			named[name] = true
			if err := p.weakly(t.Context(), effects.StateLabel(gh.FullName(), issue, name, on, at), c); err != nil {
				rt.Fatal(err)
			}
		}
		works = true
		at = at.Add(lastRepeat)
		r := &Repeater{Store: st, Now: now, GitHub: func(ghapp.Place) GitHub { return gh }}
		if err := r.Repeat(t.Context(), effects.KindLabel); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, gh.labels); diff != "" || writes > len(named) {
			rt.Errorf("%d writes for %d labels\n%s", writes, len(named), diff)
		}
		if left, err := st.KeptEffects(t.Context()); err != nil || len(left) > 0 {
			rt.Errorf("left %v, %v", left, err)
		}
	})
}
