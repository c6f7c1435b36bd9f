// Package action is the door of GitHub Actions: the App for one event, in one process.
//
// A workflow has two jobs. `route` says which issue an event is about, so that the job which
// works it can wait in the queue of that issue, and settles what must not wait or comes from
// people who may not ask; it needs no key of a model. `work` works the event as if it had come
// as a webhook, and drives the run that comes of it to the end. A last step, `finish`, ends in
// order what a step that was killed has left.
//
// The store of a job begins empty, so a run of an earlier job is restored from what it has left
// behind: the branch with its progress file, the pull request's description, and the bot's own
// comments. A job hears of no event but its own: it looks from time to time whether the label is
// still on, and a review's job takes in every conversation that waits for an answer.
//
// Invariants:
//   - Inputs come from the environment, as one JSON; nothing of them is part of a command line.
//   - What is printed is inert, but for the commands this package makes: the runner is told to
//     look for none, until it hears a random word that is used once.
//   - A value in one of the runner's files cannot end itself: the delimiter is random, and the
//     value is searched for it. Every file has a cap.
//   - What is restored is believed only as far as nobody else can have written it: the progress
//     file is bound to the issue, an approval stands in a commit that GitHub vouches for, and
//     comments are the bot's own and unedited.
//   - When the process is told to end, the run is cancelled in order: its agent is stopped, what
//     is finished stays published, and people are told.
package action
