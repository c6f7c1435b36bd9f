// Package notify tells people of runs where they are: in Slack, Discord or
// Telegram, through a signed webhook, or by a program of theirs.
//
// Its job: from the events of runs, one message for each occasion that somebody
// wants to hear of, delivered to each target in its own form.
//
// Invariants:
//   - A run never waits: Handle only queues. What a target does, hang, fail or
//     answer nonsense, is bounded by a time limit and three attempts (a program has
//     one), and is nobody's business but that target's.
//   - Queues are short and in memory. When one is full the newest message goes;
//     when the process dies all go. Nothing depends on them: what people must
//     know is on the issue and in the pull request.
//   - Where messages go is the operator's word alone. A repository can only
//     leave out; it names no address.
//   - Text of issues and agents is cleaned, masked, cut to size and made inert
//     before it is written down anywhere; addresses are secrets, and errors do not
//     show them. Nobody's answer chooses where else a message goes.
package notify
