// Package podshim is "bot shim pod": the first process of a pod, and what the bot
// talks with it.
//
// A pod has no network and no volume of the bot's. So the shim waits for the bot on a
// socket of its own: the bot has the cluster execute "tun" in the pod, which joins its
// standard input and output with that socket, and speaks HTTP over it. The bot sends what
// the command needs, then the request to start it; later it fetches the output, the
// record and what the command made of the work tree. Connections to the gateway take the
// same way. It ends when it is told to, not with the command, for nothing can be executed
// in a pod that has ended.
//
// Invariants:
//   - Whoever sends the first key is the bot; after that nobody gets anything, or is
//     believed, who does not know it. It comes before the command starts, and is kept
//     where the command, which has the same user, cannot read it. Connections are TLS
//     with keys made of it: the command can cut them off, and do no more.
//   - Without the request to start, nothing is started, and it is answered once.
//   - The socket has no name in a file system, so that the command cannot remove it.
package podshim
