// Package fstree walks and removes directory trees that an agent may have made,
// so that neither depth nor size nor permissions of theirs cost more than they
// must.
//
// Invariants:
//   - A directory is reached from its parent's open descriptor, by one name:
//     never through a path, and never through a link. So a walk takes time
//     linear in what it sees.
//   - Names are read a batch at a time: the memory of a walk depends on the
//     depth, which MaxDepth bounds, and not on the number of files.
//   - A cancelled context ends a walk within one batch of names.
//
// It also keeps the host's own notes, each a file that appears whole.
package fstree
