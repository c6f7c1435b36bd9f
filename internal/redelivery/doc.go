// Package redelivery makes up for webhooks that did not arrive.
//
// [Sweeper.Redeliver] has GitHub send again what it could not deliver. A label of which
// no webhook was ever sent is found on the issue itself: [Sweeper.Sweep] works it as if
// its webhook had come, in all repositories that are served; [Sweeper.SweepRepository]
// does so in one, for a job that nobody's event has started. [Sweeper.CatchUp] is what a
// server does: the first from time to time, the second once after its start.
//
// Invariants:
//   - A server that begins with an empty store has missed nothing.
//   - What GitHub was asked to send again is not missed: it is on its way.
//   - A missed label is stored and worked like a webhook: who may, what is approved and
//     how often is decided in one place, and a crash loses nothing.
//   - A label counts only if nothing has happened on the issue since; otherwise the text
//     may be another than the one that was approved, and a person has to put it on again.
//   - Where work has begun, a person says whether to go on.
package redelivery
