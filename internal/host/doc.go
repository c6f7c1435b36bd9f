// Package host stands between the loop and the world it must not know: it
// gives the loop its workspace, its agents and its checks, made of package
// gitrepo, the sandboxes, and the agent back ends. The App, the Action and the
// command line all run on it; what differs between them is where the branch
// comes from ([Source]) and where commits go (the loop's Publisher).
//
// Invariants:
//   - The agent's work tree is an export without .git, below the run's own
//     directory; the host's index, prompts and records lie outside of it.
//   - Nothing of a work tree is read before everything that could write to it
//     has ended, and nothing of it is ever executed here.
//   - Whatever is kept in memory can be made again from disk: a host for the
//     same run in another process finds the same processes and trees.
package host
