package shim

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/sandbox"
)

func unlimited() usage { return usage{math.MaxInt64, math.MaxInt64} }

func write(t *testing.T, path string, n int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDiskCount(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(other, "big"), 8<<20)
	write(t, filepath.Join(dir, "a"), 1<<20)
	write(t, filepath.Join(dir, "shut", "b"), 1<<20)
	for i := range 3 {
		if err := os.Link(filepath.Join(dir, "a"), filepath.Join(dir, fmt.Sprint("again", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	if err == nil {
		err = sparse.Truncate(1 << 40)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := sparse.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "shut"), 0); err != nil {
		t.Fatal(err)
	}
	used, problem := disk{dirs: []string{dir, filepath.Join(dir, "none")}, limit: unlimited()}.count()
	// Directories and links take a block or none.
	if used.files != 5 || used.bytes < 2<<20 || used.bytes > 2<<20+64<<10 || problem != "" {
		t.Errorf("counted %+v, %q; want 2 MiB in 5 files", used, problem)
	}
}

func TestDiskProblems(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), 1<<20)
	write(t, filepath.Join(dir, "b"), 1<<20)
	deep := t.TempDir()
	if err := os.MkdirAll(filepath.Join(deep, strings.Repeat("d/", maxDepth+2)), 0o700); err != nil {
		t.Fatal(err)
	}
	plenty := func(string) (room, error) { return room{1 << 50, 1 << 40}, nil }
	for _, tt := range []struct {
		name, dir string
		limit     usage
		room      func(string) (room, error)
		want      string
	}{
		{"bytes", dir, usage{1 << 20, 100}, plenty, "more than the 1 MiB allowed were written"},
		{"files", dir, usage{1 << 30, 1}, plenty, "more than the 1 files allowed were made"},
		{"depth", deep, usage{1 << 50, 1 << 40}, plenty, "directories are nested more than 250 deep"},
		{
			"the disk is full", dir, unlimited(), func(string) (room, error) { return room{200 << 20, 1 << 40}, nil },
			"the file system of the work tree is nearly full: 200 MiB and",
		},
		{
			"no files are left", dir, unlimited(), func(string) (room, error) { return room{20 << 30, 9999}, nil },
			"nearly full: 20 GiB and 9999 files are left",
		},
		{
			"it has no limit of files", dir, usage{1 << 20, 100}, func(string) (room, error) { return room{20 << 30, -1}, nil },
			"more than the 1 MiB",
		},
		{
			"it cannot be asked", dir, usage{1 << 20, 100}, func(string) (room, error) { return room{}, os.ErrPermission },
			"more than the 1 MiB",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var said string
			disk{dirs: []string{tt.dir}, limit: tt.limit, room: tt.room}.watch(t.Context(), func(s string) { said = s })
			if !strings.Contains(said, tt.want) {
				t.Errorf("said %q, want %q", said, tt.want)
			}
		})
	}
}

// TestDiskCountsAgain: what is written later is found when the file system
// loses room, long before the next count is due.
func TestDiskCountsAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	asked := 0
	d := disk{dirs: []string{dir}, limit: usage{1 << 20, 100}, room: func(string) (room, error) {
		asked++
		if asked == 3 {
			write(t, filepath.Join(dir, "late"), 4<<20)
			return room{1<<40 - 4<<20, 1 << 40}, nil
		}
		return room{1 << 40, 1 << 40}, nil
	}}
	said := ""
	d.watch(t.Context(), func(s string) { said = s })
	if !strings.Contains(said, "more than the 1 MiB") || asked != 3 {
		t.Errorf("said %q when asked %d times", said, asked)
	}
}

func TestDiskWatchEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	disk{dirs: []string{t.TempDir()}, limit: unlimited(), room: roomOf}.watch(ctx, func(s string) { t.Error(s) })
}

// TestDiskIsLookedAtOnceMore: what fills the disk and ends at once is found.
func TestDiskIsLookedAtOnceMore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason, want sandbox.Reason
		left         room
	}{
		{sandbox.ReasonExited, sandbox.ReasonDiskLimit, room{0, 1 << 40}},
		{sandbox.ReasonExited, sandbox.ReasonDiskLimit, room{1 << 40, 0}},
		{sandbox.ReasonExited, sandbox.ReasonExited, room{1 << 40, -1}},
		{sandbox.ReasonWallTimeout, sandbox.ReasonDiskLimit, room{0, -1}},
		{sandbox.ReasonIdleTimeout, sandbox.ReasonDiskLimit, room{0, -1}},
		{sandbox.ReasonStopped, sandbox.ReasonStopped, room{0, -1}}, // whoever stopped it knows why
		{sandbox.ReasonOwnerDied, sandbox.ReasonOwnerDied, room{0, -1}},
	} {
		d := disk{dirs: []string{"/tree"}, limit: unlimited(), room: func(string) (room, error) { return tt.left, nil }}
		reason, detail := d.lastLook(tt.reason, "")
		if reason != tt.want || (reason == sandbox.ReasonDiskLimit) != strings.Contains(detail, "are left in /tree") {
			t.Errorf("%s with %+v left: %s %q, want %s", tt.reason, tt.left, reason, detail, tt.want)
		}
	}
}
