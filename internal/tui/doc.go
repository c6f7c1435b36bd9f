// Package tui shows a run of the command line full screen, and takes the keys of the
// person who watches it.
//
// Invariants:
//   - It is one more consumer of the run's events and of the lines of the plain output.
//     The run knows nothing of it, and goes on where it ends.
//   - Model is pure: messages in, a screen out, with the time in the messages.
//   - Text comes clean: whoever sends it has taken out what does something to a terminal,
//     and each line fits the screen by the columns that it takes.
//   - The terminal is as it was before once Close has returned, however the run ends.
package tui
