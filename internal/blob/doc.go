// Package blob keeps files that must outlive the machine they were written on: transcripts
// and refused work. It has the contract of what keeps them and what goes around each of
// those, a hash or encryption. The database's rows are in store, objects in s3; blobtest
// tests any.
//
// Invariants:
//   - A blob is there whole or not at all, whatever became of its writer.
//   - What was changed, cut off or exchanged is an error when it is read, and no byte of
//     the chunk in question is given out.
//   - The memory it takes does not grow with the size of a blob.
package blob
