// Package inline is the door of the command line: it runs the loop to its end
// in this process, on a git repository of the user, with no GitHub at all.
//
// Invariants:
//   - The user's checkout is never an agent's work tree. Agents work on an
//     export; the checkout only ever moves from one landed tree to the next.
//   - Nothing is pushed, and no file the user changed is overwritten.
//   - The run's state is stored as a whole after each step, and the one before
//     is kept until that is done: a run that was killed is taken up where it was
//     by the next one.
//   - One run at a time per repository and plan.
package inline
