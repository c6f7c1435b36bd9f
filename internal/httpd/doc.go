// Package httpd bounds what a server of HTTP gives to whoever connects: the number
// of connections, in sum and for each address, the size of headers, and the time
// that they take.
//
// Invariants:
//   - No more connections than the sum are open; others wait with the system, and
//     none of them takes memory here.
//   - No public address has more connections than its share: one that it opens
//     besides is closed at once. Addresses of this machine and of private networks
//     have no share, since a proxy in front shows its own for everybody's.
//   - What a handler reads is the handler's own to bound, in bytes and in time.
package httpd
