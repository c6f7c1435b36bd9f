// Package docker runs commands in containers of a Docker engine on this
// machine: one container per start, the shim its first process.
//
// # What a command gets
//
// A user id that is not 0, no capabilities, no new privileges, the engine's
// seccomp profile and the shim's filter of system calls, a read-only root, tmpfs for
// home, /tmp and the volumes that the image declares, no network but loopback, limits
// on memory, processes and CPU, and these mounts:
//
//	/workspace        the work tree, writable
//	/opt/ralph/bot    the bot's program, which is the shim
//	/run/ralph        empty by the time the command starts, see below
//	/run/cache        the build caches, writable, if there are any
//	/run/gateway      the directory of the gateway's socket, if there is one
//	Spec.Mounts       read-only
//
// So whatever a command can write is a tmpfs, which counts as its memory, or
// counted by the shim as its disk: /workspace, /run/cache and /run/ralph.
//
// # What is trusted
//
// The shim runs as the command's user, since the container has no capability
// to change it. It must nevertheless be the only one to write the transcript
// and the exit record, for a command that can forge them decides for itself
// what it said and whether it succeeded. So the host makes these files in the
// run directory, which no container sees, and hard links to them in a
// subdirectory of this attempt's that is mounted (package rundir). The shim opens the links, removes them, makes
// itself undumpable (so that the kernel keeps /proc/1/fd and /proc/1/mem from
// a process of the same user), and then starts the command: from there on the
// files have no name that the command can reach, and the host reads them by
// the names it kept. The subdirectory is never read again.
//
// A container's first process is not killed by SIGKILL or SIGSTOP from inside,
// and the shim catches the rest: SIGTERM or SIGINT from inside end the
// command, and are recorded as an end by a signal, since the host did not ask.
// Where the record and the engine disagree on the exit code, or there is no
// record, the start is lost (sandbox.ReasonLost), never successful.
//
// # Images
//
// An image is somebody else's. Whatever is in it, it is run by the rules above.
//
// # What the engine must be
//
// On this machine (host directories are mounted), without user namespaces
// (the owner of a file must mean the same inside and outside), Linux, API 1.40
// or later. Check says so. Docker Desktop on macOS is not tested.
package docker
