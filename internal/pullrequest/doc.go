// Package pullrequest shows a run on GitHub: its [Publisher] is the loop's Publisher
// of the App and the Action.
//
// A task that is done becomes a commit. With the first commit there is a pull request,
// whose description says how the run stands. At the end the last commit has a check run, and
// the issue a comment and a label, that say how the run ended.
//
// Invariants:
//   - Whoever asked for the work is asked about at GitHub before each commit: may they
//     still write? No answer is no permission; the step fails and is tried again.
//   - While a run goes on, people see a new state every 15 seconds at most; the first
//     and the last come at once.
//   - Commits, the pull request and the comment of the end are the run's own. The check run,
//     the label and comments of earlier runs are extras: trouble with them ends no run, and does
//     not hold its end up for long.
//   - A person's tick is handed to the loop before the description is written over.
package pullrequest
