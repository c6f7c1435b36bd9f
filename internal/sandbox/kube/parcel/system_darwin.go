package parcel

// From sys/unistd.h; package unix lacks them.
const (
	seekHole = 3
	seekData = 4
)
