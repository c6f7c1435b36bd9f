package shim

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// refusedHere are calls that only this kind of machine has.
var refusedHere []uint32
