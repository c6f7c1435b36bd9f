package fstree

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteNote keeps v as JSON in a file, for another process to read. It appears whole, whoever
// else writes it. It is not synced: after a power cut there may be nothing in it.
func WriteNote(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write a note: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return fmt.Errorf("write a note: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write a note: %w", err)
	}
	return nil
}

// ReadNote reads what WriteNote has kept. found is false where that is nothing.
func ReadNote(path string, v any) (found bool, err error) {
	data, err := os.ReadFile(path) // #nosec G304 -- a file of our own
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return false, fmt.Errorf("read a note: %w", err)
	}
	return true, nil
}
