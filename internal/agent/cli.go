package agent

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"github.com/org/ralph-action/internal/run"
)

// cli is what the back ends of installed command lines have in common.
type cli struct {
	name string
	// path is where the person says it is; "" means name in the PATH.
	path string
	// pkg is the npm package that holds it, tried the version it was tried with.
	pkg, tried string
	// apis are the model APIs it speaks.
	apis []run.Provider
	// keys are the variables that hold its key.
	keys []string
	env  func(string) string
}

// About implements Backend.
func (c cli) About() About {
	return About{
		Name: c.name, Binary: c.binary(), Tried: c.tried, Providers: c.apis, Keys: c.keys,
	}
}

func (c cli) binary() string { return firstOf(c.path, c.name) }

// Check implements Backend.
func (c cli) Check(look func(file string) (string, error)) error {
	if _, err := look(c.binary()); err != nil {
		return &run.UserError{
			Message: fmt.Sprintf("the agent's command line %q was not found", c.binary()),
			Hint:    fmt.Sprintf("install it with `npm install -g %s`, or choose another agent", c.pkg),
			Err:     err,
		}
	}
	return nil
}

// proxied says whether the model is reached through the proxy; it is an error
// where there has to be one, or where it lacks something.
func (c cli) proxied(inv Invocation) (bool, error) {
	switch {
	case inv.BaseURL != "" && inv.Token != "":
		return true, nil
	case inv.BaseURL != "":
		// Without any key a CLI does not even ask: "Not logged in".
		return false, fmt.Errorf("command of agent %s: a model proxy without a run token", c.name)
	case inv.Sandbox != SandboxLocal:
		return false, fmt.Errorf("command of agent %s: sandbox %q needs a model proxy", c.name, inv.Sandbox)
	default:
		return false, nil
	}
}

// mount makes the program at the person's path visible in a container. Without a
// path the image is expected to hold it.
func (c cli) mount(cmd *Command, inv Invocation) error {
	if bin := filepath.Dir(c.path); inv.Sandbox == SandboxLocal && filepath.IsAbs(c.path) && filepath.Base(bin) == "bin" {
		// The interpreter of what npm installs lies beside it; the one in the PATH may be a shim.
		if path := firstOf(c.env("PATH"), "/usr/bin:/bin"); !slices.Contains(filepath.SplitList(path), bin) {
			cmd.Env["PATH"] = bin + string(filepath.ListSeparator) + path
		}
	}
	if inv.Sandbox != SandboxLocal && c.path != "" {
		host, err := c.native()
		if err != nil {
			return err
		}
		cmd.Argv[0] = mountDir + c.name
		cmd.Mounts = append(cmd.Mounts, Mount{Host: host, Target: cmd.Argv[0]})
	}
	cmd.Version = []string{cmd.Argv[0], "--version"}
	return nil
}

// openAI has an agent reach OpenAI's API, and gives the API's address.
func (c cli) openAI(cmd *Command, inv Invocation, proxied bool) string {
	if proxied {
		cmd.Env["OPENAI_API_KEY"] = inv.Token
		return inv.BaseURL + "/v1"
	}
	cmd.PassEnv = []string{"OPENAI_API_KEY"}
	return firstOf(c.env("OPENAI_BASE_URL"), "https://api.openai.com/v1")
}

// mountDir is where programs of the host are seen in a container.
const mountDir = "/opt/ralph/"

// resolved is the file behind the links of the person's path.
func (c cli) resolved() (string, error) {
	target, err := filepath.EvalSymlinks(c.path)
	if err == nil {
		target, err = filepath.Abs(target)
	}
	if err != nil {
		return "", &run.UserError{
			Message: fmt.Sprintf("the agent's command line %q was not found", c.path),
			Hint:    fmt.Sprintf("name the program of the installed package %s", c.pkg),
			Err:     err,
		}
	}
	return target, nil
}

// native resolves the path to a file that runs by itself in another image. A
// script would need its interpreter and its neighbours there.
func (c cli) native() (string, error) {
	target, err := c.resolved()
	if err != nil {
		return "", err
	}
	f, err := os.Open(target) //nolint:gosec // G304: the person named it
	if err != nil {
		return "", fmt.Errorf("open agent binary: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil || string(magic) != "\x7fELF" {
		return "", &run.UserError{
			Message: fmt.Sprintf("%q is not a Linux binary that can be mounted into a container", c.path),
			Hint:    fmt.Sprintf("name the program of the npm package for this platform, such as %s", nativePackage(c.pkg)),
			Err:     err,
		}
	}
	return target, nil
}

// nativePackage is the npm package with the program for 64-bit Intel.
func nativePackage(pkg string) string {
	if pkg == "opencode-ai" {
		pkg = "opencode"
	}
	return pkg + "-linux-x64 (or -arm64)"
}

// versionRE is a version as the CLIs print it, alone or in a sentence.
var versionRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b\d{1,6}\.\d{1,6}\.\d{1,20}(-[0-9A-Za-z.-]{1,40})?`)
})

// ReadVersion finds the version in what a CLI prints when it is asked for it, ""
// if there is none.
func ReadVersion(output string) string {
	if len(output) > 4<<10 {
		output = output[:4<<10]
	}
	return versionRE().FindString(output)
}

// needModel says that the agent has no model of its own choice.
func (c cli) needModel(inv Invocation) error {
	if inv.Model == "" {
		return &run.UserError{
			Message: fmt.Sprintf("the agent %s needs the name of a model", c.name),
			Hint:    "set one with --model, or agent.model in the server's configuration",
		}
	}
	return nil
}
