package main

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"github.com/org/ralph-action/internal/config"
)

// userDefaults are those of the person's own file; found is false where there is
// none. Without a home there is nothing to read.
func userDefaults() (u config.User, path string, found bool, err error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return config.User{}, "", false, nil //nolint:nilerr // nobody's home
	}
	path = filepath.Join(dir, filepath.FromSlash(config.UserFile))
	u, found, err = config.LoadUser(path, os.ReadFile)
	return u, path, found, err
}

// BeforeResolve gives flags that have a default, and were not given otherwise,
// the value of the person's own file.
func (c *runCmd) BeforeResolve(ctx *kong.Context) error { //nolint:unparam // kong wants hooks to return an error
	if c.user, _, _, c.userErr = userDefaults(); c.userErr != nil {
		return nil // Run returns it, with its hint
	}
	if c.portable, c.userErr = readPortable(); c.userErr != nil {
		return nil
	}
	c.user.Agent = c.portable.agent(c.user.Agent)
	values := map[string]string{
		"agent": c.user.Agent.Name, "sandbox": c.user.Sandbox.Kind, "local-isolation": c.user.Sandbox.LocalIsolation,
		"notify-every": c.portable.get(portableEvery), "notify": c.portable.get(envNotify),
	}
	resolveOwn(ctx, values)
	return nil
}

// resolveOwn gives flags values where neither the command line nor the environment has
// one.
func resolveOwn(ctx *kong.Context, values map[string]string) {
	ctx.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		for _, env := range flag.Envs {
			if _, ok := os.LookupEnv(env); ok {
				return nil, nil
			}
		}
		if value := values[flag.Name]; value != "" {
			return value, nil
		}
		return nil, nil
	}))
}

// takeDefaults fills in what has no default from the person's own file.
func (c *runCmd) takeDefaults() error {
	if c.userErr != nil {
		return c.userErr
	}
	if own := c.user.Agent; c.Agent == cmp.Or(own.Name, config.AgentClaude) {
		c.AgentPath, c.AgentCommand, c.Script = cmp.Or(c.AgentPath, own.Path), cmp.Or(c.AgentCommand, own.Command),
			cmp.Or(c.Script, own.ScriptFile)
	} else {
		c.user.Agent.Model = ""
	}
	c.NoCommit = c.NoCommit || c.portable.leavesWork() && c.Branch == "" && !c.Push
	if len(c.Show) == 0 {
		c.Show = c.user.Sandbox.Show
	}
	if c.gated() && len(c.Egress) == 0 {
		c.Egress = c.user.Egress
	}
	return nil
}
