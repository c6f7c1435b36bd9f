// Package sim measures the loop: faulty agents, drawn from a seed, work task
// sets whose truth is known, once through the real [loop.Engine] and once
// through a plain Ralph loop.
//
// Its job: generate projects, play the agents and everything around the loop in
// memory on a virtual clock, and compare what came of it with the truth.
//
// Invariants:
//   - The same mix, seed and number of runs give the same report, on any machine
//     and with any number of processors.
//   - An agent sees its prompt, the work tree and the progress file in it, and
//     nothing else; what it is able to do is drawn, what it knows is read.
//   - Checks are functions of a tree, but for the one test that is flaky on
//     purpose. They read the tests that stand in the tree, so that a test that
//     was deleted or weakened fails nobody.
//   - The truth is never shown to either loop. It is compared with each tree that
//     lands.
//   - Both loops get the same projects, the same abilities and the same chances of
//     a fault; only what they make of them differs.
package sim
