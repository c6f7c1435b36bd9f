package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/admission"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// current are the values of the configuration that hold at once when it is read again.
type current struct {
	limits    atomic.Pointer[run.Limits]
	admission atomic.Pointer[admission.Limits]
	level     atomic.Int32
	secrets   *secrets
}

func newCurrent(cfg config.Server) *current {
	c := &current{secrets: newSecrets(cfg)}
	c.set(cfg)
	return c
}

func (c *current) set(cfg config.Server) {
	c.limits.Store(&cfg.Limits)
	places := admissionLimits(cfg)
	c.admission.Store(&places)
	level, err := zerolog.ParseLevel(cfg.Log.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	c.level.Store(int32(level))
}

// Run implements zerolog.Hook: it drops what is below the level of now.
func (c *current) Run(e *zerolog.Event, level zerolog.Level, _ string) {
	if int32(level) < c.level.Load() {
		e.Discard()
	}
}

// reloaded is what `bot reload` prints.
type reloaded struct {
	// Changed are the keys that hold with their new values; Kept those that changed in the
	// file and need a restart.
	Changed []string `json:"changed"`
	Kept    []string `json:"needs_restart"`
}

// reload reads the configuration again. One that is not right changes nothing.
func (a *app) reload(ctx context.Context) (reloaded, error) {
	if a.load == nil {
		return reloaded{}, &run.UserError{Message: "this server has no configuration file", Hint: "start it again"}
	}
	next, err := a.load()
	if err != nil {
		return reloaded{}, err
	}
	a.reloading.Lock()
	defer a.reloading.Unlock()
	out := reloaded{Changed: []string{}, Kept: []string{}}
	now := &a.cfgNow
	secrets, err := a.current.secrets.reload(now)
	if err != nil {
		return reloaded{}, err
	}
	out.Changed = append(out.Changed, secrets...)
	if now.Limits != next.Limits || now.Concurrency != next.Concurrency {
		out.Changed = append(out.Changed, "limits")
	}
	if now.Log.Level != next.Log.Level {
		out.Changed = append(out.Changed, "log.level")
	}
	now.Limits, now.Concurrency, now.Log.Level = next.Limits, next.Concurrency, next.Log.Level
	a.current.set(next)
	out.Kept = append(out.Kept, differing(*now, next)...)
	err = a.deliveries.Operated(ctx, "reload")
	a.log.Info().Strs("changed", out.Changed).Strs("needs_restart", out.Kept).Msg("read the configuration again")
	return out, err
}

// differing names the keys in which two configurations differ.
func differing(a, b config.Server) (keys []string) {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range va.NumField() {
		if !reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			keys = append(keys, serverKey(va.Type().Field(i).Name))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// serverKey is what the file calls a field of config.Server.
func serverKey(field string) string {
	if key, ok := map[string]string{
		"MetricsListen": "metrics_listen", "Concurrency": "limits", "GitHub": "github", "DataDir": "data_dir",
		"Branches": "branch_template", "AllowLocalSandbox": "allow_local_sandbox", "Log": "log.format",
		"Private": "the places of secrets", "SecretFiles": "the places of secrets",
	}[field]; ok {
		return key
	}
	return string(field[0]|0x20) + field[1:]
}

// onHangup reads the configuration again at each SIGHUP, until end is called.
func (a *app) onHangup(ctx context.Context) (end func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-hangups:
				if _, err := a.reload(ctx); err != nil {
					a.log.Error().Err(err).Msg("the configuration was not read again; the old one holds")
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		cancel()
	}
}

// reloadCmd is `bot reload`.
type reloadCmd struct{ serverFlags }

// Run has the server read its configuration again.
func (c *reloadCmd) Run(ctx bound, io stdio) error {
	var out reloaded
	if err := askServer(ctx, c.Config, http.MethodPost, "/reload", nil, &out); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(io.out, out)
	}
	return out.print(io.out)
}

func (r reloaded) print(w io.Writer) error {
	say := func(what string, keys []string) string {
		if len(keys) == 0 {
			return what + ": nothing.\n"
		}
		return what + ": " + strings.Join(keys, ", ") + ".\n"
	}
	_, err := fmt.Fprint(w, say("Changed", r.Changed)+say("Stays as it is until the server is started again", r.Kept))
	return err
}
