// Package inline is the door of the command line: it runs the loop to its end
// in this process, on a git repository of the user, with no GitHub at all.
//
// Invariants:
//   - The user's checkout is never an agent's work tree. Agents work on an
//     export; the checkout only ever moves from one landed tree to the next.
//   - Nothing is pushed, and no file the user changed is overwritten. Where the
//     plan's own file is no part of the commits, what is done is written into it
//     as it lies in the checkout, and no other byte of it changes.
//   - A plan has a branch of its own (place.go), which its first commit makes: work on
//     one plan never lands on the branch of another, unless a person says so, and
//     never on the default branch.
//   - The run's state, what it spends and what it learns are in the database of
//     package store, as the App's: the next process resumes a run that was killed
//     at the step where it was (record.go).
//   - One run at a time per repository and plan: a lock on a file, which the kernel
//     gives back when the process dies.
package inline
