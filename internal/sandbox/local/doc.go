// Package local runs commands as ordinary processes of this machine, under the
// shim, for laptops and for tests.
//
// What it holds: the contract of package sandbox, limits of time and output, a
// fresh home and temporary directory per start, an environment that hands on
// nothing but what the spec names.
//
// Where bubblewrap works (Linux, user namespaces permitted) the shim and the command run
// inside of it, the shim as the first process. Their file system begins empty (layout.go):
// the system's directories and programs are there to read, what is the command's own to
// write, and nothing else. The command is never root, has no capabilities, and calls the
// kernel through the shim's filter. Other processes are out of sight, and so are the run
// directory's records: the shim gets them as a container's does. Behind a gateway, and
// where bubblewrap is required, there is no network.
//
// Where it does not work, or is not wanted, nothing of that holds: the command
// can read and write whatever the bot's own user can (files, other processes, the
// run directory with its exit record) and reach the network. Memory is bounded in
// neither case. Confinement says which it is.
//
// On macOS there is neither a subreaper nor /proc: a process that makes a
// session of its own outlives the command, and Wait looks again every 50 ms.
package local
