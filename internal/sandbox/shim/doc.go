// Package shim is "bot shim": the parent of one command and the first process inside
// its sandbox, of a container or of bubblewrap's namespaces. Where nothing is kept apart
// it is an ordinary process in a session of its own.
//
// It gives the command its prompt as standard input, writes what the command
// says into a capped file, keeps its time limits, relays loopback to the
// gateway's unix socket, kills whatever the command left behind, and records
// how it ended. It does so alone: the bot may be dead all the while.
//
// Invariants:
//   - One record, one command: a shim that finds its record file in use or
//     already written to does nothing.
//   - The record's last event, "ended", is written only when nothing of the
//     command is left running (Linux; elsewhere only its process group is
//     known, and a descendant in a session of its own escapes).
//   - The command cannot write the record or the transcript where it is kept apart:
//     the shim opens them, removes their names, and only then starts the
//     command; it is not dumpable, so that /proc does not give its descriptors
//     or its memory to a process of the same user. The host keeps hard links
//     where the command sees nothing.
//   - No work before it is called: it is on the path of every start.
package shim
