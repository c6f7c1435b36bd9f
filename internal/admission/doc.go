// Package admission decides which runs may start an agent or a check, from a list of
// what is running and what waits. It is pure: the list is kept by its caller.
//
// Invariants:
//   - Never more starts than a limit leaves free, whatever the list says: a list that
//     is over a limit already admits nothing there.
//   - Fair between owners, then between an owner's repositories: whoever has the fewest
//     processes goes first, and of those whoever has waited longest since its last turn.
//     What is shared is places, so that long calls buy nobody more time than short ones.
//   - First come first served within a repository, but for answers of people, which go
//     before new work, and for runs that a limit on their person holds up, which hold up
//     nobody else's.
//   - A claim that can start does: who is held up by another limit keeps no place free.
package admission
