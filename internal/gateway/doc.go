// Package gateway stands between an agent in its sandbox and the model's
// endpoint: the agent presents the token of its run, the gateway puts the real
// key in its place. The key exists on the host side only.
//
// Invariants:
//
//   - Only the calls of the Messages API that an agent needs pass, to one fixed
//     upstream; no part of a path or host comes from the agent.
//   - Of the agent's headers only those the API knows are passed on, of the
//     upstream's answer everything but cookies.
//   - Answers stream: what the upstream sends arrives at once.
//   - A refusal that is the gateway's own is HTTP 400, which the agent CLIs take
//     as final; they would repeat a 401 or 429 for minutes.
package gateway
