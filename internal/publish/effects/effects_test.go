package effects_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// Properties are tried on the same values each time; `make seeds` draws others.
var _ = flag.Set("rapid.seed", "1")

var _ effects.Store = (*store.Store)(nil)

// crash stands for the process dying at a point.
type crash string

// memory is a store with state that can die before or after each write.
type memory struct {
	rows map[string]store.Effect
	keys []string // in the order they were intended
	die  func(point string)
}

func newMemory() *memory {
	return &memory{rows: make(map[string]store.Effect), die: func(string) {}}
}

func (m *memory) BeginEffect(
	_ context.Context, key string, id run.ID, kind string, intent []byte, now time.Time,
) (store.Effect, error) {
	m.die("before intent")
	if row, ok := m.rows[key]; ok {
		row.Fresh = false
		return row, nil
	}
	row := store.Effect{Key: key, Run: id, Kind: kind, Intent: intent, Status: store.EffectIntended, CreatedAt: now}
	m.rows[key] = row
	m.keys = append(m.keys, key)
	m.die("after intent")
	row.Fresh = true
	return row, nil
}

func (m *memory) FinishEffect(_ context.Context, key string, result []byte) error {
	m.die("before result")
	row, ok := m.rows[key]
	if !ok {
		return store.ErrNotFound
	}
	if row.Status == store.EffectIntended {
		row.Status, row.Result = store.EffectDone, result
		m.rows[key] = row
	}
	m.die("after result")
	return nil
}

func (m *memory) Effects(_ context.Context, id run.ID) ([]store.Effect, error) {
	var out []store.Effect
	for _, key := range m.keys {
		if m.rows[key].Run == id {
			out = append(out, m.rows[key])
		}
	}
	return out, nil
}

// world is the outside: it remembers each effect that took place.
type world struct{ happened []string }

func (w *world) find(name string) func(context.Context) (string, bool, error) {
	return func(context.Context) (string, bool, error) {
		for i, h := range w.happened {
			if h == name {
				return fmt.Sprintf("%s@%d", name, i), true, nil
			}
		}
		return "", false, nil
	}
}

// attempt calls Do once; a crash is reported, not passed on.
func attempt(r effects.Runner, w *world, key effects.Key, die func(string)) (result string, err error, crashed bool) {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(crash); !ok {
				panic(v)
			}
			crashed = true
		}
	}()
	result, err = effects.Do(context.Background(), r, key, "intent", w.find(key.Name),
		func(context.Context) (string, error) {
			die("before act")
			w.happened = append(w.happened, key.Name)
			die("after act")
			return fmt.Sprintf("%s@%d", key.Name, len(w.happened)-1), nil
		})
	return result, err, false
}

// TestExactlyOnce dies at drawn points, any number of times, then goes on
// undisturbed: each effect must have happened once, and every later call must
// give the same result.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	points := []string{"before intent", "after intent", "before act", "after act", "before result", "after result"}
	rapid.Check(t, func(t *rapid.T) {
		m, w := newMemory(), &world{}
		r := effects.Runner{Store: m}
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]{1,2}`), 1, 3, rapid.ID[string]).Draw(t, "names")
		for _, name := range names {
			key := effects.Key{Run: "r1", Kind: effects.KindComment, Name: name}
			for _, point := range rapid.SliceOfN(rapid.SampledFrom(points), 0, 6).Draw(t, "crashes") {
				die := func(at string) {
					if at == point {
						panic(crash(at))
					}
				}
				m.die = die
				_, _, _ = attempt(r, w, key, die)
			}
			m.die = func(string) {}
			first, err, _ := attempt(r, w, key, m.die)
			if err != nil {
				t.Fatalf("undisturbed call: %v", err)
			}
			second, err, _ := attempt(r, w, key, m.die)
			if err != nil || second != first {
				t.Fatalf("repeated call = %q, %v, want %q", second, err, first)
			}
		}
		count := make(map[string]int)
		for _, h := range w.happened {
			count[h]++
		}
		for _, name := range names {
			if count[name] != 1 {
				t.Fatalf("%q happened %d times", name, count[name])
			}
		}
	})
}

func TestDo(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	key := effects.Commit("r1", 3, "t0")
	cases := []struct {
		name      string
		earlier   []error // what act says in earlier calls
		found     bool    // what find says
		findErr   error
		want      string
		wantErr   error
		wantFinds int
		wantActs  int
	}{
		{name: "fresh acts without looking", want: "acted", wantActs: 1},
		{name: "done neither looks nor acts", earlier: []error{nil}, want: "acted", wantActs: 1},
		{name: "failed before is looked for, then done", earlier: []error{boom}, want: "acted", wantFinds: 1, wantActs: 2},
		{
			name: "failed after the effect is found", earlier: []error{boom}, found: true, want: "found", wantFinds: 1,
			wantActs: 1,
		},
		{name: "cannot look, does not act", earlier: []error{boom}, findErr: boom, wantErr: boom, wantFinds: 1, wantActs: 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := effects.Runner{Store: newMemory(), Now: func() time.Time { return time.Unix(1, 0) }}
			var finds, acts int
			call := func(actErr error) (string, error) {
				return effects.Do(t.Context(), r, key, nil,
					func(context.Context) (string, bool, error) { finds++; return "found", c.found, c.findErr },
					func(context.Context) (string, error) { acts++; return "acted", actErr })
			}
			for _, e := range c.earlier {
				if _, err := call(e); !errors.Is(err, e) {
					t.Fatalf("earlier call = %v, want %v", err, e)
				}
			}
			got, err := call(nil)
			if !errors.Is(err, c.wantErr) {
				t.Fatalf("err = %v, want %v", err, c.wantErr)
			}
			if err == nil && got != c.want {
				t.Errorf("result = %q, want %q", got, c.want)
			}
			if finds != c.wantFinds || acts != c.wantActs {
				t.Errorf("finds, acts = %d, %d, want %d, %d", finds, acts, c.wantFinds, c.wantActs)
			}
		})
	}
}

// TestGivingUpKeepsTheRecord ends the context while acting: the effect is out
// there and must be recorded.
func TestGivingUpKeepsTheRecord(t *testing.T) {
	t.Parallel()
	m := newMemory()
	ctx, cancel := context.WithCancel(t.Context())
	key := effects.PR("r1", "o/r", "ralph/7")
	_, err := effects.Do(ctx, effects.Runner{Store: contextual{m}}, key, nil,
		func(context.Context) (int, bool, error) { return 0, false, nil },
		func(context.Context) (int, error) { cancel(); return 2, nil })
	if err != nil {
		t.Fatal(err)
	}
	if got := m.rows[key.String()].Status; got != store.EffectDone {
		t.Errorf("status = %s, want done", got)
	}
}

// contextual refuses an ended context, as a database does.
type contextual struct{ *memory }

func (c contextual) FinishEffect(ctx context.Context, key string, result []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.memory.FinishEffect(ctx, key, result)
}
