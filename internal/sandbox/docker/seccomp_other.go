//go:build !linux

package docker

// profile is that of the engine: ours is known on Linux only.
func profile() (string, error) { return "", nil }
