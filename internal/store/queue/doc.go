// Package queue makes things happen that were written down: deliveries get
// worked and runs get ticked, in this process or another one on the same
// database, whichever is alive.
//
// There are three kinds of jobs:
//
//   - delivery.process works one accepted webhook;
//   - run.advance is unique per run and only polls: it ticks the run, sleeps
//     for as long as the tick says (two seconds at most), and ticks again;
//   - run.wake is a signal (cancel, command, container ended) and is a job of
//     its own each time, inserted in the transaction that writes the signal.
//     Were it folded into run.advance by uniqueness, a signal that comes while
//     a tick runs, or in the quarter of a second until the queue has recorded
//     the end of the tick, would be lost.
//
// Invariants:
//   - The queue holds no state that matters. Every job can be derived from the
//     store, and is, at start and every half minute: losing all rows of the
//     queue costs a delay.
//   - Jobs end. A delivery that takes longer than a minute, and a tick that
//     takes longer than a quarter of an hour, has its context cancelled; a job
//     whose process died is taken over within seconds (see presence), and some
//     time after its limit in any case. A job is therefore worked at least once,
//     and never counted on to be worked only once: runs are fenced by their
//     lease, deliveries by the transaction that marks them.
//   - A job that fails is logged and tried again, ever less often but at least
//     once a minute, until it succeeds. Nothing is given up.
//   - Nothing of River, which does the work, shows in the exported API; and no
//     job is ever cancelled through it, which on SQLite never reaches a worker.
package queue
