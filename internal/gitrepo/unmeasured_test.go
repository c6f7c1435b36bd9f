//go:build !load

package gitrepo

// measured says that bounds of time and memory are held, which needs a machine that does nothing else.
const measured = false
