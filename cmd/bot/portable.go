package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// portableFile is where portableralph keeps what a person set, below their home.
const portableFile = ".ralph.env"

// The variables of portableralph that mean something here.
const (
	portableScript  = "RALPH_CUSTOM_NOTIFY_SCRIPT"
	portableSlack   = "RALPH_SLACK_WEBHOOK_URL"
	portableDiscord = "RALPH_DISCORD_WEBHOOK_URL"
	portableToken   = "RALPH_TELEGRAM_BOT_TOKEN"
	portableChat    = "RALPH_TELEGRAM_CHAT_ID"
	portableEvery   = "RALPH_NOTIFY_FREQUENCY"
	portableAgent   = "RALPH_AI_TOOL"
	portableCommand = "RALPH_AI_COMMAND"
	portableModel   = "RALPH_MODEL"
	portableCommit  = "RALPH_AUTO_COMMIT"

	// envNotify is ours: the variable of --notify, which the file may hold, too.
	envNotify = "RALPH_NOTIFY"
)

var portableNames = []string{
	portableScript, portableSlack, portableDiscord, portableToken, portableChat, portableEvery, portableAgent, portableCommand,
	portableModel, portableCommit, envNotify,
}

// portable is what a person has set for portableralph in ~/.ralph.env, which is read as data
// and never executed. The environment goes before it, and never holds what it says: an agent
// may get the environment.
type portable struct {
	file map[string]string
	// said is what is taken of the file and what is not, by name: values are secrets.
	said string
}

// readPortable reads the file, if it is there.
func readPortable() (portable, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return portable{}, nil //nolint:nilerr // nobody's home
	}
	src, err := readBounded(filepath.Join(home, portableFile), config.MaxEnvFile)
	if errors.Is(err, fs.ErrNotExist) {
		return portable{}, nil
	}
	if err != nil {
		return portable{}, &run.UserError{
			Message: "cannot read ~/" + portableFile + ", the settings of portableralph: " + err.Error(),
			Hint:    "mend the file, or move it away", Err: err,
		}
	}
	values, skipped := config.ParseEnv(src, home)
	if script := values[portableScript]; script != "" && !filepath.IsAbs(script) {
		// Where the bot was started must not decide which program runs.
		values[portableScript] = filepath.Join(home, script)
	}
	p := portable{file: values}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch _, outside := os.LookupEnv(name); {
		case values[name] == "" || outside:
		case slices.Contains(portableNames, name):
			p.said += fmt.Sprintf("~/%s sets %s\n", portableFile, name)
		default:
			p.said += fmt.Sprintf("ignored in ~/%s: %s\n", portableFile, name)
		}
	}
	for _, n := range skipped {
		p.said += fmt.Sprintf("ignored in ~/%s: line %d is not NAME=VALUE\n", portableFile, n)
	}
	return p, nil
}

// readBounded reads a regular file of at most that size.
func readBounded(path string, most int64) (b []byte, err error) {
	info, err := os.Stat(path) // #nosec G703 -- the person's own
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("it is no file of at most %d bytes", most)
	}
	return os.ReadFile(path) // #nosec G304 G703 -- likewise
}

// get is the value of a variable, "" for none.
func (p portable) get(name string) string {
	if value, ok := os.LookupEnv(name); ok {
		return value
	}
	return p.file[name]
}

// addresses are where notifications go besides --notify, by the variables that say so.
func (p portable) addresses() map[string]string {
	out := map[string]string{portableSlack: p.get(portableSlack), portableDiscord: p.get(portableDiscord)}
	if script := p.get(portableScript); script != "" {
		out[portableScript] = "script:" + script
	}
	if token, chat := p.get(portableToken), p.get(portableChat); token != "" && chat != "" {
		out[portableToken] = "https://api.telegram.org/bot" + token + "/sendMessage?chat_id=" + url.QueryEscape(chat)
	}
	maps.DeleteFunc(out, func(_, address string) bool { return address == "" })
	return out
}

// agent completes a person's own choice of an agent: what their configuration says
// goes before.
func (p portable) agent(own config.Agent) config.Agent {
	if own.Name != "" {
		return own
	}
	if own.Name = p.get(portableAgent); own.Name == "custom" {
		own.Name = config.AgentCommand
	}
	own.Command, own.Model = cmp.Or(own.Command, p.get(portableCommand)), cmp.Or(own.Model, p.get(portableModel))
	return own
}

// leavesWork says whether work is to stay uncommitted.
func (p portable) leavesWork() bool { return strings.EqualFold(p.get(portableCommit), "false") }
