package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// TestExtrasInTrouble: a refusal is taken and told; what passes is tried again, but not for
// long, whosever it is.
func TestExtrasInTrouble(t *testing.T) {
	t.Parallel()
	class := func(c ghapp.Class) error {
		return fmt.Errorf("show: %w", &ghapp.Error{Op: "create check run", Class: c})
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		err      error
		troubles int
		ctx      context.Context //nolint:containedctx // of a table
		again    bool
		told     int
	}{
		"forbidden":             {err: class(ghapp.Forbidden), told: 1},
		"no token":              {err: class(ghapp.Unauthorised), told: 1},
		"invalid":               {err: class(ghapp.Invalid), told: 1},
		"not found":             {err: class(ghapp.NotFound), told: 1},
		"rate limited":          {err: class(ghapp.RateLimited), again: true},
		"rate limited for long": {err: class(ghapp.RateLimited), troubles: 9, again: true},
		"server error":          {err: class(ghapp.Transient), again: true},
		"server error for long": {err: class(ghapp.Transient), troubles: extraTroubles, told: 1},
		"our own":               {err: errors.New("disk full"), again: true},
		"our own for long":      {err: errors.New("disk full"), troubles: extraTroubles, told: 1},
		"cut off":               {err: class(ghapp.Forbidden), ctx: stopped, again: true},
		"none":                  {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			err := extra(zerolog.New(&log).WithContext(ctx), loop.State{Counts: loop.Counts{Troubles: c.troubles}}, "no", c.err)
			if (err != nil) != c.again || c.again && !errors.Is(err, c.err) || strings.Count(log.String(), "\n") != c.told {
				t.Errorf("err = %v, told:\n%s", err, &log)
			}
		})
	}
}

// TestRefusedEnd: a refusal to show how a run ended is asked again, and then the rest is told without it.
func TestRefusedEnd(t *testing.T) {
	t.Parallel()
	no, away := &ghapp.Error{Class: ghapp.NotFound}, &ghapp.Error{Class: ghapp.Transient}
	for _, c := range []struct {
		end      run.EndReason
		troubles int
		err      error
		again    bool
	}{
		{run.EndBlocked, 0, no, true}, {run.EndBlocked, 1, no, true}, {run.EndBlocked, 2, no, false},
		{run.EndBlocked, 9, away, true}, {"", 9, no, true}, {run.EndBlocked, 0, nil, false},
	} {
		s := loop.State{Counts: loop.Counts{Troubles: c.troubles}}
		s.End = c.end
		if err := refusable(t.Context(), s, "no", c.err); (err != nil) != c.again {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
