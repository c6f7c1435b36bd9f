package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/notify"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// notifyGrace is how long the end of a run waits for its message to arrive.
const notifyGrace = 10 * time.Second

// stopGrace is how long a server that is stopped waits for what it has to tell.
const stopGrace = 5 * time.Second

// notifyFlags say who else is told of a run.
type notifyFlags struct {
	Notify      []string `env:"RALPH_NOTIFY" sep:" " help:"Where to send notifications: an address for Slack, Discord, Telegram or a signed webhook, or script:FILE; repeatable. Addresses are secrets, so better set the variable, separated by spaces. See docs/server.md#notifications." placeholder:"ADDRESS"`
	NotifyOn    []string `enum:"start,progress,finish,needs_human" help:"Which events to send: start, progress, finish, needs_human; repeatable (default: all)." placeholder:"EVENT"`
	NotifyEvery int      `default:"5" help:"Send progress after this many iterations (default: ${default})." placeholder:"N"`
}

// envNotifySecret signs what is sent to webhooks that have no name.
const envNotifySecret = "RALPH_NOTIFY_SECRET"

func (f notifyFlags) config(own portable) notify.Config {
	return notify.Config{Targets: ownTargets(f.Notify, notices(f.NotifyOn), own), Every: f.NotifyEvery}
}

// ownTargets are those of a person at a terminal: the addresses, and what the
// variables of portableralph name besides.
func ownTargets(addresses []string, on []run.Notice, own portable) []notify.Target {
	secret := os.Getenv(envNotifySecret)
	out := targets(addresses, secret, on)
	named := own.addresses()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !slices.Contains(addresses, named[name]) {
			t := targets([]string{named[name]}, secret, on)
			t[0].Name = name
			out = append(out, t...)
		}
	}
	return out
}

func notices(names []string) []run.Notice {
	var out []run.Notice
	for _, name := range names {
		out = append(out, run.Notice(name))
	}
	return out
}

// targets are addresses that a person or a workflow gives, by what they are and
// their number.
func targets(addresses []string, secret string, on []run.Notice) []notify.Target {
	var out []notify.Target
	for i, address := range addresses {
		t := notify.Target{URL: address, Secret: secret, Notices: on}
		scheme, rest, _ := strings.Cut(address, ":")
		if scheme == "script" {
			t.URL, t.Script = "", rest
			if abs, err := filepath.Abs(rest); err == nil {
				t.Script = abs
			}
		}
		t.Name = fmt.Sprintf("target %d", i+1)
		out = append(out, t)
	}
	return out
}

// serverTargets are those of the server's configuration.
func serverTargets(cfg config.Notify) []notify.Target {
	var out []notify.Target
	for _, t := range cfg.Targets {
		out = append(out, notify.Target{
			Name: t.Name, URL: t.URL.Reveal(), Secret: t.Secret.Reveal(), Script: t.Script, Notices: t.Notices, Serves: t.Serves,
		})
	}
	return out
}

// notifySecrets are what no message, log or prompt may hold of targets.
func notifySecrets(targets []notify.Target) []string {
	var out []string
	for _, t := range targets {
		out = append(append(out, notify.Secrets(t.URL)...), notify.Secrets(t.Secret)...)
	}
	return out
}

// newNotifier begins to tell of runs. It must be closed.
func newNotifier(
	cfg notify.Config, mask *redact.Masker, failed func(target string, err error),
) (*notify.Notifier, error) {
	cfg.Mask, cfg.Failed = mask.Mask, failed
	return notify.New(cfg)
}

// logFailed has the log say what did not arrive.
func logFailed(log zerolog.Logger) func(target string, err error) {
	return func(target string, err error) {
		log.Warn().Err(err).Str("target", target).Msg("a notification was not delivered")
	}
}

// closeNotifier gives what is waiting some time, though ctx has ended.
func closeNotifier(ctx context.Context, n *notify.Notifier, grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	n.Close(ctx)
}

// notifyCmd is `bot notify`.
type notifyCmd struct {
	Test notifyTestCmd `cmd:"" help:"Send a test message to each target and show the results."`
}

// notifyTestCmd is `bot notify test`.
type notifyTestCmd struct {
	Config string   `help:"The server's configuration (default: ralph.yaml, unless --notify or a variable gives an address)." placeholder:"FILE" type:"path"`
	Notify []string `env:"RALPH_NOTIFY" sep:" " help:"An address to use instead of the configured ones, as for ${bot} run; repeatable." placeholder:"ADDRESS"`
}

// Run sends the messages.
func (c *notifyTestCmd) Run(ctx bound, io stdio) error {
	var to []notify.Target
	if c.Config == "" {
		own, err := readPortable()
		if err != nil {
			return err
		}
		to = ownTargets(slices.Concat(c.Notify, strings.Fields(own.file[envNotify])), nil, own)
	}
	if len(to) == 0 {
		cfg, err := config.LoadServer(cmp.Or(c.Config, "ralph.yaml"), os.LookupEnv, os.ReadFile)
		if err != nil {
			return err
		}
		to = serverTargets(cfg.Notify)
	}
	if len(to) == 0 {
		return &run.UserError{
			Message: "no notification target is set",
			Hint:    "add targets to the configuration or pass --notify; see docs/server.md#notifications",
		}
	}
	n, err := newNotifier(notify.Config{Targets: to}, environmentMask(notifySecrets(to)...), nil)
	if err != nil {
		return err
	}
	defer n.Drop()
	results := n.Test(ctx, time.Now())
	broken, out := 0, io.out
	for _, t := range to {
		kind, _ := t.Kind() // it was opened
		if err := results[t.Name]; err != nil {
			broken++
			fmt.Fprintf(out, "✗ %-15s %s: %v\n", t.Name, kind, err)
			continue
		}
		fmt.Fprintf(out, "✓ %-15s %s accepted the message\n", t.Name, kind)
	}
	if broken > 0 {
		return ended{run.ExitFailed}
	}
	return nil
}
