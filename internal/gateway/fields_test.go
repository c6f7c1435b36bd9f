package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

const (
	messagesPath  = "/v1/messages"
	countPath     = "/v1/messages/count_tokens"
	responsesPath = "/v1/responses"
	chatPath      = "/v1/chat/completions"
	generatePath  = "/v1beta/models/gemini-2.5-pro:generateContent"
	countGemini   = "/v1beta/models/gemini-2.5-pro:countTokens"
)

// refusedFields fetch, run, store, look up, bill elsewhere or take another model.
// says is the field that the message names.
var refusedFields = []struct{ path, body, says string }{
	// Of the APIs themselves.
	{messagesPath, `{"model":"m","mcp_servers":[{"url":"https://evil.example"}]}`, "mcp_servers"},
	{messagesPath, `{"model":"m","mcp_servers":null}`, "mcp_servers"},
	{messagesPath, `{"model":"m","container":{"skills":[]}}`, "container"},
	{messagesPath, `{"model":"m","fallbacks":[{"model":"dear"}]}`, "fallbacks"},
	{messagesPath, `{"model":"m","user_profile_id":"other"}`, "user_profile_id"},
	{messagesPath, `{"model":"m","compaction":{}}`, "compaction"},
	{messagesPath, `{"model":"m","context_management":{"edits":[{"type":"compact_20260112"}]}}`, "context_management.edits[0].type"},
	{messagesPath, `{"model":"m","messages":[{"content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]}`, "messages[0].content[0].source.type"},
	{messagesPath, `{"model":"m","messages":[{"content":[{"type":"image","source":{"type":"base64","url":"https://e"}}]}]}`, "messages[0].content[0].source.url"},
	{messagesPath, `{"model":"m","messages":[{"content":[{"type":"image","source":{"url":"https://e"}}]}]}`, "messages[0].content[0].source.url"},
	{messagesPath, `{"model":"m","messages":[{"content":[{"type":"container_upload","file_id":"f"}]}]}`, "messages[0].content[0].file_id"},
	{messagesPath, `{"model":"m","system":[{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url"}}]}}]}`, "system[0].source.content[0].source.type"},
	{messagesPath, `{"model":"m","tools":[{"name":"a","input_schema":{"properties":{"a":{"$ref":"https://evil.example"}}}}]}`, "tools[0].input_schema.properties.a.$ref"},
	{messagesPath, `{"model":"m","tools":[{"type":"mcp_toolset"}]}`, "tools[0].type"},
	{messagesPath, `{"model":"m","inference_geo":"us"}`, "inference_geo"},
	{messagesPath, `{"model":"m","service_tier":"priority"}`, "service_tier"},
	{responsesPath, `{"model":"m","input":[{"type":"item_reference","id":"msg_1"}]}`, "input[0].type"},
	{responsesPath, `{"model":"m","input":[{"content":[{"type":"input_file","file_id":"file-1"}]}]}`, "input[0].content[0].file_id"},
	{responsesPath, `{"model":"m","input":[{"content":[{"type":"input_image","file_id":"file-1"}]}]}`, "input[0].content[0].file_id"},
	{responsesPath, `{"model":"m","input":[{"output":[{"type":"input_image","image_url":"https://e"}]}]}`, "input[0].output[0].image_url"},
	{responsesPath, `{"model":"m","input":[{"id":"msg_1"}]}`, "input[0]"},
	{responsesPath, `{"model":"m","store":"false"}`, "store"},
	{responsesPath, `{"model":"m","store":null}`, "store"},
	{responsesPath, `{"model":"m","prompt":{"id":"p"}}`, "prompt"},
	{responsesPath, `{"model":"m","conversation":"c"}`, "conversation"},
	{responsesPath, `{"model":"m","store":true}`, "store"},
	{responsesPath, `{"model":"m","store":1}`, "store"},
	{responsesPath, `{"model":"m","background":"true"}`, "background"},
	{responsesPath, `{"model":"m","prompt_cache_retention":"24h"}`, "prompt_cache_retention"},
	{responsesPath, `{"model":"m","context_management":[{"type":"compaction"}]}`, "context_management"},
	{responsesPath, `{"model":"m","tools":[{"type":"function","server_url":"https://e"}]}`, "tools[0].server_url"},
	{responsesPath, `{"model":"m","tools":[{"type":"namespace","tools":[{"type":"code_interpreter"}]}]}`, "tools[0].tools[0].type"},
	{chatPath, `{"model":"m","messages":[{"content":[{"type":"file","file":{"file_id":"f"}}]}]}`, "messages[0].content[0].file.file_id"},
	{chatPath, `{"model":"m","messages":[{"content":[{"type":"input_audio","input_audio":{"data":"AA"}}]}]}`, "messages[0].content[0].input_audio"},
	{chatPath, `{"model":"m","messages":[{"content":[{"type":"image_url","image_url":"https://e"}]}]}`, "messages[0].content[0].image_url"},
	{chatPath, `{"model":"m","messages":[{"audio":{"id":"a"}}]}`, "messages[0].audio"},
	{chatPath, `{"model":"m","modalities":["text","audio"]}`, "modalities[1]"},
	{chatPath, `{"model":"m","store":true}`, "store"},
	{chatPath, `{"model":"m","response_format":{"json_schema":{"schema":{"$ref":"file:///etc"}}}}`, "response_format.json_schema.schema.$ref"},
	{generatePath, `{"model":"models/gemini-ultra"}`, "model"},
	{generatePath, `{"contents":[{"parts":[{"fileData":{"fileUri":"https://e"}}]}]}`, "contents[0].parts[0].fileData"},
	{generatePath, `{"contents":[{"parts":[{"functionResponse":{"parts":[{"file_data":{}}]}}]}]}`, "contents[0].parts[0].functionResponse.parts[0].file_data"},
	{generatePath, `{"contents":[{"parts":[{"inline_data":{"mime_type":"audio/wav","data":"AA"}}]}]}`, "contents[0].parts[0].inline_data.mime_type"},
	{generatePath, `{"tools":[{"urlContext":{}}]}`, "tools[0].urlContext"},
	{generatePath, `{"tools":[{"codeExecution":{}}]}`, "tools[0].codeExecution"},
	{generatePath, `{"generationConfig":{"responseModalities":["IMAGE"]}}`, "generationConfig.responseModalities[0]"},
	{generatePath, `{"generation_config":{"routing_config":{}}}`, "generation_config.routing_config"},
	{generatePath, `{"service_tier":"priority"}`, "service_tier"},
	{generatePath, `{"store":true}`, "store"},
	{generatePath, `{"contents":[],"contents":[]}`, "contents"},
	{generatePath, `{"safety_settings":[],"safetySettings":[]}`, "safetySettings"},
	{generatePath, `{"contents":[{"parts":[{"functionCall":{"args":{"a":{"b":1,"b":2}}}}]}]}`, "contents[0].parts[0].functionCall.args.a.b"},
	{responsesPath, `{"model":"m","input":[{"role":"assistant","id":"msg_1"}]}`, "input[0]"},
	{responsesPath, `{"model":"m","input":[{"t_ype":"message","id":"msg_1"}]}`, "input[0].t_ype"},
	{responsesPath, `{"model":"m","input":[{"role":"user","content":[{"type":"item_reference","id":"msg_1"}]}]}`, "input[0].content[0].type"},
	{responsesPath, `{"model":"m","input":[{"type":"function_call_output","output":[{"type":"item_reference","id":"msg_1"}]}]}`, "input[0].output[0].type"},
	{generatePath, `{"contents":[{"parts":[{"inlineData":{"data":"AA"}}]}]}`, "contents[0].parts[0].inlineData"},
	{generatePath, `{"contents":[{"parts":[{"inlineData":{"data":"AA","mimetype":"image/png"}}]}]}`, "contents[0].parts[0].inlineData.mimetype"},
	// Of gateways that speak them.
	{chatPath, `{"model":"m","search_parameters":{"mode":"on"}}`, "search_parameters"},
	{chatPath, `{"model":"m","enable_search":true}`, "enable_search"},
	{chatPath, `{"model":"m","search_options":{}}`, "search_options"},
	{chatPath, `{"model":"m","search_settings":{}}`, "search_settings"},
	{chatPath, `{"model":"m","compound_custom":{}}`, "compound_custom"},
	{chatPath, `{"model":"m","documents":[]}`, "documents"},
	{chatPath, `{"model":"m","citation_options":"enabled"}`, "citation_options"},
	{chatPath, `{"model":"m","fallbacks":["dear"]}`, "fallbacks"},
	{chatPath, `{"model":"m","api_base":"https://evil.example"}`, "api_base"},
	{chatPath, `{"model":"m","base_url":"https://evil.example"}`, "base_url"},
	{chatPath, `{"model":"m","api_key":"k"}`, "api_key"},
	{chatPath, `{"model":"m","user_config":{"model_list":[]}}`, "user_config"},
	{chatPath, `{"model":"m","models":["dear"]}`, "models"},
	{chatPath, `{"model":"m","plugins":[{"id":"web"}]}`, "plugins"},
	{chatPath, `{"model":"m","provider":{"order":["dear"]}}`, "provider"},
	{chatPath, `{"model":"m","route":"fallback"}`, "route"},
	{chatPath, `{"model":"m","extra_body":{}}`, "extra_body"},
	{chatPath, `{"model":"m","extra_headers":{"Authorization":"x"}}`, "extra_headers"},
	{chatPath, `{"model":"m","stream_options":{"include_usage":false},"stream":true}`, "stream_options has no include_usage: true:"},
	{messagesPath, `{"model":"m","models":["dear"]}`, "models"},
	// Of nobody.
	{messagesPath, `{"model":"m","MODEL":"dear"}`, "MODEL"},
	{messagesPath, `{"model":"m","new_feature":{"source_url":"https://e"}}`, "new_feature.source_url"},
	{messagesPath, `{"model":"m","new_feature":{"MCP_servers":[]}}`, "new_feature.MCP_servers"},
	{messagesPath, `{"model":"m","mcpservers":[]}`, "mcpservers"},
	{generatePath, `{"tools":[{"filesearch":{}}]}`, "tools[0].filesearch"},
	{messagesPath, `{"model":"m","":1}`, `""`},
	// What a provider takes for nothing, and we could take for what we need.
	{responsesPath, `{"model":"gpt-5","s_tore":false}`, "s_tore"},
	{responsesPath, `{"model":"gpt-5","maxoutputtokens":1}`, "maxoutputtokens"},
	{chatPath, `{"m_odel":"gpt-5-mini"}`, "m_odel"},
	{chatPath, `{"model":"m","stream":true,"streamoptions":{"include_usage":true}}`, "streamoptions"},
	{chatPath, `{"model":"m","stream":true,"stream_options":{"includeusage":true}}`, "stream_options.includeusage"},
	{chatPath, `{"model":"m","stream_":true}`, "stream_"},
	{chatPath, `{"model":"m","maxtokens":1}`, "maxtokens"},
	{messagesPath, `{"model":"m","max__tokens":1}`, "max__tokens"},
	{messagesPath, `{"model":"m","messages":[{"content":[{"in_put":{"source":{"url":"x"}}}]}]}`, "messages[0].content[0].in_put"},
	{generatePath, `{"generationconfig":{"maxOutputTokens":1}}`, "generationconfig"},
	{generatePath, `{"generationConfig":{"m_ax_output_tokens":1}}`, "generationConfig.m_ax_output_tokens"},
}

