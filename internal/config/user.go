package config

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/run"
)

// UserFile is where a person keeps what holds for each of their runs, below the
// directory of their configuration.
const UserFile = "ralph/config.yml"

// User is what a person wants of each `bot run` that does not say otherwise. The
// zero value says nothing. Its keys are those of the server's file.
type User struct {
	Agent   Agent      `yaml:"agent"`
	Sandbox Place      `yaml:"sandbox"`
	Limits  run.Limits `yaml:"limits"`
	// Egress are hosts that containers may reach.
	Egress egress.List `yaml:"egress.allow" is:"host"`
}

// LoadUser reads the file at path. One that is not there says nothing, and found
// is false; what is wrong with one is a *run.UserError that names all of it.
func LoadUser(path string, readFile func(string) ([]byte, error)) (u User, found bool, err error) {
	source, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return User{}, false, nil
	}
	if err != nil {
		return User{}, false, &run.UserError{
			Message: "cannot read your configuration: " + err.Error(), Hint: "check the path and its permissions", Err: err,
		}
	}
	if problems := decode(source, filepath.Dir(path), &u, func(*document) {}); len(problems) > 0 {
		return User{}, true, problemsError(path, problems)
	}
	return u, true, nil
}
