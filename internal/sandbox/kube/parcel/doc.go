// Package parcel carries a directory from one machine to another as a tar stream.
//
// Invariants:
//   - No link is followed, at either end: what is packed is read below open
//     directories, and what is unpacked is written through os.Root.
//   - What comes out is what went in: content, links, modes, times and holes. Files
//     that are neither regular nor links nor directories stay behind, as do owners.
//   - A stream that ends too early is an error, and unpacking may be repeated: it
//     makes the directory what the stream says, whatever is there.
package parcel