// providerOf is whose API has a path.
func providerOf(path string) run.Provider {
	switch {
	case strings.HasPrefix(path, "/v1beta"):
		return run.ProviderGoogle
	case strings.HasPrefix(path, messagesPath):
		return run.ProviderAnthropic
	default:
		return run.ProviderOpenAI
	}
}

func post(t *testing.T, tr trial, path, body string) answer {
	t.Helper()
	return do(t, request(t, http.MethodPost, tr.url+path, strings.NewReader(body), "Authorization", "Bearer "+runToken))
}

// Attack: fields that reach further than an answer. Each is refused by its name, with
// what to do, and never sent.
func TestFieldsWithReachAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range refusedFields {
		p := providerOf(tt.path)
		u := &upstream{}
		tr := try(t, u, p, 5, nil)
		resp := post(t, tr, tt.path, tt.body)
		if resp.status != http.StatusBadRequest || !strings.Contains(strings.ReplaceAll(resp.body, `\`, ``),
			strings.ReplaceAll(tt.says, `\`, ``)+" ") || len(u.requests()) != 0 {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, resp.status, resp.body)
		}
		if r := tr.report(t); len(r.Refused) != 1 || len(r.Models) != 0 {
			t.Errorf("%s: report %+v", tt.body, r)
		}
	}
}

// Attack: a call that counts tokens has the provider fetch what it is given.
func TestFreeCallsAreCheckedLikePaidOnes(t *testing.T) {
	t.Parallel()
	tested := 0
	for _, tt := range refusedFields {
		path := map[string]string{messagesPath: countPath, generatePath: countGemini}[tt.path]
		if path == "" {
			continue
		}
		tested++
		u := &upstream{}
		if resp := post(t, try(t, u, providerOf(path), 5, nil), path, tt.body); resp.status != http.StatusBadRequest ||
			len(u.requests()) != 0 {
			t.Errorf("%s %s: %d %s", path, tt.body, resp.status, resp.body)
		}
	}
	if tested < 20 {
		t.Errorf("%d are tested", tested)
	}
	for path, body := range map[string]string{
		countPath: `{"model":"claude-sonnet-4-5","messages":[]}`, countGemini: `{"contents":[{"parts":[{"text":"a"}]}]}`,
	} {
		u := &upstream{}
		tr := try(t, u, providerOf(path), 5, nil)
		if resp := post(t, tr, path, body); resp.status != http.StatusOK || u.bodies[0] != body || len(tr.report(t).Models) != 0 {
			t.Errorf("%s: %d %s, sent %q, report %+v", path, resp.status, resp.body, u.bodies, tr.report(t))
		}
	}
}
