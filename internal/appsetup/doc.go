// Package appsetup makes a GitHub App for a person: a page on this machine sends
// the description of the App to GitHub's page for new Apps, GitHub sends the
// browser back with a code, and the code is traded for the App's credentials,
// which are written to files.
//
// Invariants:
//   - Only a browser that was given the page's address, which holds a random
//     word, gets the state; only an answer with that state, to the host that
//     listens here, is believed, and only one is.
//   - Credentials are written with mode 0600, never over others unless that was
//     asked for, and never shown: not in a page, not in an error.
//   - Whether they can be written is found out before the App is made, because
//     GitHub hands them out once.
package appsetup
