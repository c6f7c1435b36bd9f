// Package syscalls filters system calls: docker's default seccomp profile, compiled here,
// so that neither an engine's age nor its absence decides what a command may ask of the
// kernel.
package syscalls
