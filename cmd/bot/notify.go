//go:build unix

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
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
	Notify      []string `env:"RALPH_NOTIFY" sep:" " help:"Where to tell of the run: an address of Slack, Discord, Telegram, mail or a signed webhook, or script:FILE; repeatable. Addresses are secrets, so rather set the variable, with blanks between them. See docs/notifications.md." placeholder:"ADDRESS"`
	NotifyOn    []string `enum:"start,progress,finish,needs_human" help:"What to tell: start, progress, finish, needs_human; repeatable. Default: all of it." placeholder:"EVENT"`
	NotifyEvery int      `default:"5" help:"After how many iterations to tell of progress (default: ${default})." placeholder:"N"`
}

// envNotifySecret signs what is sent to webhooks that have no name.
const envNotifySecret = "RALPH_NOTIFY_SECRET"

func (f notifyFlags) config() notify.Config {
	return notify.Config{Targets: targets(f.Notify, os.Getenv(envNotifySecret), notices(f.NotifyOn)), Every: f.NotifyEvery, Own: true}
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
func newNotifier(cfg notify.Config, mask *redact.Masker, failed func(target string, err error)) (*notify.Notifier, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cfg.Self, cfg.Mask, cfg.Failed = self, mask.Mask, failed
	return notify.New(cfg)
}

// logFailed has the log say what did not arrive.
func logFailed(log zerolog.Logger) func(target string, err error) {
	return func(target string, err error) {
		log.Warn().Err(err).Str("target", target).Msg("a notification did not arrive")
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
	Test notifyTestCmd `cmd:"" help:"Send a test message to each target, and say what came of it."`
}

// notifyTestCmd is `bot notify test`.
type notifyTestCmd struct {
	Config string   `help:"The server's configuration (default: ralph.yaml, where no --notify is given)." placeholder:"FILE" type:"path"`
	Notify []string `env:"RALPH_NOTIFY" sep:" " help:"An address in place of the configuration's, as bot run takes it; repeatable." placeholder:"ADDRESS"`
}

// Run sends the messages.
func (c *notifyTestCmd) Run(ctx bound, io stdio) error {
	var to []notify.Target
	if c.Config == "" && len(c.Notify) > 0 {
		to = targets(c.Notify, os.Getenv(envNotifySecret), nil)
	} else {
		cfg, err := config.LoadServer(cmp.Or(c.Config, "ralph.yaml"), os.LookupEnv, os.ReadFile)
		if err != nil {
			return err
		}
		to = serverTargets(cfg.Notify)
	}
	if len(to) == 0 {
		return &run.UserError{Message: "there is nobody to notify", Hint: "add targets to the configuration, or give --notify; see docs/notifications.md"}
	}
	n, err := newNotifier(notify.Config{Targets: to}, environmentMask(notifySecrets(to)...), nil)
	if err != nil {
		return err
	}
	defer n.Drop()
	results := n.Test(ctx, time.Now())
	broken := 0
	for _, t := range to {
		kind, _ := t.Kind() // it was opened
		if err := results[t.Name]; err != nil {
			broken++
			fmt.Fprintf(io.out, "✗ %-15s %s: %v\n", t.Name, kind, err)
			continue
		}
		fmt.Fprintf(io.out, "✓ %-15s %s took the message\n", t.Name, kind)
	}
	if broken > 0 {
		return ended{run.ExitFailed}
	}
	return nil
}

// notifySendCmd is the process that sends one message.
type notifySendCmd struct{}

// Run sends what is on standard input.
func (c *notifySendCmd) Run(io stdio) error { return notify.Send(io.in) }
