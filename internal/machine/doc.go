// Package machine knows what this machine has, and what of it is left: disk, memory and
// descriptors. What the system does not tell is left out, and never lacking.
package machine
