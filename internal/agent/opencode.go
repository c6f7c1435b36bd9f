package agent

import (
	"encoding/json"
	"fmt"

	"github.com/org/ralph-action/internal/run"
)

// opencode is the opencode CLI.
func opencode(c cli, self string) Backend {
	c.pkg, c.tried, c.apis = "opencode-ai", "1.18.33", []run.Provider{run.ProviderOpenAI}
	c.keys = []string{"OPENAI_API_KEY"}
	// The CLI imports the plugins that these name, whatever it is told:
	// OPENCODE_PURE and OPENCODE_DISABLE_PROJECT_CONFIG do not keep it.
	hides := []string{".opencode", "opencode.json", "opencode.jsonc"}
	return preset{cli: c, self: self, hides: hides, start: startOpencode, mount: cli.mount}
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
	base := c.openAI(&cmd, inv, proxied)
	type object = map[string]any
	// Of its rules the last that fits counts, and they are written in the order
	// of their names: "*" comes first.
	permission := object{"*": "allow"}
	for _, tool := range inv.DenyTools {
		permission[tool] = "deny"
	}
	config, err := json.Marshal(object{
		"provider": object{presetProvider: object{
			"npm": "@ai-sdk/openai-compatible", "name": presetProvider,
			// The CLI puts the variable's value there.
			"options": object{"baseURL": base, "apiKey": "{env:OPENAI_API_KEY}"}, //nolint:gosec // G101: the name of a variable
			"models":  object{inv.Model: object{"name": inv.Model}},
		}},
		"model": presetProvider + "/" + inv.Model, "small_model": presetProvider + "/" + inv.Model,
		"permission": permission, "share": "disabled", "autoupdate": false,
	})
	if err != nil {
		return Command{}, fmt.Errorf("configuration of agent opencode: %w", err)
	}
	cmd.Env["OPENCODE_CONFIG_CONTENT"] = string(config)
	return cmd, nil
}
