// Package proc is the one place where processes are started, and where they lock files.
//
// Invariants:
//   - Nothing is inherited that was not asked for: the environment is exactly
//     Cmd.Env, and no descriptor but stdio and Cmd.ExtraFiles reaches the child.
//   - Run leads a process group of its own, and nothing of that group is alive
//     when Run returns, whether it ended, failed, was cancelled or left
//     children behind. (A descendant that makes its own session escapes a
//     group; containers are the boundary for hostile programs.)
//   - Output kept in memory is bounded; what comes after the limit is read and
//     dropped, so that the child never blocks on it.
//   - Command lines are argument vectors. There is no shell.
//
// It imports the standard library only and builds on Linux and macOS.
package proc
