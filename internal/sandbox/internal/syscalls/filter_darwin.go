package syscalls

import "errors"

// Filter and Restrict have no equivalent here.
func Filter() ([]byte, error) { return nil, errors.ErrUnsupported }

// Restrict has no equivalent here.
func Restrict() error { return errors.ErrUnsupported }
