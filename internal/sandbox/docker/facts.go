package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/client"
)

// Facts is a line about the engine, for people.
func (s *Sandbox) Facts(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	info, err := s.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return "", s.userError(err)
	}
	line := "engine " + info.Info.ServerVersion
	if !slices.ContainsFunc(info.Info.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=seccomp") }) {
		line += ", without seccomp"
	}
	p, err := s.paths(ctx)
	if err != nil {
		return line, err
	}
	if p.shared != nil {
		line += ", which this container belongs to"
	}
	if s.opts.Image == "" {
		return line, nil
	}
	image, err := s.engine.ImageInspect(ctx, s.opts.Image)
	if err != nil {
		return line, s.userError(err)
	}
	return fmt.Sprintf("%s; the image is here (%d MB)", line, image.Size/1_000_000), nil
}
