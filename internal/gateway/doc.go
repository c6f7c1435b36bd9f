// Package gateway is all that a sandbox can reach: the models' endpoints, and
// through a proxy the hosts that it may reach. For the models the agent presents
// the token of its start, the gateway puts the real key in its place and counts
// what is used. The key exists on the host side only.
//
// Invariants of the models' side:
//
//   - Only the calls that an agent needs pass, to one fixed upstream for each
//     API, for models that are allowed; no part of a path or host comes from the
//     agent.
//   - A request is read once, token by token, and sent byte for byte as it came. One
//     that two readers of JSON could understand in two ways is refused, and so is one
//     with a field by which the provider fetches, runs, stores or looks up something,
//     bills what is not counted, or takes another model: by its name, and by its value
//     where that says what reaches out (types of tools and sources). Calls that cost
//     nothing are checked alike.
//   - The bytes of requests that a process holds are bounded; others wait.
//   - Of the agent's headers only those the API knows are passed on, of the
//     upstream's answer all but cookies, keys and whatever sends its reader elsewhere.
//     A redirect is an error.
//   - A request passes where no budget is used up, and is charged after it; see package
//     spend. A budget can be overrun by what is under way, which is bounded. An answer is
//     counted while it passes, in bounded memory, and none is held up.
//   - An answer that breaks off before its end is charged all that was asked for: what
//     a model thinks is billed, and need not be sent. Errors cost nothing.
//   - A refusal that is the gateway's own is HTTP 400 in the API's own form, which
//     the agent CLIs take as final; they would repeat a 401 or 429 for minutes.
//
// Invariants of the proxy:
//
//   - A host is reached only if the operator's list and that of the start both
//     allow it, at a public address, on port 443 with TLS that names the same host.
//     The address is checked when it is connected to. The name of a host that is not
//     allowed is not even looked up.
//   - TLS is not opened: what is said inside passes as it comes. Nothing is followed
//     on behalf of the client.
//   - Who asks is known by a token of the start, which goes no further. A start that
//     has ended has no connection.
//   - What is reached and what is blocked is noted, with the reason, before the
//     client knows; hosts, reasons, connections and bytes are bounded.
package gateway
