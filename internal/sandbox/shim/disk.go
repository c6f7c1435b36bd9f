package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/org/ralph-action/internal/machine"
	"github.com/org/ralph-action/internal/sandbox"
)

const (
	// diskPoll is how often the file system is asked how much room it has,
	// which costs next to nothing.
	diskPoll = 100 * time.Millisecond
	// diskWalk is how long a tree goes uncounted at most, and diskShare the
	// part of the time (one in so many) that counting may take.
	diskWalk  = 10 * time.Second
	diskShare = 4
	// diskReserve and filesReserve are left to the machine by every command:
	// what is not to be found by its name (a file that is open and deleted) is
	// bounded by them.
	diskReserve  = 256 << 20
	filesReserve = 10_000
	// maxDepth bounds how deep directories are followed. Whoever nests them
	// deeper wants to hide something, or to wear somebody out.
	maxDepth = 250
)

// room is what a file system has left. files is machine.Unknown where it has no limit.
type room struct{ bytes, files int64 }

// roomOf asks the file system that dir is on.
func roomOf(dir string) (r room, err error) {
	r.bytes, r.files, err = machine.FreeDisk(dir)
	return r, err
}

// usage is what trees take.
type usage struct{ bytes, files int64 }

// disk watches what a command has written.
type disk struct {
	dirs  []string
	limit usage
	room  func(dir string) (room, error)
}

// watch says what is wrong once too much is written, and ends then. Without a limit that is
// when the file system is nearly full. Counting a
// tree takes time, so that it is counted when the file system has lost a
// quarter of what may still be written, and now and then.
func (d disk) watch(ctx context.Context, tell func(string)) {
	tick := time.NewTicker(diskPoll)
	defer tick.Stop()
	var used usage
	var counted room
	var next, due time.Time
	for {
		now := time.Now()
		left, problem := d.ask()
		if problem != "" {
			tell(problem)
			return
		}
		limited := d.limit.bytes != math.MaxInt64 || d.limit.files != math.MaxInt64
		grown := usage{counted.bytes - left.bytes, counted.files - left.files}
		if limited && now.After(next) && (now.After(due) || grown.bytes > (d.limit.bytes-used.bytes)/4 ||
			grown.files > (d.limit.files-used.files)/4) {
			if used, problem = d.count(); problem != "" {
				tell(problem)
				return
			}
			counted = left
			took := time.Since(now)
			next, due = now.Add(diskShare*took), now.Add(max(diskWalk, diskShare*took))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ask gives the room that the work tree's file system has left (the other trees may be on file
// systems of their own), and says what is wrong where one of them is nearly full.
func (d disk) ask() (left room, problem string) {
	for i, dir := range d.dirs {
		r, err := d.room(dir)
		// Where it cannot be asked there is nothing to go by but counting.
		if err == nil && (r.bytes < diskReserve || r.files >= 0 && r.files < filesReserve) {
			return r, fmt.Sprintf("%s: %s and %d files are left in %s", sandbox.NearlyFull, size(r.bytes), r.files, dir)
		}
		if i == 0 {
			left = r
		}
	}
	return left, ""
}

// lastLook is why a command ended that is over: it may have filled the disk, and ended, from one
// look of the watch to the next. What it wrote would then leave no room for the host to work.
func (d disk) lastLook(reason sandbox.Reason, detail string) (sandbox.Reason, string) {
	if reason == sandbox.ReasonExited || reason == sandbox.ReasonWallTimeout || reason == sandbox.ReasonIdleTimeout {
		if _, problem := d.ask(); problem != "" {
			return sandbox.ReasonDiskLimit, problem
		}
	}
	return reason, detail
}

// count adds up the trees, and says what is wrong with them if anything is.
func (d disk) count() (usage, string) {
	c := counter{limit: d.limit, links: map[[2]uint64]bool{}}
	for _, dir := range d.dirs {
		root, err := os.OpenRoot(dir)
		if err != nil {
			continue
		}
		c.add(root, 0)
		_ = root.Close()
	}
	switch {
	case c.deep:
		return c.used, fmt.Sprintf("directories are nested more than %d deep", maxDepth)
	case c.used.bytes > d.limit.bytes:
		return c.used, fmt.Sprintf("more than the %s allowed were written", size(d.limit.bytes))
	case c.used.files > d.limit.files:
		return c.used, fmt.Sprintf("more than the %d files allowed were made", d.limit.files)
	}
	return c.used, ""
}

type counter struct {
	limit, used usage
	// links are the files seen that have more than one name.
	links map[[2]uint64]bool
	deep  bool
}

func (c *counter) over() bool {
	return c.deep || c.used.bytes > c.limit.bytes || c.used.files > c.limit.files
}

// add counts what is below dir, as far as it takes to know that it is too much.
// No link is followed. A directory that its owner cannot read is opened up, as
// the host does at the end.
func (c *counter) add(dir *os.Root, depth int) {
	if c.deep = c.deep || depth > maxDepth; c.deep {
		return
	}
	list, err := dir.Open(".")
	if errors.Is(err, fs.ErrPermission) && dir.Chmod(".", 0o700) == nil {
		list, err = dir.Open(".")
	}
	if err != nil {
		return // gone meanwhile
	}
	defer func() { _ = list.Close() }()
	for !c.over() {
		entries, err := list.ReadDir(512)
		for _, e := range entries {
			c.entry(dir, e, depth)
			if c.over() {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (c *counter) entry(dir *os.Root, e fs.DirEntry, depth int) {
	info, err := dir.Lstat(e.Name())
	if err != nil {
		return
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		if !info.IsDir() && st.Nlink > 1 {
			id := [2]uint64{uint64(st.Dev), st.Ino} //nolint:unconvert // its type differs between systems
			if c.links[id] {
				return
			}
			c.links[id] = true
		}
		c.used.bytes += st.Blocks * 512
	}
	c.used.files++
	if !info.IsDir() {
		return
	}
	if info.Mode()&0o700 != 0o700 {
		_ = dir.Chmod(e.Name(), info.Mode().Perm()|0o700)
	}
	if sub, err := dir.OpenRoot(e.Name()); err == nil {
		c.add(sub, depth+1)
		_ = sub.Close()
	}
}

// size writes a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	default:
		return fmt.Sprintf("%d MiB", max(n, 0)>>20)
	}
}
