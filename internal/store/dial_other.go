//go:build unix && !linux

package store

import "syscall"

// boundSilence does nothing: only Linux bounds how long what was sent may stay
// unacknowledged.
func boundSilence(string, string, syscall.RawConn) error { return nil }
