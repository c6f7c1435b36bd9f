// Package analytics keeps what runs did as JSON lines, and sums them up.
//
// Its job: one line for each event of a run, in a documented form that other
// programs can read, and the figures of a run or a repository made from such
// lines.
//
// Invariants:
//   - A line is written whole or, after a crash, cut at the end of the file;
//     readers pass over what they cannot read.
//   - An event that is told twice, because a step was repeated, counts once.
//   - Texts of agents are masked, on one line and short; what an agent says
//     while it works is left out altogether.
//   - Writing never stops a run: what could not be written is told once.
package analytics
