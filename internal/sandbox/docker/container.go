package docker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/internal/rundir"
)

// config is what a start's container is made of.
func (s *Sandbox) config(d rundir.Dir, noted rundir.Start, spec sandbox.Spec) *container.Config {
	env := map[string]string{"HOME": homeDir, "TMPDIR": "/tmp", "TERM": "dumb", "LANG": "C.UTF-8"}
	maps.Copy(env, spec.Env)
	list := make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		list = append(list, key+"="+env[key])
	}
	stop := int((noted.Grace + stopSlack) / time.Second)
	kill := spec.OnOwnerDeath == sandbox.KillWithOwner
	return &container.Config{
		Image:      spec.Image,
		Hostname:   "sandbox",
		User:       fmt.Sprintf("%d:%d", s.uid, s.gid),
		Entrypoint: []string{ShimPath},
		Cmd:        []string{"shim", path.Join(boxDir, rundir.ConfigName)},
		Env:        list,
		WorkingDir: "/",
		OpenStdin:  kill, StdinOnce: kill,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		StopSignal:  "SIGTERM", StopTimeout: &stop,
		Labels: map[string]string{labelStart: noted.Name, labelRunDir: string(d), labelInstallation: s.opts.Installation},
	}
}

// hostConfig is how a start is confined; volumes are what its image declares to be
// written.
func (s *Sandbox) hostConfig(
	ctx context.Context, box string, spec sandbox.Spec, volumes []string,
) (*container.HostConfig, error) {
	memory := cmp.Or(max(spec.MemoryBytes, 0), DefaultMemoryBytes)
	pids := cmp.Or(max(spec.PIDs, 0), DefaultPIDs)
	mounts := []mount.Mount{
		{Type: mount.TypeBind, Source: spec.Workspace, Target: WorkDir},
		{Type: mount.TypeBind, Source: box, Target: boxDir},
		{Type: mount.TypeBind, Source: s.opts.Self, Target: ShimPath, ReadOnly: true},
	}
	if spec.CacheDir != "" {
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: spec.CacheDir, Target: cacheDir})
	}
	if spec.GatewayDir != "" {
		mounts = append(mounts, mount.Mount{
			Type: mount.TypeBind, Source: spec.GatewayDir, Target: gatewayDir, ReadOnly: true,
		})
	}
	for _, m := range spec.Mounts {
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: m.Host, Target: m.Target, ReadOnly: true})
	}
	on, err := s.paths(ctx)
	if err != nil {
		return nil, err
	}
	for i := range mounts {
		if mounts[i].Source, err = on.mountable(mounts[i].Source); err != nil {
			return nil, err
		}
	}
	return &container.HostConfig{
		NetworkMode:    "none",
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		ReadonlyRootfs: true,
		Mounts:         mounts,
		Tmpfs:          s.tmpfs(memory/2, mounts, volumes),
		ShmSize:        shmSize,
		Resources: container.Resources{
			Memory: memory, MemorySwap: memory, // no swap on top
			PidsLimit: &pids,
			NanoCPUs:  int64(max(spec.CPUs, 0) * 1e9),
			Ulimits:   []*container.Ulimit{{Name: "core"}},
		},
		// The shim alone writes there, and only when it fails.
		LogConfig:     container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "1"}},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
	}, nil
}

// shmSize is that of /dev/shm, whose pages count as memory, too.
const shmSize = 64 << 20

// tmpfs is what is in memory: home, /tmp and, in place of directories on the
// engine's disk that nobody counts, the volumes of the image. Pages of a tmpfs count
// as memory, so that the size only keeps one of them from taking all. exec: agents
// build and run tests there.
func (s *Sandbox) tmpfs(size int64, mounts []mount.Mount, volumes []string) map[string]string {
	shared := fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,size=%d", size)
	list := map[string]string{
		homeDir: fmt.Sprintf("rw,exec,nosuid,nodev,mode=0700,uid=%d,gid=%d,size=%d", s.uid, s.gid, size),
		"/tmp":  shared,
	}
	for _, volume := range volumes {
		volume = path.Clean("/" + volume)
		taken := slices.ContainsFunc(mounts, func(m mount.Mount) bool { return m.Target == volume })
		if _, ours := list[volume]; !ours && !taken {
			list[volume] = shared
		}
	}
	return list
}
