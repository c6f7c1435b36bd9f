package gitrepo

// fileStamp is what the host remembers of a file it wrote or read.
type fileStamp struct{}
