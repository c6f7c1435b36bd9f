// Package kube runs commands in pods of a Kubernetes cluster: one plain pod per start,
// the shim (package podshim) its first process.
//
// # What a command gets
//
// A user that is not root, no capabilities, no new privileges, the runtime's default
// seccomp profile, a read-only root, home and /tmp in memory, the work tree, the caches
// and copies of Spec.Mounts on a volume of bounded size, no account of the cluster, none
// of its variables, no name server, and limits on memory, CPU and ephemeral storage. It
// is what Pod Security calls "restricted".
//
// # What moves
//
// No volume is shared with the bot. Start sends the tree, the caches, mounts and the
// prompt (package parcel) over the API server's exec, and then the request to start the
// command, so that a bot that dies before leaves nothing running. The first look that
// finds the command ended brings record, transcript and what changed of tree and caches
// home, before it says so: an [sandbox.Exited] start is all on this machine. What runs
// meanwhile is not seen here ([sandbox.About] says so), and starts that run at the same
// time on one tree or cache do not see each other's.
//
// # What is trusted
//
// The cluster, as far as the API server and the node go. Not the command: it has the
// shim's user, but neither its key nor a way to read it; see package podshim.
//
// # No network
//
// A pod needs none: connections to the gateway take the same way. That it has none is up
// to the cluster, so that Check asks: it runs two pods like those of commands and refuses
// a cluster in which they reach each other, the API server, a name server, the metadata
// service or the Internet.
package kube
