// Package config reads the configurations there are: the server's, which the
// operator writes, the repository's .github/ralph.yml, which people with write
// access to that repository write, and the defaults a person has for `bot run`.
//
// Invariants:
//   - All are strict: an unknown key, a wrong type or a value out of range is
//     reported with line, column and a caret. Nothing is ignored in silence.
//   - Trouble in the server's or a person's file is a *run.UserError and stops
//     the start;
//     trouble in a repository's file is data ([]Problem) to show on the issue.
//   - Secrets come from the environment or from files, never from the YAML,
//     and are held as Secret, which does not print.
//   - A repository can choose what happens inside its own runs and can tighten
//     limits. It has no key for an address, a path on the host, the kind of
//     sandbox or a credential, and it cannot loosen a limit of the server's.
//   - Each file is one struct, whose tags say its keys and what they may hold; what
//     more than one key decides is checked beside it. The unsafe is refused at the
//     start and needs no second look later.
package config
