// Package authorization says who may have the bot act, and how often.
//
// [Authorizer.Permission] asks GitHub what somebody may do in a repository.
// [Authorizer.Standing] says of the sender of an event on whose behalf something is
// done, or why it is not: a [Denial]. The limits say, in words for people, that
// somebody has used too many commands, or that an issue had too many runs.
//
// Invariants:
//   - An answer of GitHub is never older than a minute. Nobody whom GitHub does not
//     know may do anything.
//   - No answer is no permission, once GitHub has had some time.
//   - A bot may do nothing by itself. One that may act for people does so with the
//     permission of the author of the text.
//   - Where the text is somebody else's than the sender's, both need permission.
//
// It tells nobody: whoever asks answers people.
package authorization
