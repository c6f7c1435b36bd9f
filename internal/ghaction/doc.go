// Package ghaction is what is peculiar to a job of GitHub Actions: its inputs,
// its event, its checkout, and the commands and files by which a step speaks to
// the runner. The run itself is the App's: see package job.
//
// Invariants:
//   - Inputs come from the environment; nothing of them is part of a command
//     line.
//   - What is printed is inert, but for the commands this package makes: the
//     runner is told to look for none, until it hears a random word that is used
//     once.
//   - A value in one of the runner's files cannot end itself: the delimiter is
//     random, and the value is searched for it. Every file has a cap.
//   - The credentials that a checkout left on disk are gone before anything of
//     the repository runs.
package ghaction
