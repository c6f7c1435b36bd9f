// Package handlers is the door for GitHub's webhooks: it verifies a request,
// freezes its text in the store, answers; and later, in the worker, says what
// the event asks for.
//
// Invariants:
//   - Nothing is parsed, stored or answered with anything but a refusal before
//     an HMAC-SHA256 over the raw bytes, made with one of our secrets, has been
//     compared in constant time. There is no way to run without a secret.
//   - 202 means that the delivery and the job that works it are on disk, in one
//     transaction, or that nobody here has a use for the event. A GUID or
//     a body that was accepted is not accepted again. Anything but 2xx means that nothing was
//     stored, and shows as a failure in GitHub's list of deliveries, from where
//     it can be redelivered.
//   - No call to GitHub is made here, and no decision: who may do what, and
//     whether the event is still true, is looked up in the worker.
//   - What memory a request can take is bounded, whoever sends it, and so is what
//     all of them take together. The connections are bounded by package httpd.
//   - A command is on the first line of a comment, which begins with it ("/ralph stop"), so
//     that nothing quoted, indented as code, fenced or said further down is one. It is plain
//     ASCII to the byte: what merely looks like it is a comment like any other.
//
// To handle another event, add a function to events.go and its entry in the table of decode.go.
package handlers
