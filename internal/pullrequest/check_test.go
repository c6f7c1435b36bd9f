package pullrequest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/publish/effects"
	"github.com/org/ralph-action/internal/publish/island"
	"github.com/org/ralph-action/internal/store"
)

// noChecks is a GitHub that makes no check runs.
type noChecks struct {
	publish.GitHub

	err   error
	calls int
}

func (g *noChecks) FullName() string { return "acme/widgets" }

func (g *noChecks) FindCheck(context.Context, string, string, string) (ghapp.FoundCheck, error) {
	return ghapp.FoundCheck{}, ghapp.ErrNotFound
}

func (g *noChecks) WriteChecks(_ context.Context, _ ghapp.PRChange,
	writes ...ghapp.CheckWrite) (ghapp.WrittenChecks, error) {
	g.calls++
	out := ghapp.WrittenChecks{IDs: make([]string, len(writes))}
	for i := range out.IDs {
		if g.err == nil {
			out.IDs[i] = "CR_1"
		}
	}
	return out, g.err
}

// TestCheckRunsInTrouble: a refusal is taken, and asked for and told once; what
// passes is waited for, but not for long, whosever it is.
func TestCheckRunsInTrouble(t *testing.T) {
	t.Parallel()
	class := func(c ghapp.Class) error {
		return fmt.Errorf("show: %w", &ghapp.Error{Op: "create check run", Class: c})
	}
	for name, c := range map[string]struct {
		err      error
		troubles int
		waits    bool // the step fails and is tried again
		calls    int  // of two attempts
		told     int
	}{
		"forbidden":             {err: class(ghapp.Forbidden), calls: 1, told: 1},
		"no token":              {err: class(ghapp.Unauthorised), calls: 1, told: 1},
		"invalid":               {err: class(ghapp.Invalid), calls: 2, told: 2},
		"not found":             {err: class(ghapp.NotFound), calls: 2, told: 2},
		"rate limited":          {err: class(ghapp.RateLimited), waits: true, calls: 2},
		"rate limited for long": {err: class(ghapp.RateLimited), troubles: 9, waits: true, calls: 2},
		"server error":          {err: class(ghapp.Transient), waits: true, calls: 2},
		"server error for long": {err: class(ghapp.Transient), troubles: checkTroubles, calls: 2, told: 2},
		"our own":               {err: errors.New("disk full"), waits: true, calls: 2},
		"our own for long":      {err: errors.New("disk full"), troubles: checkTroubles, calls: 2, told: 2},
		"not found by us": {err: fmt.Errorf("find own check run: %w", ghapp.ErrNotFound),
			troubles: checkTroubles, calls: 2, told: 2},
		"edited meanwhile": {err: publish.ErrEdited, troubles: 9, waits: true, calls: 2},
		"none":             {calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "ralph.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			}()
			gh := &noChecks{err: c.err}
			var log bytes.Buffer
			ctx := zerolog.New(&log).WithContext(t.Context())
			p := &Publisher{}
			pub := &publish.Publisher{GitHub: gh, Effects: effects.Runner{Store: st}, Run: "r-1", Issue: 7}
			for range 2 {
				_, err := p.check(ctx, pub, loop.State{Checkout: loop.Checkout{Head: "abc"},
					Counts: loop.Counts{Troubles: c.troubles}}, island.View{}, ghapp.PR{}, false)
				if (err != nil) != c.waits || c.waits && !errors.Is(err, c.err) {
					t.Errorf("err = %v", err)
				}
			}
			if gh.calls != c.calls || strings.Count(log.String(), "\n") != c.told {
				t.Errorf("%d calls, want %d; told %d times:\n%s", gh.calls, c.calls, c.told, &log)
			}
		})
	}
	t.Run("stopping", func(t *testing.T) {
		t.Parallel()
		st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "ralph.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		gh := &stopping{noChecks{err: class(ghapp.Forbidden)}, cancel}
		pub := &publish.Publisher{GitHub: gh, Effects: effects.Runner{Store: st}, Run: "r-1", Issue: 7}
		p := &Publisher{}
		if _, err := p.check(ctx, pub, loop.State{Checkout: loop.Checkout{Head: "abc"}}, island.View{},
			ghapp.PR{}, false); err == nil || p.noChecks {
			t.Errorf("an attempt that was cut off counts as an answer: %v", err)
		}
	})
}

// stopping is a GitHub that is asked while the process stops.
type stopping struct {
	noChecks

	cancel context.CancelFunc
}

func (g *stopping) WriteChecks(ctx context.Context, change ghapp.PRChange,
	writes ...ghapp.CheckWrite) (ghapp.WrittenChecks, error) {
	g.cancel()
	return g.noChecks.WriteChecks(ctx, change, writes...)
}
