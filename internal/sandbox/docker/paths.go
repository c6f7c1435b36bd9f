package docker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/org/ralph-action/internal/run"
)

// paths turns paths of this process into paths of the machine that the engine
// runs on: the engine mounts directories of its own machine, and where the bot
// runs in a container itself, its files have other names there.
type paths struct {
	// shared maps directories of this process to the machine's; nil means that
	// all paths are the same.
	shared map[string]string
	// dir is a shared directory of ours, for copies of single files.
	dir string
}

// containerID finds the id of the container that a process is in by what the
// engine mounts into each: /etc/hostname and its like are files of its
// directory.
var containerID = regexp.MustCompile(`/containers/([0-9a-f]{64})/(?:hostname|hosts|resolv\.conf) `)

// paths says how paths are to be turned. The answer stays the same while this
// process lives, so that it is looked for once.
func (s *Sandbox) paths(ctx context.Context) (paths, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil {
		shared, err := s.ownMounts(ctx)
		if err != nil {
			return paths{}, err
		}
		s.found = &paths{shared: shared, dir: s.opts.DataDir}
	}
	return *s.found, nil
}

// ownMounts are the mounts of the container that this process is in; nil where
// it is in none that this engine knows.
func (s *Sandbox) ownMounts(ctx context.Context) (map[string]string, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no mounts is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("find out whether this is a container: %w", err)
	}
	var id []byte
	for line := range bytes.Lines(info) {
		// A machine that runs an engine sees the mounts of its containers too,
		// in other places.
		if m := containerID.FindSubmatch(line); m != nil && bytes.Contains(line, []byte(" /etc/host")) {
			id = m[1]
			break
		}
	}
	if id == nil {
		return nil, nil //nolint:nilnil // likewise
	}
	own, err := s.engine.ContainerInspect(ctx, string(id), client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil, nil //nolint:nilnil // a container of another engine, which ours runs in
	}
	if err != nil {
		return nil, fmt.Errorf("look at the container that the bot runs in: %w", err)
	}
	shared := map[string]string{}
	for _, m := range own.Container.Mounts {
		if m.Source != "" {
			shared[m.Destination] = m.Source
		}
	}
	return shared, nil
}

// host gives the machine's path of a directory or file of this process. ok is
// false where the machine cannot see it.
func (p paths) host(path string) (_ string, ok bool) {
	if p.shared == nil {
		return path, true
	}
	best, found := "", false
	for dir := range p.shared {
		rel, err := filepath.Rel(dir, path)
		if err == nil && filepath.IsLocal(rel) && len(dir) >= len(best) {
			best, found = dir, true
		}
	}
	if !found {
		return "", false
	}
	return filepath.Join(p.shared[best], strings.TrimPrefix(path, best)), true
}

// mountable is host for what is to be mounted. A single file that the machine
// cannot see, such as a program in the bot's own image, is copied to where it
// can.
func (p paths) mountable(path string) (string, error) {
	if at, ok := p.host(path); ok {
		return at, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("mount: %w", err)
	}
	if _, ok := p.host(p.dir); p.dir == "" || !ok || !info.Mode().IsRegular() {
		return "", &run.UserError{
			Message: fmt.Sprintf("the bot runs in a container, and the Docker engine cannot see %s, which is to be mounted",
				path),
			Hint: "mount the data directory into the bot's container from the host",
		}
	}
	copied, err := p.copied(path, info)
	if err != nil {
		return "", err
	}
	at, _ := p.host(copied)
	return at, nil
}

// copied gives a copy of the file in a shared directory. It is named after what
// changes with the file's content, so that a copy is made once.
func (p paths) copied(path string, info fs.FileInfo) (string, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", path, info.Size(), info.ModTime().UnixNano()))
	dir := filepath.Join(p.dir, "programs")
	to := filepath.Join(dir, hex.EncodeToString(sum[:8])+"-"+filepath.Base(path))
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("copy %s: %w", path, err)
	}
	src, err := os.Open(path) // #nosec G304 -- the host chose it
	if err != nil {
		return "", fmt.Errorf("copy %s: %w", path, err)
	}
	defer func() { _ = src.Close() }()
	dst, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		return "", fmt.Errorf("copy %s: %w", path, err)
	}
	_, err = io.Copy(dst, src)
	// The command is another user.
	err = errors.Join(err, dst.Chmod(readable(info.Mode().Perm())), dst.Close())
	if err == nil {
		err = os.Rename(dst.Name(), to)
	}
	if err != nil {
		_ = os.Remove(dst.Name())
		return "", fmt.Errorf("copy %s: %w", path, err)
	}
	return to, nil
}

// readable lets everybody read, and execute what its owner may.
func readable(mode fs.FileMode) fs.FileMode {
	if mode&0o100 != 0 {
		return mode | 0o555
	}
	return mode | 0o444
}
