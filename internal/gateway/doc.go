// Package gateway stands between an agent in its sandbox and the models'
// endpoints: the agent presents the token of its start, the gateway puts the
// real key in its place and counts what is used. The key exists on the host side
// only.
//
// Invariants:
//
//   - Only the calls that an agent needs pass, to one fixed upstream for each
//     API, for models that are allowed; no part of a path or host comes from the
//     agent. A request that would make the provider itself reach out to the
//     network, or continue what is not in it, does not pass.
//   - What is sent is made anew from what was checked: a request that two readers
//     could understand in two ways arrives in one.
//   - Of the agent's headers only those the API knows are passed on, of the
//     upstream's answer everything but cookies.
//   - A request is paid for before it is sent; see package spend. An answer is
//     counted while it passes, in bounded memory, and none is held up.
//   - Where an answer breaks off before its count, what is not known is charged
//     at the most it can have been: the input that was reserved, and a token of
//     output for every byte that came, up to what was reserved; all that was
//     reserved where nothing came at all. Errors cost nothing.
//   - A refusal that is the gateway's own is HTTP 400 in the API's own form, which
//     the agent CLIs take as final; they would repeat a 401 or 429 for minutes.
package gateway
