// Package plan turns an issue or a plan file into a plan: a title, a text, and
// the tasks in it where a person has written them down already.
//
// Its job: make sure that what a model reads is what a person could read.
// GitHub hides comments, attributes and invisible characters; a model sees all
// of them.
//
// Invariants:
//   - The package is pure: text in, text out.
//   - Cleaning is idempotent: cleaning clean text removes nothing.
//   - Nothing is parsed as a task that GitHub would not show as a check box.
package plan
