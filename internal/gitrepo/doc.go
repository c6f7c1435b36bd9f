// Package gitrepo is the host's side of git: it reads and writes the objects
// and refs that the host owns, and moves file trees between them and
// directories that an agent may write.
//
// Three kinds of bare repositories borrow from one another: a mirror (or the
// person's own repository) holds what was published; a fork of it takes what a
// run writes ([Repo.Fork]); and a shallow clone beside the index of a work tree
// is copied to be the agent's own ([Worktree.InitAgentGit]). Git itself reads and
// writes them, most often through processes that wait for the next question.
//
// Invariants:
//   - No git process ever runs on a directory the agent can write, nor with a
//     git dir the agent can write. Exporting a tree and taking a snapshot of a
//     directory are done here, file by file, relative to open directories and
//     without following a link; git gets contents as files of our own.
//     So there is no filter, hook, monitor, alternate or
//     included config of the agent's that could take effect: nothing reads them.
//     Copies of .gitignore and .gitattributes files, in a directory of the host's own,
//     tell git what is ignored and how lines end.
//   - The git program is used on the host's own git dirs only (a bare mirror
//     that this package made, or the person's own repository on the command
//     line), with hooks, monitors, external diffs, text conversions, lazy
//     fetching and submodules off, and with an environment made here. The
//     person's filter drivers are emptied, since their attributes may come from
//     an agent, and a configuration that files of the checkout are part of is
//     refused.
//   - What opens, asks or pushes for the person runs git as they would, with their
//     configuration and credentials, and still without hooks.
//   - A credential goes to git through the environment of that one process. It
//     is in no argument, file, URL or error.
//   - Refs, object names and paths are validated before git sees them.
//   - The host's index of a directory lies outside of it. A file counts as
//     unchanged only if size, inode, mode and both time stamps are what they
//     were when the host last wrote or read it.
//
// What a snapshot refuses it names in Snapshot.Refused and leaves as it was in
// the tree before: a refusal adds nothing and deletes nothing.
//
// Losing the machine's power may lose the newest objects, as with git's own
// defaults; killing the process at any instant does not.
package gitrepo
