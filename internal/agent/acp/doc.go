// Package acp is the client's side of the Agent Client Protocol, for one prompt. It
// runs inside the sandbox, as the parent of an agent that speaks the protocol on its
// standard input and output, and prints what the agent does as one JSON event a line,
// for the parser in package agent.
//
// Invariants:
//
//   - It offers the agent nothing: no file system, no terminal. The agent has those of
//     the sandbox, which is the border; so permissions are granted as they are asked for.
//   - It runs beside the agent, as the same user: what it prints is as little to be
//     believed as what the agent prints.
//   - It ends when the agent has answered the prompt, or has ended itself.
package acp
