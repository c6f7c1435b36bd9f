// Package egress says which hosts a sandbox may reach: names, patterns and
// presets of package registries, and which addresses are public.
//
// Invariants:
//
//   - What is no plain name of a host is allowed by no list: neither an address,
//     however it is written, nor a name with anything hidden in it.
//   - No pattern allows a whole top-level domain, and no preset a host that
//     anybody could put a server or a bucket of their own on.
//   - Only addresses of the public Internet are public. What is not known to be is
//     not.
package egress
