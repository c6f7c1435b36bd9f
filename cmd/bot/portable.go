package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/notify"
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

// portable is what a person has set for portableralph: in the environment, or in
// ~/.ralph.env, which is read as data and never executed.
type portable struct {
	env func(string) (string, bool)
	// file are the values of the file, skipped the lines that are none.
	file    map[string]string
	skipped []int
	// asked are the names that get was asked for.
	asked map[string]bool
}

// readPortable reads the file, if it is there.
func readPortable(env func(string) (string, bool)) (portable, error) {
	p := portable{env: env, asked: map[string]bool{}}
	home, err := os.UserHomeDir()
	if err != nil {
		return p, nil //nolint:nilerr // nobody's home
	}
	src, err := readBounded(filepath.Join(home, portableFile), config.MaxEnvFile)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, &run.UserError{
			Message: "cannot read ~/" + portableFile + ", the settings of portableralph: " + err.Error(),
			Hint:    "mend the file, or move it away", Err: err,
		}
	}
	p.file, p.skipped = config.ParseEnv(src, home)
	if script := p.file[portableScript]; script != "" && !filepath.IsAbs(script) {
		// Where the bot was started must not decide which program runs.
		p.file[portableScript] = filepath.Join(home, script)
	}
	return p, nil
}

// portablePaths are files of portableralph that agents must not read: they hold
// addresses.
func portablePaths() []string {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	return []string{filepath.Join(home, portableFile)}
}

// portableMissing says whether a person has no such file yet.
func portableMissing() bool {
	home, err := os.UserHomeDir()
	if err != nil {
		return false
	}
	_, err = os.Lstat(filepath.Join(home, portableFile))
	return errors.Is(err, fs.ErrNotExist)
}

// checkNotify says what is wrong with addresses, separated by blanks.
func checkNotify(addresses string) error {
	n, err := newNotifier(notify.Config{Targets: targets(strings.Fields(addresses), os.Getenv(envNotifySecret), nil)},
		environmentMask(), nil)
	if err == nil {
		n.Drop()
	}
	return err
}

// writePortable begins the file with addresses for notifications.
func writePortable(addresses string) (err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("find your home: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(home, portableFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- in the person's home
	if err != nil {
		return fmt.Errorf("write your settings: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = fmt.Fprintf(f, "export %s='%s'\n", envNotify, strings.ReplaceAll(addresses, "'", `'\''`))
	return err
}

// readBounded reads a regular file of at most that size.
func readBounded(path string, most int64) (b []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("it is no file of at most %d bytes", most)
	}
	return os.ReadFile(path) // #nosec G304 -- in the person's home
}

// get is the value of a variable, "" for none. The environment goes before the file.
func (p portable) get(name string) string {
	if p.env == nil {
		return ""
	}
	p.asked[name] = true
	if value, ok := p.env(name); ok {
		return value
	}
	return p.file[name]
}

// address is where a variable sends notifications.
type address struct{ name, address string }

// addresses are where notifications go.
func (p portable) addresses() []address {
	var out []address
	if all := p.get(envNotify); p.file[envNotify] == all { // else a flag has it
		for to := range strings.FieldsSeq(all) {
			out = append(out, address{envNotify, to})
		}
	}
	add := func(name, to string) { out = append(out, address{name, to}) }
	if script := p.get(portableScript); script != "" {
		add(portableScript, "script:"+script)
	}
	if token, chat := p.get(portableToken), p.get(portableChat); token != "" && chat != "" {
		add(portableToken, "https://api.telegram.org/bot"+token+"/sendMessage?chat_id="+url.QueryEscape(chat))
	}
	for _, name := range []string{portableSlack, portableDiscord} {
		if to := p.get(name); to != "" {
			add(name, to)
		}
	}
	return out
}

// agent completes a person's own choice of an agent: what their configuration says
// goes before.
func (p portable) agent(own config.Agent) config.Agent {
	name := p.get(portableAgent)
	if name == "custom" {
		name = config.AgentCommand
	}
	command, model := p.get(portableCommand), p.get(portableModel)
	if own.Name != "" {
		return own
	}
	own.Name = name
	own.Command, own.Model = cmp.Or(own.Command, command), cmp.Or(own.Model, model)
	return own
}

// leavesWork says whether work is to stay uncommitted.
func (p portable) leavesWork() bool { return p.get(portableCommit) == "false" }

// tell says once what is heeded of the file and what is not, by name: values are
// secrets.
func (p portable) tell(w io.Writer) {
	p.addresses() // asks for what they are made of
	var heeded, others []string
	for _, name := range slices.Sorted(maps.Keys(p.file)) {
		_, outside := p.env(name)
		switch {
		case p.file[name] == "" || outside:
		case p.asked[name]:
			heeded = append(heeded, name)
		default:
			others = append(others, name)
		}
	}
	if len(heeded) > 0 {
		fmt.Fprintf(w, "settings of portableralph in ~/%s: %s\n", portableFile, strings.Join(heeded, ", "))
	}
	if len(others) > 0 {
		fmt.Fprintf(w, "ignored in ~/%s: %s\n", portableFile, strings.Join(others, ", "))
	}
	for _, n := range p.skipped {
		fmt.Fprintf(w, "ignored in ~/%s: line %d is not NAME=VALUE\n", portableFile, n)
	}
}
