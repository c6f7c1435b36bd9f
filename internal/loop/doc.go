// Package loop is the Ralph loop: a step function over a persisted state.
//
// [Engine.Step] takes a run one transition further and says what comes next:
// go on, wait for a process, sleep, or done. It never blocks on an agent or a
// check; those are started, then observed. Whoever drives it (a tick in the
// App, [Drive] behind the command line) saves the state after each step.
//
// Invariants:
//   - A step that is repeated, because the process died before its state was
//     saved, has the effect of one: starts are idempotent by name, landings by
//     run, iteration and tree.
//   - The host decides: only a step of this package ticks a box, and only
//     after the proposal was verified and no gate held that very tree back.
//   - What an agent leaves is stored as a tree the moment it ends. All that is decided of it
//     follows from the state and that tree.
//   - The accepted progress.md is part of the state. What stands in the work
//     tree is a copy that the agent may do anything to.
//   - Pure of GitHub, containers, databases and processes: they are reached
//     through the interfaces declared here, and time is handed in.
package loop
