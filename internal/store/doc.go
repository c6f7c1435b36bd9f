// Package store keeps what must outlive a process in one SQLite file: webhook
// deliveries, runs, what people said to them, outside effects, what was spent and
// what was learned. The App, the Action and `bot run` each have a file of their own.
//
// Invariants:
//   - What a method has reported as done is on disk: the file runs in WAL mode
//     with synchronous=FULL, so that neither a killed process nor a lost power
//     supply takes an answered webhook back.
//   - All writes go through one connection that opens every transaction with
//     BEGIN IMMEDIATE; reads have a pool of their own and see committed rows
//     only. Several processes may have the same file open.
//   - A run has at most one driver: a server locks its data directory, and whoever
//     works a plan the plan. The store does not look after that.
//   - No method reads a clock: times come in, are stored as microseconds since
//     1970 in UTC, and come out in UTC.
//   - The shapes of rows are private to the package. Its exported types hold no
//     tags and may change without a new version of the tables.
package store
