// Package job is the App for one event, in one process: the Action works its event with
// it, and drives the run that comes of it to the end.
//
// [Job.Find] says which issue an event is about; [Job.Deliver] works it as if it had come
// as a webhook; [Job.Drive] ticks the run until it has ended. It has no queue: what the
// queue would do, it does itself.
//
// Its store begins empty, so a run of an earlier job is restored from what it has left
// behind: the branch with its progress file, the pull request's description, and the
// bot's own comments.
//
// Invariants:
//   - What is restored is believed only as far as nobody else can have written it: the
//     progress file is bound to the issue, an approval stands in a commit that GitHub
//     vouches for, and comments are the bot's own and unedited.
//   - That there is nothing to restore is no error.
//   - When the process is told to end, the run is cancelled in order: its agent is stopped,
//     what is finished stays published, and people are told.
//   - A job hears of no event but its own. So it looks from time to time whether the label
//     is still on.
package job
