package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// preset is an installed command line that speaks the Agent Client Protocol: all that
// has to be known of it is how it is started.
type preset struct {
	name string
	// pkg is the npm package that holds it, tried the version it was tried with.
	pkg, tried string
	// api is the model API that it speaks, key the variable that holds its key.
	api run.Provider
	key string
	// hides are the files of About.Hides.
	hides []string
	// node: what is installed is a script with its neighbours, and needs node.
	node bool
	// start gives the command line, its environment and the files of its home. It uses
	// the proxy, or else what the person's environment holds.
	start func(c cli, inv Invocation, proxied bool) (Command, error)
}

// presets are the agents by protocol that have a name.
var presets = []preset{
	{
		name: "gemini", pkg: "@google/gemini-cli", tried: "0.61.0", api: run.ProviderGoogle, key: "GEMINI_API_KEY",
		node: true, start: startGemini,
	},
	{
		name: "opencode", pkg: "opencode-ai", tried: "1.18.33", api: run.ProviderOpenAI, key: "OPENAI_API_KEY",
		// The CLI imports the plugins that these name, whatever it is told:
		// OPENCODE_PURE and OPENCODE_DISABLE_PROJECT_CONFIG do not keep it.
		hides: []string{".opencode", "opencode.json", "opencode.jsonc"}, start: startOpencode,
	},
	{
		name: "copilot", pkg: "@github/copilot", tried: "1.0.102", api: run.ProviderOpenAI,
		// Over the protocol the CLI trusts the work tree, and runs what these name.
		hides: []string{".github/hooks", ".github/copilot"}, start: startCopilot,
	},
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
	cmd.HomeFiles = map[string]string{
		// With a base address the CLI picks a type of authentication that it then refuses,
		// and it would not start in a directory that it does not trust.
		".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":false}},` +
			`"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},` +
			`"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false}}`,
		".gemini/policies/ralph.toml": "[[rule]]\ntoolName = \"*\"\ndecision = \"allow\"\npriority = 900\n" +
			"allowRedirection = true\n\n[[rule]]\ntoolName = " + quoted(denied) + "\ndecision = \"deny\"\npriority = 990\n",
	}
	return cmd, nil
}

func startOpencode(c cli, inv Invocation, proxied bool) (Command, error) {
	if err := c.needModel(inv); err != nil {
		return Command{}, err
	}
	cmd := Command{
		Argv: []string{c.binary(), "acp"},
		Env: map[string]string{
			// What it would otherwise fetch at each start.
			"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
			"OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
		},
	}
	// Of its rules the last that fits counts, and they are written in the order
	// of their names: "*" comes first.
	permission := object{"*": "allow"}
	for _, tool := range inv.DenyTools {
		permission[tool] = "deny"
	}
	model := presetProvider + "/" + inv.Model
	cmd.Env["OPENCODE_CONFIG_CONTENT"] = quoted(object{
		"provider": object{presetProvider: object{
			"npm": "@ai-sdk/openai-compatible", "name": presetProvider,
			// The CLI puts the variable's value there.
			"options": object{"baseURL": c.openAI(&cmd, inv, proxied), "apiKey": "{env:OPENAI_API_KEY}"}, //nolint:gosec // G101: the name of a variable
			"models":  object{inv.Model: object{"name": inv.Model}},
		}},
		"model": model, "small_model": model, "permission": permission, "share": "disabled", "autoupdate": false,
	})
	return cmd, nil
}

// startCopilot has the GitHub Copilot CLI work offline behind the proxy, with the proxy as
// its model provider and without an account; by itself it needs one.
func startCopilot(c cli, inv Invocation, proxied bool) (Command, error) {
	own := !proxied && c.env("COPILOT_PROVIDER_BASE_URL") == "" // GitHub's own models
	if !own {
		if err := c.needModel(inv); err != nil {
			return Command{}, err
		}
	}
	cmd := Command{
		Argv: []string{
			c.binary(), "--acp", "--no-color", "--log-level", "none",
			// The sandbox is the border, not a dialogue nobody would answer.
			"--allow-all", "--no-ask-user", "--no-auto-update", "--no-remote", "--disable-builtin-mcps",
		},
		Env: map[string]string{},
	}
	if len(inv.DenyTools) > 0 {
		cmd.Argv = append(cmd.Argv, "--excluded-tools="+strings.Join(inv.DenyTools, ","))
	}
	if inv.Model != "" {
		cmd.Env["COPILOT_MODEL"] = inv.Model
	}
	if !own {
		cmd.Env["COPILOT_OFFLINE"] = "true"
		if strings.HasPrefix(inv.Model, "gpt-5") {
			// These think between calls only there.
			cmd.Env["COPILOT_PROVIDER_WIRE_API"] = "responses"
		}
	}
	if proxied {
		cmd.Env["COPILOT_PROVIDER_BASE_URL"], cmd.Env["COPILOT_PROVIDER_API_KEY"] = inv.BaseURL+"/v1", inv.Token
	} else {
		// Never GH_TOKEN or GITHUB_TOKEN, which it would take as well.
		cmd.PassEnv = []string{
			"COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE",
			"COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN",
		}
	}
	return cmd, nil
}

// presetProvider is the name that presets give to a provider of their own.
const presetProvider = "ralph"

// byPreset is the back end of a preset.
type byPreset struct {
	cli
	preset

	// self is the path of our own binary, which holds the client.
	self string
}

// backend is the preset on an installation.
func (p preset) backend(c cli, self string) Backend {
	c.pkg, c.tried, c.apis = p.pkg, p.tried, []run.Provider{p.api}
	if p.key != "" {
		c.keys = []string{p.key}
	}
	return byPreset{cli: c, preset: p, self: self}
}

// About implements Backend.
func (b byPreset) About() About {
	about := b.cli.About()
	about.Hides = b.hides
	return about
}

// Command implements Backend.
func (b byPreset) Command(inv Invocation) (Command, error) {
	proxied, err := b.proxied(inv)
	if err != nil {
		return Command{}, err
	}
	cmd, err := b.start(b.cli, inv, proxied)
	if err != nil {
		return Command{}, err
	}
	if b.node && inv.Sandbox != SandboxLocal && b.path != "" {
		err = b.mountScript(&cmd)
	} else {
		err = b.mount(&cmd, inv)
	}
	if err != nil {
		return Command{}, err
	}
	if inv.Sandbox == SandboxLocal {
		cmd.Programs = cmd.Argv[:1]
	}
	words := make([]string, len(cmd.Argv))
	for i, word := range cmd.Argv {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return cmd, client(&cmd, b.self, "exec "+strings.Join(words, " "), inv)
}

// mountScript makes the person's CLI visible in a container, where the image has to hold
// node: it is a script with its neighbours.
func (c cli) mountScript(cmd *Command) error {
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

// NewParser implements Backend.
func (b byPreset) NewParser(emit func(Activity)) Parser { return newACPFeed(emit) }
