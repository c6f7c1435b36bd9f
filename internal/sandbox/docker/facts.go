package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/client"
)

// Facts is what a person may want to know of the engine.
type Facts struct {
	// Version and API are the engine's, Storage and Cgroup how it keeps
	// images and limits.
	Version, API, Storage, Cgroup string
	// Seccomp says that it filters system calls.
	Seccomp bool
	// ImageBytes is the size of the image that Check expects, 0 where none was
	// named.
	ImageBytes int64
	// Inside says that this process runs in a container of the engine, and
	// Paths what it shares with the machine then.
	Inside bool
}

// Facts asks the engine about itself.
func (s *Sandbox) Facts(ctx context.Context) (Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	info, err := s.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return Facts{}, s.userError(err)
	}
	f := Facts{
		Version: info.Info.ServerVersion, API: s.engine.ClientVersion(), Storage: info.Info.Driver,
		Cgroup: info.Info.CgroupVersion,
		Seccomp: slices.ContainsFunc(info.Info.SecurityOptions,
			func(o string) bool { return strings.HasPrefix(o, seccompName) }),
	}
	if s.opts.Image != "" {
		image, err := s.engine.ImageInspect(ctx, s.opts.Image)
		if err != nil {
			return f, s.userError(err)
		}
		f.ImageBytes = image.Size
	}
	p, err := s.paths(ctx)
	if err != nil {
		return f, err
	}
	f.Inside = p.shared != nil
	return f, nil
}

// String is one line for people.
func (f Facts) String() string {
	line := fmt.Sprintf("engine %s (API %s, %s, cgroup %s)", f.Version, f.API, f.Storage, f.Cgroup)
	if !f.Seccomp {
		line += ", without seccomp"
	}
	if f.Inside {
		line += ", which this container belongs to"
	}
	if f.ImageBytes > 0 {
		line += fmt.Sprintf("; the image is here (%d MB)", f.ImageBytes/1_000_000)
	}
	return line
}
