// Package devcontainer reads what a repository says of its development
// container (containers.dev): which image, or how to build one. It is pure; the
// files come from the default branch, and what a build reads is a git tree.
//
// Invariants:
//   - Of the file only the image is taken, or the recipe for one. What it says
//     of mounts, privileges, users, hooks and environments is never followed,
//     and [File.Unused] names it.
//   - Nothing in it is expanded: no value of the host's environment gets into an
//     image.
//   - A build sees the repository's files, and no path out of it.
package devcontainer
