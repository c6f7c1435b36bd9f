package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// gemini is the Gemini CLI.
func gemini(c cli, self string) Backend {
	c.pkg, c.tried, c.apis = "@google/gemini-cli", "0.61.0", []run.Provider{run.ProviderGoogle}
	c.keys = []string{"GEMINI_API_KEY"}
	return preset{cli: c, self: self, start: startGemini, mount: mountPackage}
}

func startGemini(c cli, inv Invocation, proxied bool) (Command, error) {
	// All the tools work, but those of the role, those that ask a person, and those that
	// the provider would run outside of the sandbox.
	denied := append([]string{"ask_user", "enter_plan_mode", "exit_plan_mode"}, inv.DenyTools...)
	cmd := Command{
		Argv: []string{c.binary(), "--acp"},
		// The work tree is not trusted: its settings, hooks, servers, policies and
		// .env stay out.
		Env: map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "false"},
	}
	if inv.Model != "" {
		cmd.Argv = append(cmd.Argv, "--model="+inv.Model)
	}
	if proxied {
		denied = append(denied, "google_web_search", "web_fetch")
		cmd.Env["GOOGLE_GEMINI_BASE_URL"], cmd.Env["GEMINI_API_KEY"] = inv.BaseURL, inv.Token
	} else {
		cmd.PassEnv = []string{"GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"}
	}
	type object = map[string]any
	settings, err := json.Marshal(object{
		"security": object{
			// With a base address the CLI picks a type that it then refuses.
			"auth": object{"selectedType": "gemini-api-key"},
			// Or it would not start in a directory that it does not trust.
			"folderTrust": object{"enabled": false},
		},
		"privacy":   object{"usageStatisticsEnabled": false},
		"telemetry": object{"enabled": false},
		"general":   object{"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
	})
	if err != nil {
		return Command{}, fmt.Errorf("settings of agent gemini: %w", err)
	}
	for i, name := range denied {
		denied[i] = quoted(name)
	}
	cmd.HomeFiles = map[string]string{
		".gemini/settings.json": string(settings),
		".gemini/policies/ralph.toml": "[[rule]]\ntoolName = \"*\"\ndecision = \"allow\"\npriority = 900\n" +
			"allowRedirection = true\n\n[[rule]]\ntoolName = [" + strings.Join(denied, ", ") +
			"]\ndecision = \"deny\"\npriority = 990\n",
	}
	return cmd, nil
}

// mountPackage makes the person's CLI visible in a container, where the image has
// to hold node: it is a script with its neighbours.
func mountPackage(c cli, cmd *Command, inv Invocation) error {
	if inv.Sandbox == SandboxLocal || c.path == "" {
		return c.mount(cmd, inv)
	}
	script, err := c.resolved()
	if err != nil {
		return err
	}
	dir := filepath.Dir(filepath.Dir(script)) // PACKAGE/bundle/gemini.js
	if info, err := os.Stat(filepath.Join(dir, "package.json")); err != nil || !info.Mode().IsRegular() {
		return &run.UserError{
			Message: fmt.Sprintf("%q does not lie in an installed package that can be mounted into a container", c.path),
			Hint:    "name the file bundle/gemini.js of the npm package " + c.pkg,
			Err:     err,
		}
	}
	target := mountDir + c.name
	program := []string{"node", target + filepath.ToSlash(strings.TrimPrefix(script, dir))}
	cmd.Argv, cmd.Version = append(program, cmd.Argv[1:]...), append(slices.Clone(program), "--version")
	cmd.Mounts = append(cmd.Mounts, Mount{Host: dir, Target: target})
	return nil
}
