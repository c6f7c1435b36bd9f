package appsetup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/org/ralph-action/internal/ghapp"
)

// The files that hold an App's credentials.
const (
	KeyFile     = "ralph-app.pem"
	WebhookFile = "ralph-app.webhook-secret"
	ClientFile  = "ralph-app.client-secret"
)

// ErrExists: there are credentials already.
var ErrExists = errors.New("there are credentials already")

// Files keep an App's credentials in a directory.
type Files struct {
	Dir string
	// Force replaces credentials that are there.
	Force bool
}

// Check says, before an App is made, whether its credentials can be stored:
// ErrExists where others are there. It makes the directory.
func (f Files) Check() error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the credentials: %w", err)
	}
	for _, name := range []string{KeyFile, WebhookFile, ClientFile} {
		_, err := os.Lstat(filepath.Join(f.Dir, name))
		switch {
		case err == nil && !f.Force:
			return fmt.Errorf("%w: %s", ErrExists, filepath.Join(f.Dir, name))
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("look for credentials: %w", err)
		}
	}
	probe, err := os.CreateTemp(f.Dir, ".ralph-app-")
	if err != nil {
		return fmt.Errorf("write to the directory of the credentials: %w", err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// Save writes the credentials.
func (f Files) Save(app ghapp.Registration) error {
	for _, file := range []struct{ name, content string }{
		{KeyFile, app.PrivateKey}, {WebhookFile, app.WebhookSecret + "\n"}, {ClientFile, app.ClientSecret + "\n"},
	} {
		if err := f.write(file.name, file.content); err != nil {
			return fmt.Errorf("store %s: %w", file.name, err)
		}
	}
	return nil
}

// write makes a file that is whole or not there. Where nothing may be replaced,
// a link does what a rename would, and fails where there is something.
func (f Files) write(name, content string) (err error) {
	tmp, err := os.CreateTemp(f.Dir, ".ralph-app-") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if rmErr := os.Remove(tmp.Name()); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
	}()
	_, err = tmp.WriteString(content)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	target := filepath.Join(f.Dir, name)
	if f.Force {
		return os.Rename(tmp.Name(), target)
	}
	return os.Link(tmp.Name(), target)
}
