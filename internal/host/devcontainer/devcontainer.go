package devcontainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// Paths are where the file may be, in the order of the specification.
var paths = [...]string{".devcontainer/devcontainer.json", ".devcontainer.json"}

// Paths are where a repository may keep the file; the first that exists counts.
func Paths() []string { return slices.Clone(paths[:]) }

// MaxBytes bounds the file.
const MaxBytes = 64 << 10

// File is what is taken from a devcontainer.json: an image or a build.
type File struct {
	// Image is the reference of an image, "" where one is to be built.
	Image string
	Build *Build
	// Unused are the keys that would make another container of it, and that are
	// not followed.
	Unused []string
}

// Build is how an image is made. The paths are the repository's, with slashes.
type Build struct {
	Dockerfile string
	// Context is the folder that the Dockerfile's instructions see, "." for the
	// whole repository.
	Context string
	Args    map[string]string
	Target  string
}

// Keys that change nothing in the container as we use it: they are for editors.
var silent = map[string]bool{
	"$schema": true, "name": true, "customizations": true, "forwardPorts": true, "portsAttributes": true,
	"otherPortsAttributes": true,
	"appPort":              true, "shutdownAction": true, "workspaceFolder": true, "hostRequirements": true,
	"updateRemoteUserUID": true, "remoteUser": true,
	"containerUser": true, "userEnvProbe": true, "overrideCommand": true, "init": true, "waitFor": true,
	"extensions": true, "settings": true,
	"image": true, "build": true, "dockerFile": true, "context": true,
}

// Parse reads the file at name: JSON with comments and trailing commas. The error
// says what a person has to fix in it.
func Parse(name string, src []byte) (File, error) {
	plain, err := hujson.Standardize(slices.Clone(src))
	if err != nil {
		return File{}, fmt.Errorf("it is not JSON with comments: %w", err)
	}
	// A map, since the names of fields are compared without regard to case.
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(plain, &doc); err != nil {
		return File{}, fmt.Errorf("it is not a JSON object: %w", err)
	}
	if _, ok := doc["dockerComposeFile"]; ok {
		return File{}, errors.New("it is made of Docker Compose services, and a sandbox is one container; name an " +
			"image or a build")
	}
	var f File
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		if !silent[key] {
			f.Unused = append(f.Unused, key)
		}
	}
	var old struct{ file, context string }
	for key, to := range map[string]*string{"image": &f.Image, "dockerFile": &old.file, "context": &old.context} {
		if err := text(doc, key, key, to); err != nil {
			return File{}, err
		}
	}
	if _, ok := doc["build"]; ok {
		f.Build, err = build(name, doc["build"])
	} else if old.file != "" {
		f.Build, err = locate(name, Build{Dockerfile: old.file, Context: old.context})
	}
	switch {
	case err != nil:
		return File{}, err
	case f.Build != nil && f.Image != "":
		return File{}, errors.New("it names both an image and a build")
	case f.Build == nil && f.Image == "":
		return File{}, errors.New("it names neither an image nor a build")
	}
	return f, nil
}

// build reads the object of that name.
func build(name string, src json.RawMessage) (*Build, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(src, &doc); err != nil {
		return nil, fmt.Errorf("build is not an object: %w", err)
	}
	if _, ok := doc["options"]; ok {
		return nil, errors.New("build.options are arguments of a command line, and there is none; remove them")
	}
	var b Build
	for key, to := range map[string]*string{"dockerfile": &b.Dockerfile, "context": &b.Context, "target": &b.Target} {
		if err := text(doc, key, "build."+key, to); err != nil {
			return nil, err
		}
	}
	if b.Dockerfile == "" {
		return nil, errors.New("build.dockerfile is missing")
	}
	if args, ok := doc["args"]; ok {
		if err := json.Unmarshal(args, &b.Args); err != nil {
			return nil, fmt.Errorf("build.args is not an object of texts: %w", err)
		}
		for key, value := range b.Args {
			if err := literal("build.args."+key, value); err != nil {
				return nil, err
			}
		}
	}
	return locate(name, b)
}

// text reads a text that is used as it stands.
func text(doc map[string]json.RawMessage, key, called string, to *string) error {
	src, ok := doc[key]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(src, to); err != nil {
		return fmt.Errorf("%s is not a text", called)
	}
	return literal(called, *to)
}

// literal refuses what would have to be expanded: "${localEnv:NAME}" is a
// variable of the machine that the bot runs on.
func literal(called, value string) error {
	if strings.Contains(value, "${") || strings.ContainsRune(value, 0) {
		return fmt.Errorf("%s holds a variable, and none is known here: %.80q", called, value)
	}
	return nil
}

// locate turns the paths, which are relative to the file's folder, into the
// repository's.
func locate(name string, b Build) (*Build, error) {
	for called, p := range map[string]*string{"build.dockerfile": &b.Dockerfile, "build.context": &b.Context} {
		joined := path.Join(path.Dir(name), *p)
		if path.IsAbs(*p) || !filepath.IsLocal(joined) {
			return nil, fmt.Errorf("%s lies outside of the repository: %.80q", called, *p)
		}
		*p = joined
	}
	return &b, nil
}
