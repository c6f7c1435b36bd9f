package shim

import (
	"fmt"
	"syscall"
)

// Limits bound each process of the command by itself (setrlimit); 0 is no limit
// of ours. A dump of memory is never written: it would hold what the process
// knows.
type Limits struct {
	// FileSize is the largest file it may write, in bytes.
	FileSize uint64 `json:"file_size,omitempty"`
	// OpenFiles are the descriptors it may have.
	OpenFiles uint64 `json:"open_files,omitempty"`
	// Processes are those of the user, in the user namespace of the command;
	// without one of its own that would count what the person runs elsewhere.
	Processes uint64 `json:"processes,omitempty"`
}

// set bounds this process and those it starts from now on.
func (l Limits) set() error {
	type bound struct {
		name  string
		which int
		most  uint64
	}
	bounds := []bound{{"core", syscall.RLIMIT_CORE, 0}}
	if l.FileSize > 0 {
		bounds = append(bounds, bound{"file size", syscall.RLIMIT_FSIZE, l.FileSize})
	}
	if l.OpenFiles > 0 {
		bounds = append(bounds, bound{"open files", syscall.RLIMIT_NOFILE, l.OpenFiles})
	}
	if l.Processes > 0 && rlimitProcesses >= 0 {
		bounds = append(bounds, bound{"processes", rlimitProcesses, l.Processes})
	}
	for _, b := range bounds {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(b.which, &now); err != nil {
			return fmt.Errorf("limit of %s: %w", b.name, err)
		}
		most := min(b.most, now.Max) // nobody may raise it
		if err := syscall.Setrlimit(b.which, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limit of %s: %w", b.name, err)
		}
	}
	return nil
}
