// Package formats reads and writes back the task files of the systems people
// come from: prd.json with progress.txt, NAME_PROGRESS.md, tasks.md with .progress.md, a plain
// list of check boxes, and progress.md itself, ours and rslph's.
//
// Its job: one view of them all (Plan), and edits by task that are written back in
// the file's own words, so that a file follows the run it is the plan of
// (File.Follow). What Markdown holds is for package progress to say.
//
// Invariants:
//   - A file that was not edited is written back to the byte. An edit replaces
//     single places of the original bytes; nothing is ever encoded anew, so
//     unknown fields, their order, indentation and the way numbers are written
//     stay.
//   - Text that comes from elsewhere stays on the line it is put on: it can add
//     no heading, no check box and no JSON.
//   - Any input is answered in linear time, with a *run.UserError where it
//     cannot be worked with.
//   - The id a task has elsewhere is kept in progress.md in brackets before the
//     title, "- [ ] T1 [US-001] Add the column", where it survives reordering
//     and renaming and shows up in the commit's subject.
package formats
