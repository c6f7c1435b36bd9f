// Package publish brings what a run has made to where people see it: a tree
// becomes one commit on ralph/<issue>, progress.md becomes the description of one
// pull request, and how the run ended its check run and a comment. [Publisher] is the loop's Publisher of the App
// and the Action.
//
// Invariants:
//   - What is written to is worked out here, from an issue's number: no text of
//     an agent or an issue ever chooses a branch, a pull request, a label or a
//     person.
//   - A commit counts as landed only if GitHub has signed it and its tree is the
//     tree that was meant, which is the tree the gates passed on.
//   - Landing the same iteration again finds the commit that is there; a branch
//     that anyone else moved is never forced.
//   - Text of an agent or an issue leaves through [Speak], [Code], [Plain] and [Block], which make
//     it inert, and through no other door.
//   - In the pull request's description, what stands outside of our markers is
//     kept to the byte. Of what stands within, ticks alone are read back.
//   - Whoever asked for the work is asked about at GitHub before each commit: may they
//     still write? No answer is no permission; the step fails and is tried again.
//   - While a run goes on, people see a new state every 15 seconds at most; the first
//     and the last come at once. A person's tick is handed to the loop before the description is written over.
//   - Commits, the pull request, comments, and the label and check run of the end are made once,
//     and made again until GitHub has them. Trouble with the check run and the label
//     ends no run, and does not hold its end up for long. Reactions are tried once.
package publish
