// Package reconcile drives the runs of the App: it turns what a delivery asks
// for into a run, and takes a run as far as it can go in one tick.
//
// Invariants:
//   - A tick holds the run's lease. Each transition is saved under it before
//     the next one begins, so that a tick may be cut off anywhere.
//   - A person's permission is asked of GitHub when the run is made and again
//     before each publication, and is never older than a minute.
//   - What a run works on is the text in the delivery that started it;
//     of the issue itself only its state and labels are read.
//   - Nothing held in memory is needed to go on: another process finds the same
//     trees, processes and effects.
package reconcile
