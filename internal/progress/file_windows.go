package progress

import "io/fs"

// names is 1: no agent works on Windows, so that a file has the names its person
// gave it.
func names(fs.FileInfo) uint64 { return 1 }
