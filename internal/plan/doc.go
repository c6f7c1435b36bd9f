// Package plan turns an issue or a plan file into a plan: a title, a text, and
// the tasks and acceptance criteria in it where a person has written them down
// already.
//
// What a run has done of a plan file it writes back into it (WriteBack).
//
// Its job: make sure that what a model reads is what a person could read.
// GitHub hides comments, attributes and invisible characters; a model sees all
// of them.
//
// Invariants:
//   - The package is pure: text in, text out.
//   - Cleaning is idempotent: cleaning clean text removes nothing.
//   - What was taken out is counted.
//   - Nothing is parsed as a task that GitHub would not show as a check box.
package plan
