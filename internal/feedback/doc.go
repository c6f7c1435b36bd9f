// Package feedback makes tasks of what people and checks say about a run's work on its
// pull request.
//
// [Reader.Pending] gives what nobody has acted on, once people have finished: a review
// comes as one event for itself and one for each of its comments. [Reader.Read] decides
// about all of it and gives a [Digest]: what the run is to take in, what becomes of each
// input, and what people have to decide first, which [Reader.Ask] asks them. Nothing of
// that is stored here: whoever takes a digest in stores it with the run's state.
//
// Invariants:
//   - What was said counts only if its author could write when it was said and can now,
//     or is a bot that the server listens to.
//   - A comment counts as it was when it was written; what was edited since does not.
//   - Bots and checks alone bring work three times in a row at most; then a person has
//     to look.
//   - Of checks only what failed on the head counts, and once the run has ended.
package feedback
