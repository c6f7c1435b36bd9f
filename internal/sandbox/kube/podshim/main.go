package podshim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/org/ralph-action/internal/sandbox/shim"
)

// The volumes as the first container sees them.
const (
	// ProgramVolume gets the program, DiskVolume and MemoryVolume the directories that
	// a command may write into.
	ProgramVolume = "/ralph/program"
	DiskVolume    = "/ralph/disk"
	MemoryVolume  = "/ralph/memory"
)

// Main is "bot shim pod" and one of
//
//	install KIND…  lay out the volumes, with a "file" or "dir" per mount
//	serve          be the first process of a pod
//	tun            join standard input and output with its socket
//	listen         wait to be connected to, for probes
//	probe TARGET…  print which of them answer
func Main(args []string) int {
	ctx := context.Background()
	var err error
	switch {
	case len(args) > 0 && args[0] == "install":
		err = install(args[1:])
	case len(args) == 1 && args[0] == "serve":
		err = serve(ctx)
	case len(args) == 1 && args[0] == "tun":
		err = tun(ctx)
	case len(args) == 1 && args[0] == "listen":
		err = listen(ctx)
	case len(args) > 0 && args[0] == "probe":
		err = probe(ctx, args[1:], os.Stdout)
	default:
		err = fmt.Errorf("unknown part %q", args)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "shim pod:", err)
		return shim.CodeShimFailed
	}
	return 0
}

// MountName is the name of a mount in the disk's volume.
func MountName(i int) string { return "mount-" + strconv.Itoa(i) }

func install(mounts []string) error {
	if err := copySelf(filepath.Join(ProgramVolume, "bot")); err != nil {
		return err
	}
	dirs := map[string]os.FileMode{
		DiskVolume + "/workspace": 0o700, DiskVolume + "/run": 0o700, DiskVolume + "/cache": 0o700,
		MemoryVolume + "/home": 0o700, MemoryVolume + "/tmp": 0o777 | os.ModeSticky,
	}
	for i, kind := range mounts {
		path := filepath.Join(DiskVolume, MountName(i))
		if kind == "dir" {
			dirs[path] = 0o700
			continue
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
	}
	for dir, mode := range dirs {
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			return err
		}
	}
	return nil
}

func copySelf(to string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	src, err := os.Open(self) // #nosec G304 -- this program
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o555) // #nosec G302 G304 -- a program
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// tun ends with the connection. Its own standard error stays silent.
func tun(ctx context.Context) error {
	if err := shim.Hide(); err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.Close()
	}()
	_, _ = io.Copy(os.Stdout, conn) // either end may go
	return nil
}

// listen is what another pod tries to reach, until it is told to end.
func listen(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(ProbePort))
	if err != nil {
		return err
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer func() { _ = l.Close() }()
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	})
	<-ctx.Done()
	return nil
}
