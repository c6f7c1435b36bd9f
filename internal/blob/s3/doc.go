// Package s3 keeps blobs as objects in a bucket of S3, or of anything that speaks the same.
//
// Invariants:
//   - An object is sent in one request, so that it is there whole or not at all and a writer
//     that dies leaves nothing behind.
//   - Errors hold what the server answers, and no credentials.
package s3
