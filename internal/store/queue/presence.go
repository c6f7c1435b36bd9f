package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// presence tells the processes that have the database open which of them are alive.
// Each holds the kernel's lock on a file of its own for as long as it lives; a
// file that can be locked by another is a dead process's. There is no time-out
// to guess: a slow process is never taken for dead, and a killed one is seen at
// once.
type presence struct {
	dir  string
	id   string
	file *os.File
}

// announce says that this process is alive, by a file in dir.
func announce(dir, id string) (_ *presence, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("announce presence: %w", err)
	}
	// Locked before it gets its name: a file that is seen is a file that is
	// locked, or dead.
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return nil, fmt.Errorf("announce presence: %w", err)
	}
	locked, err := tryLock(f)
	if err == nil && !locked {
		err = errors.New("a new file is locked by someone else")
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, id))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("announce presence: %w", err), os.Remove(f.Name()), f.Close())
	}
	return &presence{dir: dir, id: id, file: f}, nil
}

// leave says that this process ends and leaves nothing undone.
func (p *presence) leave() error {
	return errors.Join(os.Remove(filepath.Join(p.dir, p.id)), p.file.Close())
}

// known are the processes that have announced themselves and not left.
func (p *presence) known() (map[string]bool, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, fmt.Errorf("look for other processes: %w", err)
	}
	known := map[string]bool{}
	for _, e := range entries {
		known[e.Name()] = true
	}
	return known, nil
}

// eachDead calls bury for every process that died, with no other process doing the same,
// and forgets the ones for which it succeeds.
func (p *presence) eachDead(bury func(id string) error) error {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return fmt.Errorf("look for dead processes: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if e.Name() == p.id || strings.HasPrefix(e.Name(), ".") || !e.Type().IsRegular() {
			continue
		}
		if err := p.buryIfDead(e.Name(), bury); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (p *presence) buryIfDead(id string, bury func(id string) error) (err error) {
	path := filepath.Join(p.dir, id)
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // the name comes from ReadDir of our own directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it left, or someone else buried it
	}
	if err != nil {
		return fmt.Errorf("look whether %s is alive: %w", id, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	locked, err := tryLock(f)
	if err != nil {
		return fmt.Errorf("look whether %s is alive: %w", id, err)
	}
	if !locked {
		return nil
	}
	// Between open and lock someone else may have buried it and gone.
	held, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look whether %s is alive: %w", id, err)
	}
	if named, err := os.Lstat(path); err != nil || !os.SameFile(held, named) {
		return nil //nolint:nilerr // gone: nothing to do
	}
	if err := bury(id); err != nil {
		return err
	}
	return os.Remove(path)
}

// tryLock takes the kernel's lock on f, which lasts until f is closed or the
// process ends.
func tryLock(f *os.File) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case errors.Is(err, unix.EINTR):
		default:
			return false, err
		}
	}
}
