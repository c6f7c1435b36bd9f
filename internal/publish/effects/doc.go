// Package effects makes an outside effect (a commit, a comment, a pull
// request) happen once, however often the process that wants it dies: record
// the intent, act, record the result.
//
// Invariants:
//   - An effect that is recorded as done is not acted on again, nor looked for.
//   - An effect that was intended by an earlier call, and of which nothing more
//     is known, is looked for before it is acted on; so is one that a store which was opened since
//     its run was made does not know: the store may be an older copy of itself.
//   - A failed attempt leaves the intent standing: the failure may have come
//     after the effect.
//
// One key must not be worked on by two processes at once; a run has one driver.
package effects
