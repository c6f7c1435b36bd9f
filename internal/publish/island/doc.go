// Package island writes and reads the managed part of a pull request's
// description: the state of a run as people see it, between two markers.
//
// Its job: make text of state ([Render]), put it into a description that people
// write in too ([Update]), and read back what they changed ([Parse]). It sends
// nothing.
//
// Invariants:
//   - Render is a pure function of View: equal views give equal bytes, at most
//     [MaxSize] of them. What does not fit is left out in one order, which
//     stands at [Render].
//   - Outside of the markers, a description is kept to the byte.
//   - Text of an agent or an issue leaves through [Speak], [Code], [Plain] and
//     the code block of a failed check, and through no other door: masked,
//     without mentions, references, closing keywords, commands, images and
//     markup of its own.
//   - Nothing is lost on the way: for tasks that are as [Normalise] makes them,
//     Parse of Render gives the same tasks, but for those that are marked as
//     cut. The tasks are read by progress.Parse, so that a line means the same
//     here and in progress.md.
package island
