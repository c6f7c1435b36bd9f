// Package run holds the words everyone shares: a run, its tasks, how it may
// end, what it may spend, and the events it tells about itself.
//
// Invariants:
//   - It imports the standard library only, and knows nothing of GitHub,
//     containers, databases or processes.
//   - It has no behaviour beyond naming and classifying; no function here does
//     input or output or reads a clock.
package run
