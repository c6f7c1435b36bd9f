// Package publish brings what a run has made to where people see it: a tree
// becomes one commit on ralph/<issue>, the state becomes the text of one pull
// request.
//
// Invariants:
//   - What is written to is worked out here, from an issue's number: no text of
//     an agent or an issue ever chooses a branch, a pull request, a label or a
//     person.
//   - A commit counts as landed only if GitHub has signed it and its tree is the
//     tree that was meant, which is the tree the gates passed on.
//   - Landing the same iteration again finds the commit that is there; a branch
//     that anyone else moved is never forced.
//   - Text of an agent or an issue leaves through Speak (Markdown) or plain
//     (commit messages, titles) and through no other door: redacted, without
//     mentions, references, closing keywords, commands, images and markup.
//   - In the pull request's description, what stands outside of the managed
//     island is kept to the byte. Everything inside is a pure function of View.
package publish
