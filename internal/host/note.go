package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// writeNote keeps what a later step, of whichever process, has to know. It appears whole.
func writeNote(path string, note any) error {
	b, err := json.Marshal(note)
	if err == nil {
		next := path + ".new"
		if err = os.WriteFile(next, b, 0o600); err == nil {
			err = os.Rename(next, path)
		}
	}
	if err != nil {
		return fmt.Errorf("write a note: %w", err)
	}
	return nil
}

// readNote reads what writeNote has kept. found is false where that is nothing.
func readNote(path string, note any) (found bool, err error) {
	b, err := os.ReadFile(path) // #nosec G304 -- a file of our own
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, note)
	}
	if err != nil {
		return false, fmt.Errorf("read a note: %w", err)
	}
	return true, nil
}
