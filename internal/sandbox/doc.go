// Package sandbox is the seam between the loop, which wants a command run on a
// work tree, and the places that can run one: a process group on this machine
// (local) or a container (docker).
//
// A command is started, then observed: it is detached, named by its caller, and
// lives on when the process that started it dies (unless asked otherwise), so
// that any later process can find it again by its [Handle].
//
// Invariants:
//   - Starting a name twice is starting it once.
//   - A start whose state is [Exited] has nothing left running: no child, no
//     process that slipped into a session of its own.
//   - What the command can write is its work tree, its home and its temporary
//     directory. Its exit record and its transcript are written by the shim
//     (package shim), its parent.
//
// The package holds the contract only; sandboxtest holds the tests that every
// implementation must pass.
package sandbox
