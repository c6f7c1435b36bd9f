package rundir

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/shim"
)

// ConfigName is what the shim's configuration is called in a box.
const ConfigName = "config"

const promptName = "prompt"

// maxOpenFiles bounds the descriptors of each process, beyond what any needs.
const maxOpenFiles = 1 << 16

// Places are where a command sees what its spec names; "" is nowhere.
type Places struct{ Work, Box, Cache, Gateway string }

// NewBox makes a directory for one shim to be shown, empty. Each attempt at a start has its
// own: what is put into it later is out of sight of a shim that an earlier one began.
func (d Dir) NewBox() (string, error) {
	box, err := os.MkdirTemp(string(d), boxPrefix)
	if err != nil {
		return "", fmt.Errorf("make the shim's directory: %w", err)
	}
	return box, nil
}

// Config is what a shim is to do for a spec, but for what only its sandbox knows.
func Config(noted Start, spec sandbox.Spec, at Places) shim.Config {
	cfg := shim.Config{
		Argv: spec.Argv, HomeFiles: spec.HomeFiles, Defaults: sandbox.CacheEnv(at.Cache),
		Dir:         filepath.Join(at.Work, spec.Dir),
		Stdout:      filepath.Join(at.Box, stdoutFile),
		Stderr:      filepath.Join(at.Box, stderrFile),
		Record:      filepath.Join(at.Box, recordFile),
		OutputLimit: sandbox.OutputLimit,
		WallTimeout: spec.WallTimeout, IdleTimeout: spec.IdleTimeout,
		Grace: noted.Grace, WatchOwner: spec.OnOwnerDeath == sandbox.KillWithOwner,
		Limits: shim.Limits{OpenFiles: maxOpenFiles},
	}
	if spec.DiskBytes > 0 {
		// The shim keeps to it, too, and writes the transcript.
		cfg.Limits.FileSize = uint64(max(2*spec.DiskBytes, cfg.OutputLimit)) // #nosec G115 -- not negative
	}
	if spec.Stdin != "" {
		cfg.Stdin = filepath.Join(at.Box, promptName)
	}
	cfg.DiskBytes, cfg.DiskFiles, cfg.Watched = spec.DiskBytes, spec.DiskFiles, []string{at.Work, at.Box}
	if at.Cache != "" {
		cfg.Watched = append(cfg.Watched, at.Cache)
	}
	if at.Gateway != "" {
		cfg.Listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(sandbox.GatewayPort))
		cfg.Socket = filepath.Join(at.Gateway, sandbox.GatewaySocket)
	}
	return cfg
}

// Fill puts into a box what the shim reads, and hard links to the files of the run directory
// that it writes. The shim removes all these names before the command starts, so that the
// command can reach the transcript and the record by none, and the host reads them by those
// that it kept.
func (d Dir) Fill(box string, cfg shim.Config, stdin string) error {
	for _, name := range []string{stdoutFile, stderrFile, recordFile} {
		// One that is there is another shim's, and the record says so.
		f, err := os.OpenFile(d.Path(name), os.O_WRONLY|os.O_CREATE, 0o600) // #nosec G304 -- a path of ours
		if err != nil {
			return err
		}
		if err := errors.Join(f.Close(), os.Link(d.Path(name), filepath.Join(box, name))); err != nil {
			return err
		}
	}
	if stdin != "" {
		if err := copyFile(filepath.Join(box, promptName), stdin); err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
	}
	return cfg.WriteFile(filepath.Join(box, ConfigName))
}

// copyFile refuses what is not a regular file: opening a FIFO would block.
func copyFile(to, from string) error {
	src, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NONBLOCK, 0) // #nosec G304 -- the caller's file
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	if info, err := src.Stat(); err != nil {
		return err
	} else if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", from)
	}
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- a path of ours
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
