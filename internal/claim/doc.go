// Package claim reads what an AI coding agent says in its last message about the
// one task it was given: done, partial, blocked, failed, or nothing.
//
// There are three sources. A signal is a line of its own in a form that a system
// specifies, such as our closing line "RALPH_RESULT: done". A tick is the task's
// box in progress.md, which the caller has read. An admission is a sentence of
// the agent's own prose that says that the work is not done: something remains,
// a test fails, somebody has to help.
//
// [Read] weighs them. A signal or a tick claims that the task is done; prose
// alone never does. A weaker signal or an admission takes the claim back, and
// [Claim].Against holds the words. Without a claim, an admission still says how
// things stand. [ReadVerification] reads the answers of an agent that was asked
// whether a task is done, by the same rules.
//
// A sentence is an admission if a rule of a language matches it and no guard of that
// rule applies; words/ holds both, as data. Guards tell what the agent says of its own work now
// from what it negates, overcame, only describes, suggests, or says of other work.
// Where the task is claimed as done, a sentence that tells when the program does
// what, or why something was so, is a description as well.
//
// Invariants:
//   - Everything that is read is outside text. It decides what the host tries
//     next, never that a task is done: the checks do that.
//   - What stands in a code fence, a quote, a comment or between backticks is
//     neither a signal nor an admission. A signal within a sentence is none.
//   - Of signals that disagree the weakest counts: failed, blocked, partial, done.
//     A signal that claims done stands at the end of the message.
//   - Nothing is agreed without evidence for every criterion.
//   - Only the last 16 KiB of a message are read, in linear time.
//   - What comes back is one line of valid UTF-8 within its bound, without control
//     characters.
//   - No prompt of ours reads as done or agreed, whole or line by line.
package claim
