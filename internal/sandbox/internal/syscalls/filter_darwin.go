package syscalls

import "errors"

// Filter has no equivalent here.
func Filter() ([]byte, error) { return nil, errors.ErrUnsupported }
