package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Unknown stands for what the system does not tell.
const Unknown = -1

// What has to be left for something to be started. It is more than what the shim leaves
// to the machine, at which it ends what runs: 256 MiB and 10,000 files.
const (
	leastDisk        = 512 << 20
	leastFiles       = 20_000
	leastMemory      = 256 << 20
	leastDescriptors = 64
)

// Room is what is left: bytes and files of a file system, bytes of memory, and
// descriptors that this process may open. Each may be Unknown.
type Room struct{ Disk, Files, Memory, Descriptors int64 }

// Look says what is left, with the file system that dir is on, or will be.
func Look(dir string) Room {
	r := Room{Disk: Unknown, Files: Unknown, Memory: freeMemory(), Descriptors: freeDescriptors()}
	for {
		disk, files, err := FreeDisk(dir)
		if err == nil {
			r.Disk, r.Files = disk, files
			return r
		}
		up := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || up == dir {
			return r
		}
		dir = up
	}
}

func short(have, least int64) bool { return have != Unknown && have < least }

// LacksDisk says in words for people what the disk has too little of, "" where there is
// enough.
func (r Room) LacksDisk() string {
	switch {
	case short(r.Disk, leastDisk):
		return fmt.Sprintf("the disk of this machine is nearly full: %d MiB are free, and %d MiB are needed", r.Disk>>20,
			int64(leastDisk)>>20)
	case short(r.Files, leastFiles):
		return fmt.Sprintf("the disk of this machine can hold %d more files, and %d are needed", r.Files, leastFiles)
	}
	return ""
}

// Lacks says in words for people what is too little to start anything, "" where there
// is enough.
func (r Room) Lacks() string {
	if why := r.LacksDisk(); why != "" {
		return why
	}
	switch {
	case short(r.Memory, leastMemory):
		return fmt.Sprintf("this machine is short of memory: %d MiB are free, and %d MiB are needed", r.Memory>>20,
			int64(leastMemory)>>20)
	case short(r.Descriptors, leastDescriptors):
		return fmt.Sprintf("this process may open %d more files, and %d are needed", r.Descriptors, leastDescriptors)
	}
	return ""
}

// Trouble says in words for people what of this machine an error is about, "" for
// nothing.
func Trouble(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "the disk of this machine is full"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "too many files are open on this machine"
	case errors.Is(err, syscall.ENOMEM):
		return "this machine is out of memory"
	}
	return ""
}

// Agents is how many agents fit on this machine, each with so much memory in bytes and
// so many cores; at least one, and zero means that it needs none.
func Agents(memory int64, cores float64) int {
	return fit(totalMemory(), runtime.GOMAXPROCS(0), memory, cores)
}

func fit(total int64, have int, memory int64, cores float64) int {
	n := have
	if cores > 0 {
		n = int(float64(have) / cores)
	}
	if memory > 0 && total > 0 {
		n = min(n, int(total/memory))
	}
	return max(n, 1)
}

// entries counts what is in a directory, Unknown where it cannot be read.
func entries(dir string) int64 {
	list, err := os.ReadDir(dir)
	if err != nil {
		return Unknown
	}
	return int64(len(list))
}
