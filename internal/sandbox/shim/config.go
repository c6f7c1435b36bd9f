package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// Config is what one shim has to do. It travels as JSON in a file, since argv and
// environment of a process are easy to read for others.
type Config struct {
	// Argv is the command; Argv[0] is looked up in the command's PATH.
	Argv []string `json:"argv"`
	// Env is the command's whole environment; nil hands on the shim's own.
	Env []string `json:"env"`
	// Defaults are set where the environment says nothing of them.
	Defaults map[string]string `json:"defaults,omitempty"`
	// HomeFiles are written into the command's home before it starts, by their
	// paths there.
	HomeFiles map[string]string `json:"home_files,omitempty"`
	// Dir is the command's working directory.
	Dir string `json:"dir"`
	// Stdin is the file whose content is given as standard input, "" for /dev/null.
	Stdin string `json:"stdin,omitempty"`
	// Stdout and Stderr are the transcript's files, Record that of the
	// events. They are made where they are missing. The shim removes these names,
	// and that of the configuration, before the command starts.
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Record string `json:"record"`

	// OutputLimit is how many bytes of stdout are kept.
	OutputLimit int64 `json:"output_limit"`
	// WallTimeout and IdleTimeout end the command; 0 is no limit. Idle means
	// no byte on stdout or stderr.
	WallTimeout time.Duration `json:"wall_timeout,omitempty"`
	IdleTimeout time.Duration `json:"idle_timeout,omitempty"`
	// Watched are the directories that the command may fill, and DiskBytes and
	// DiskFiles what they may hold together, with what was there before; 0 is
	// no limit but that something is left on their file systems.
	Watched   []string `json:"watched,omitempty"`
	DiskBytes int64    `json:"disk_bytes,omitempty"`
	DiskFiles int64    `json:"disk_files,omitempty"`
	// Grace is the time between the request to end and SIGKILL.
	Grace time.Duration `json:"grace"`

	// Limits bound each process of the command.
	Limits Limits `json:"limits,omitzero"`
	// Refuse has the shim, and all that it starts, make none of the system calls by which
	// programs get out of a sandbox.
	Refuse bool `json:"refuse,omitempty"`

	// Listen is the loopback address relayed to the unix socket Socket; no
	// relay where it is "".
	Listen string `json:"listen,omitempty"`
	Socket string `json:"socket,omitempty"`

	// WatchOwner ends the command when the shim's own standard input comes to
	// its end: only the owner holds the other side.
	WatchOwner bool `json:"watch_owner,omitempty"`
}

// WriteFile writes the configuration to a new file of mode 0600.
func (c Config) WriteFile(path string) error {
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("write shim configuration: %w", err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write shim configuration: %w", err)
	}
	return nil
}

func readConfig(path string) (Config, error) {
	data, err := os.ReadFile(path) // #nosec G304 G703 -- the path is the caller's
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	if len(c.Argv) == 0 || c.Record == "" || c.Stdout == "" || c.Stderr == "" {
		return Config{}, errors.New("read configuration: it names no command or no files")
	}
	return c, nil
}
