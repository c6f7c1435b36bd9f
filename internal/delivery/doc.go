// Package delivery works webhooks that were accepted: a label starts a run, a command is
// carried out, what is said of a run's work is kept for it, and what ends the wish for a
// run stops it.
//
// [Receiver.Work] works one stored webhook. It decodes it, looks who asks and whether
// they may ([Authorizer]), does what is asked or writes why not (a comment), and
// records what became of it in the transaction that does it. What a run has to take in by
// itself becomes a store.Input; the run is woken. [Receiver.Begin] makes the row of a run,
// for a label, a command, or what is left over when a run has ended.
//
// [Receiver.Redeliver] has GitHub send again what it could not deliver.
//
// A workflow works its event in two jobs: [Receiver.Route] says whose queue the event belongs
// to, and settles at once what needs no run.
//
// Invariants:
//   - A webhook that is worked twice has the effects of one: whoever may ask is asked
//     again, comments have an occasion, inputs a source.
//   - Deliveries come in any order. What counts is what GitHub says now, not the order of
//     events: a label that is gone starts nothing, and one that is on again is not stopped.
//   - What a run works on is the text in the delivery that started it; of the
//     issue itself only its state and labels are read.
//   - Of an issue's runs one is active at most. A run that is being stopped is
//     queue.ErrBusy: the next one comes after it.
//   - Who was allowed or refused to do what is recorded in the transaction that settles it.
//   - Bots are not answered: two of them would never end.
package delivery
