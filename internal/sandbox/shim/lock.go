package shim

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the advisory lock of f without waiting.
func tryLock(f *os.File) (bool, error) {
	return flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
}

func flock(f *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), how) // #nosec G115 -- a descriptor fits
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case errors.Is(err, syscall.EINTR):
		default:
			return false, os.NewSyscallError("flock", err)
		}
	}
}

// Alive says whether a shim lives that holds the record at path.
func Alive(path string) (bool, error) {
	f, err := os.Open(path) // #nosec G304 -- the path is the caller's
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	// Shared, so that those who ask do not see each other.
	free, err := flock(f, syscall.LOCK_SH|syscall.LOCK_NB)
	return err == nil && !free, err
}
