package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// The engine does not know when an image was last used: the age of a file in the data
// directory tells.
func (s *Sandbox) useFile(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(s.opts.DataDir, "images", hex.EncodeToString(sum[:10]))
}

// noteUse notes that an image is wanted at a time.
func (s *Sandbox) noteUse(name string, at time.Time) error {
	if s.opts.DataDir == "" {
		return nil
	}
	s.mu.Lock() // it does not go while it is noted
	defer s.mu.Unlock()
	file := s.useFile(name)
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, []byte(name), 0o600)
	}
	if err == nil {
		err = os.Chtimes(file, at, at)
	}
	if err != nil {
		return fmt.Errorf("note the use of image %s: %w", name, err)
	}
	return nil
}

// Expire implements sandbox.Images.
func (s *Sandbox) Expire(ctx context.Context, before time.Time, keep func(name string) bool) (
	n int, bytes int64, err error,
) {
	if s.opts.Installation == "" || s.opts.DataDir == "" {
		return 0, 0, nil
	}
	list, err := s.engine.ImageList(ctx, client.ImageListOptions{
		Filters: make(client.Filters).Add("label", labelInstallation+"="+s.opts.Installation),
	})
	if err != nil {
		return 0, 0, fmt.Errorf("look for images that were built: %w", unavailable(err))
	}
	used, err := s.engine.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return 0, 0, fmt.Errorf("look for images that are in use: %w", unavailable(err))
	}
	busy := map[string]bool{}
	for _, c := range used.Items {
		busy[c.ImageID] = true
	}
	var errs []error
	for _, image := range list.Items {
		if busy[image.ID] {
			continue
		}
		for _, name := range image.RepoTags {
			if keep(name) {
				continue
			}
			went, err := s.expire(ctx, name, before)
			if errs = append(errs, err); went {
				n++
				bytes += image.Size
			}
		}
	}
	return n, bytes, errors.Join(errs...)
}

// expire removes an image, unless it was asked for since a time. One that nobody has ever
// asked for is a person's own, made from one of ours.
func (s *Sandbox) expire(ctx context.Context, name string, before time.Time) (went bool, err error) {
	s.mu.Lock() // nobody asks for it meanwhile
	defer s.mu.Unlock()
	info, err := os.Stat(s.useFile(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil || !info.ModTime().Before(before):
		return false, err
	}
	// Without force the engine keeps what a container has.
	_, err = s.engine.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: true})
	switch {
	case errdefs.IsConflict(err):
		return false, nil
	case err != nil && !errdefs.IsNotFound(err):
		return false, fmt.Errorf("remove image %s: %w", name, unavailable(err))
	}
	return true, os.Remove(s.useFile(name))
}

// built is what the images hold that Build made, with what they share with others.
func (s *Sandbox) built(ctx context.Context) (n int, bytes int64, err error) {
	list, err := s.engine.ImageList(ctx, client.ImageListOptions{
		Filters: make(client.Filters).Add("label", labelInstallation),
	})
	if err != nil {
		return 0, 0, fmt.Errorf("look for images that were built: %w", unavailable(err))
	}
	for _, image := range list.Items {
		if len(image.RepoTags) > 0 {
			n++
			bytes += image.Size
		}
	}
	return n, bytes, nil
}
