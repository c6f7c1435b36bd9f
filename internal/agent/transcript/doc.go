// Package transcript keeps what each start of an agent was told, said and came
// to, so that people can look at it later: one archive a start, and for each run
// a list of what the host made of it.
//
// Invariants:
//   - Everything is masked before it is cut, so that no cut leaves half a secret.
//   - An archive is there whole or not at all, and kept once: keeping it again
//     changes nothing. Whoever observes the end of a start may therefore keep it,
//     as often as it takes.
//   - The memory it takes does not grow with what an agent writes, and an archive
//     has a bound; the beginning and the end are kept, and what lies between is
//     counted.
//   - What is read from an archive is the agent's words: data, hostile as before.
package transcript
