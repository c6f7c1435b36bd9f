//go:build load

package gitrepo

// measured says that bounds of time and memory are held, one test at a time.
const measured = true
