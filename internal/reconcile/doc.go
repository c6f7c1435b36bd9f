// Package reconcile ticks runs: it takes one as far as it can go, one transition of the
// loop after the other, and gives it back.
//
// [Reconciler.Advance] claims the run, opens what the run is driven by (its host,
// its gateway, its pull request), has the run take in what people asked of it or said of
// its work, and steps the loop until that waits for a process or for the time. A step that
// failed is tried again after a pause that grows, and ends the run when that happens too
// often. What is the server's trouble, and not the run's, is waited for instead, and so
// is a place for each agent and check. When a run has ended, what people asked of it
// meanwhile begins another.
//
// What people and checks say about a run's work on its pull request becomes tasks once they
// have finished: a review comes as one event for itself and one for each of its comments.
//
// Invariants:
//   - A run is ticked by one caller at a time. Each transition is saved before the next one
//     begins, so that a tick may be cut off anywhere.
//   - What people said is taken in by the transaction that saves the state which has taken
//     it in: never twice, and never not at all.
//   - What was said counts only if its author could write when it was said and can now, or
//     is a bot that the server listens to, and as it was when it was written.
//   - Words of people who may not write are quoted where one who may asks for them to be
//     followed, and only those that were there then. Two people who want different things of
//     the same lines are not decided between.
//   - Bots and checks alone bring work three times in a row at most; then a person has to
//     look. Of checks only what failed on the head counts, and once the run has ended.
//   - A person's permission is asked of GitHub when the run is made and again before each
//     publication, and is never older than a minute.
//   - What is removed from the disk is what no run needs that has not ended, also none that
//     begins meanwhile.
//   - Nothing held in memory is needed to go on: another process finds the same trees,
//     processes and effects. Who may start an agent next follows from the stored states.
//   - The end of a run is told until GitHub takes it. A refusal is no outage: it ends the
//     telling.
package reconcile
