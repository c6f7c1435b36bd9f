package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func TestLook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, later := Look(dir), Look(filepath.Join(dir, "not", "yet"))
	if r.Disk <= 0 || r.Descriptors <= 0 || later.Disk <= 0 {
		t.Errorf("%+v, in a directory to be made %+v", r, later)
	}
	if runtime.GOOS == "linux" && (r.Memory <= 0 || totalMemory() < r.Memory/4) {
		t.Errorf("memory: %d of %d", r.Memory, totalMemory())
	}
}

func TestLacks(t *testing.T) {
	t.Parallel()
	enough := Room{Disk: leastDisk, Files: leastFiles, Memory: leastMemory, Descriptors: leastDescriptors}
	for _, tt := range []struct {
		room Room
		want string
	}{
		{enough, ""},
		{Room{Unknown, Unknown, Unknown, Unknown}, ""},
		{Room{200 << 20, leastFiles, leastMemory, leastDescriptors}, "200 MiB are free, and 512 MiB"},
		{Room{leastDisk, 19_999, leastMemory, leastDescriptors}, "19999 more files"},
		{Room{leastDisk, leastFiles, 100 << 20, leastDescriptors}, "short of memory: 100 MiB"},
		{Room{leastDisk, leastFiles, leastMemory, 63}, "open 63 more files"},
		{Room{0, Unknown, Unknown, Unknown}, "nearly full: 0 MiB"},
	} {
		if got := tt.room.Lacks(); got != tt.want && (tt.want == "" || !strings.Contains(got, tt.want)) {
			t.Errorf("%+v: %q, want %q", tt.room, got, tt.want)
		}
	}
}

func TestTrouble(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		fmt.Errorf("write: %w", syscall.ENOSPC): "the disk of this machine is full",
		fmt.Errorf("open: %w", syscall.EMFILE):  "too many files are open on this machine",
		fmt.Errorf("fork: %w", syscall.ENOMEM):  "this machine is out of memory",
		os.ErrPermission:                        "",
	} {
		if got := Trouble(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		total  int64
		have   int
		memory int64
		cores  float64
		want   int
	}{
		{32 << 30, 16, 4 << 30, 2, 8}, {16 << 30, 16, 4 << 30, 2, 4}, {2 << 30, 1, 4 << 30, 2, 1},
		{Unknown, 8, 4 << 30, 2, 4}, {64 << 30, 8, 0, 0, 8}, {64 << 30, 4, 1 << 30, 0.5, 8},
	} {
		if got := fit(tt.total, tt.have, tt.memory, tt.cores); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}
