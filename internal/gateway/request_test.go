package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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

// refusedRequests fetch, run, store, look up, bill elsewhere, take another model, or can be
// read in two ways. says is what the message names, up to a blank.
var refusedRequests = []struct{ path, body, says string }{
	// Of the APIs themselves.
	{messagesPath, `{"model":"m","context_management":{"edits":[{"type":"compact_20260112"}]}}`, "context_management.edits[0].type"},
	{messagesPath, `{"model":"m","messages":[{"content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]}`, "messages[0].content[0].source.type"},
	{messagesPath, `{"model":"m","messages":[{"content":[{"type":"image","source":{"type":"base64","url":"https://e"}}]}]}`, "messages[0].content[0].source.url"},
	{messagesPath, `{"model":"m","messages":[{"content":[{"type":"image","source":{"url":"https://e"}}]}]}`, "messages[0].content[0].source.url"},
	{messagesPath, `{"model":"m","messages":[{"content":[{"type":"container_upload","file_id":"f"}]}]}`, "messages[0].content[0].file_id"},
	{messagesPath, `{"model":"m","system":[{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url"}}]}}]}`, "system[0].source.content[0].source.type"},
	{messagesPath, `{"model":"m","tools":[{"name":"a","input_schema":{"properties":{"a":{"$ref":"https://evil.example"}}}}]}`, "tools[0].input_schema.properties.a.$ref"},
	{messagesPath, `{"model":"m","tools":[{"type":"mcp_toolset"}]}`, "tools[0].type"},
	{messagesPath, `{"model":"m","service_tier":"priority"}`, "service_tier"},
	{responsesPath, `{"model":"m","input":[{"type":"item_reference","id":"msg_1"}]}`, "input[0].type"},
	{responsesPath, `{"model":"m","input":[{"content":[{"type":"input_file","file_id":"file-1"}]}]}`, "input[0].content[0].file_id"},
	{responsesPath, `{"model":"m","input":[{"content":[{"type":"input_image","file_id":"file-1"}]}]}`, "input[0].content[0].file_id"},
	{responsesPath, `{"model":"m","input":[{"output":[{"type":"input_image","image_url":"https://e"}]}]}`, "input[0].output[0].image_url"},
	{responsesPath, `{"model":"m","input":[{"id":"msg_1"}]}`, "input[0]"},
	{responsesPath, `{"model":"m","store":"false"}`, "store"},
	{responsesPath, `{"model":"m","store":null}`, "store"},
	{responsesPath, `{"model":"m","store":true}`, "store"},
	{responsesPath, `{"model":"m","store":1}`, "store"},
	{responsesPath, `{"model":"m","background":"true"}`, "background"},
	{responsesPath, `{"model":"m","prompt_cache_retention":"24h"}`, "prompt_cache_retention"},
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
	{chatPath, `{"model":"m","stream_options":{"include_usage":false},"stream":true}`, "stream_options has no include_usage: true:"},
	// Of nobody.
	{messagesPath, `{"model":"m","new_feature":{"source_url":"https://e"}}`, "new_feature.source_url"},
	{messagesPath, `{"model":"m","new_feature":{"MCP_servers":[]}}`, "new_feature.MCP_servers"},
	{generatePath, `{"tools":[{"filesearch":{}}]}`, "tools[0].filesearch"},
	{messagesPath, `{"model":"m","":1}`, `""`},
	// What a provider takes for nothing, and we could take for what we need.
	{responsesPath, `{"model":"gpt-5","s_tore":false}`, "s_tore"},
	{responsesPath, `{"model":"gpt-5","maxoutputtokens":1}`, "maxoutputtokens"},
	{chatPath, `{"model":"m","stream":true,"streamoptions":{"include_usage":true}}`, "streamoptions"},
	{chatPath, `{"model":"m","stream":true,"stream_options":{"includeusage":true}}`, "stream_options.includeusage"},
	{chatPath, `{"model":"m","stream_":true}`, "stream_"},
	{messagesPath, `{"model":"m","messages":[{"content":[{"in_put":{"source":{"url":"x"}}}]}]}`, "messages[0].content[0].in_put"},
	{generatePath, `{"generationConfig":{"m_ax_output_tokens":1}}`, "generationConfig.m_ax_output_tokens"},
	// Of what is not read as it stands.
	{messagesPath, `[]`, "not a JSON object"},
	{messagesPath, `null`, "not a JSON object"},
	{messagesPath, `{"model":`, "not a JSON object"},
	{chatPath, `{}`, "names no model:"},
	{chatPath, `{"model":["m"]}`, "names no model:"},
	{messagesPath, `{"Model":"m","max_tokens":1}`, "Model is not a field"},
	{messagesPath, `{"model":"m","max_tokens":1,"model":"dear"}`, "model is there twice:"},
	{messagesPath, `{"model":"m","max_tokens":5,"max_tokens":1000000}`, "max_tokens is there twice:"},
	{messagesPath, `{"model":"m","max_tokens":-5}`, "max_tokens is not a number"},
	{messagesPath, `{"model":"m","max_tokens":1e300}`, "max_tokens is not a number"},
	{messagesPath, `{"model":"m","max_tokens":"5"}`, "max_tokens is not a number"},
	{messagesPath, `{"model":"m","tools":[{"type":"custom","type":"web_fetch_20250910"}]}`, "tools[0].type is there twice:"},
	{messagesPath, `{"model":"m","messages":[{"content":[{"type":"tool_result","content":[{"type":"document","s\u006furce":{"type":"\u0075rl","url":"https://e"}}]}]}]}`, "messages[0].content[0].content[0].source.type"},
	{generatePath, `{"generationConfig":{"maxOutputTokens":1},"generation_config":{"maxOutputTokens":9}}`, "generation_config is there twice:"},
	{generatePath, `{"generationConfig":{"max_outputTokens":1}}`, "generationConfig.max_outputTokens"},
	{generatePath, `{"generationConfig":{"MAX_OUTPUT_TOKENS":1}}`, "generationConfig.MAX_OUTPUT_TOKENS"},
	// Of tools of the provider's, dearer answers and stored things.
	{messagesPath, `{"model":"m","tools":[{"name":"a"},{"type":"web_search_20250305"}]}`, "tools[1].type \"web_search_20250305\""},
	{responsesPath, `{"model":"m","service_tier":"priority"}`, "service_tier"},
	{responsesPath, `{"model":"m","tools":[{"type":"web_search"}]}`, "tools[0].type"},
	{responsesPath, `{"model":"m","tools":[{"type":"namespace","tools":[{"type":"mcp"}]}]}`, "tools[0].tools[0].type"},
	{responsesPath, `{"model":"m","background":true}`, "background"},
	{responsesPath, `{"model":"m","input":[{"content":[{"type":"input_file","file_url":"https://e"}]}]}`, "input[0].content[0].file_url"},
	{chatPath, `{"model":"m","messages":[{"content":[{"type":"image_url","image_url":{"url":"HTTPS://e"}}]}]}`, "messages[0].content[0].image_url.url"},
	{chatPath, `{"model":"m","n":1000}`, "n"},
	{generatePath, `{"tools":[{"google_search":{}}]}`, "tools[0].google_search"},
	// Of names that are more than the name of a model to whoever stands behind the endpoint.
	{chatPath, `{"model":"gpt-5-pro,x/gpt-5"}`, "does not look like"}, // LiteLLM asks both
	{chatPath, `{"model":"gpt-5\u202e"}`, "does not look like"},
	{chatPath, `{"model":"gpt-5 "}`, "does not look like"},
	{chatPath, `{"model":"gpt-5\u0000"}`, "does not look like"},
	{chatPath, `{"model":"a/../../gpt-5"}`, "does not look like"},
	{chatPath, `{"model":"gpt-5?key=x"}`, "does not look like"},
	{chatPath, `{"model":"x#/gpt-5"}`, "does not look like"},
	{chatPath, `{"model":"x%2f/gpt-5"}`, "does not look like"},
	{chatPath, `{"model":"https://evil.example?/gpt-5"}`, "does not look like"},
	{chatPath, `{"model":"openai/gpt-5:online"}`, `"openai/gpt-5:online" is not allowed`},
}

// refusedFields are fields that no API has, or that reach further than an answer, by path.
var refusedFields = map[string]string{
	messagesPath: "mcp_servers container fallbacks user_profile_id compaction inference_geo models MODEL " +
		"mcpservers max__tokens speed",
	chatPath: "search_parameters enable_search search_options search_settings compound_custom documents " +
		"citation_options fallbacks api_base base_url api_key user_config models plugins provider " +
		"route extra_body extra_headers m_odel maxtokens web_search_options",
	responsesPath: "prompt conversation context_management previous_response_id",
	generatePath:  "generationconfig cached_content",
}

func post(t *testing.T, tr trial, path, body string) answer {
	t.Helper()
	return do(t, request(t, http.MethodPost, tr.url+path, strings.NewReader(body), "Authorization", "Bearer "+runToken))
}

// inspected is what a body on that path is read as.
func inspected(t *testing.T, path, body string) (asked, error) {
	t.Helper()
	c, ok := route(request(t, http.MethodPost, path, nil))
	if !ok {
		t.Fatal(path)
	}
	return inspect(c, []byte(body))
}

// Attack: requests that reach further than an answer. Each is refused by the name of its
// field, with what to do; so it is in a call that costs nothing.
func TestFieldsWithReachAreRefused(t *testing.T) {
	t.Parallel()
	refused := slices.Clone(refusedRequests)
	for path, names := range refusedFields {
		for name := range strings.FieldsSeq(names) {
			body := fmt.Sprintf(`{"model":"m",%q:{}}`, name)
			if path == generatePath { // which has the model in its path
				body = fmt.Sprintf(`{%q:{}}`, name)
			}
			refused = append(refused, struct{ path, body, says string }{path, body, name})
		}
	}
	for _, tt := range refused {
		free := map[string]string{messagesPath: countPath, generatePath: countGemini}[tt.path]
		for _, path := range []string{tt.path, free} {
			if path == "" || path == free && strings.Contains(tt.says, "not a number") {
				continue
			}
			_, err := inspected(t, path, tt.body)
			if _, ok := errors.AsType[refusal](err); !ok || !strings.Contains(err.Error()+" ", tt.says) || len(err.Error()) > 1000 {
				t.Errorf("%s %s: %v", path, tt.body, err)
			}
		}
	}
	for path, body := range map[string]string{
		countPath: `{"model":"claude-sonnet-4-5","messages":[]}`, countGemini: `{"contents":[{"parts":[{"text":"a"}]}]}`,
		chatPath: `{"model":"@org/gpt-5"}`, responsesPath: `{"model":"openai/gpt-5"}`,
	} {
		if _, err := inspected(t, path, body); (err != nil) != strings.Contains(body, "@") {
			t.Errorf("%s %s: %v", path, body, err)
		}
	}
}

// A request is sent as it came, but that the provider does not keep it, and tells what a
// chat used. One whose answer breaks off is charged the output that it asked for.
func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, body, insert string
		output             int64
	}{
		{responsesPath, `{"model":"gpt-5","input":"é\n"}`, `"store":false,`, defaultOutput},
		{responsesPath, ` {"model":"gpt-5","max_output_tokens":5,"store":false}`, ``, 5},
		{responsesPath, `{"max_output_tokens":0e5,"store":false,"model":"gpt-5"}`, ``, defaultOutput},
		{chatPath, `{"model":"gpt-5","stream":true,"stream_options":{"include_usage":true,"include_obfuscation":true},"max_tokens":null}`, ``, defaultOutput},
		{chatPath, `{"max_tokens":7,"model":"gpt-5","stream":true}`, `"stream_options":{"include_usage":true},`, 7},
		{chatPath, `{"model":"gpt-5","max_tokens":7,"max_completion_tokens":0}`, ``, 7},
		{messagesPath, `{"model":"claude-sonnet-4-5","max_tokens":null}`, ``, defaultOutput},
		{messagesPath, `{"model":"claude-sonnet-4-5","max_tokens":-0.0}`, ``, defaultOutput},
		{generatePath, `{}`, ``, defaultOutput},
		{generatePath, `{"generation_config":{"max_output_tokens":0}}`, ``, defaultOutput},
		{generatePath, `{"tools":[{"functionDeclarations":[{"name":"a"}]}],"generationConfig":{"maxOutputTokens":5}}`, ``, 5},
		// What looks like a link and is none.
		{messagesPath, `{"max_tokens":7,"messages":[{"content":"{\"type\":\"url\"} \u0041"},{"content":[{"type":"tool_use","input":{"source":{"type":"url","url":"x"}}}]}],"model":"claude-sonnet-4-5"}`, ``, 7},
		{messagesPath, `{"model":"claude-sonnet-4-5","max_tokens":7,"tools":[{"name":"a","input_schema":{}},{"type":"bash_20250124","name":"bash"}]}`, ``, 7},
		{chatPath, `{"max_tokens":7,"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,AA"}}]}],"model":"gpt-5"}`, ``, 7},
	} {
		a, err := inspected(t, tt.path, tt.body)
		if err != nil {
			t.Fatalf("%s: %v", tt.body, err)
		}
		sent, err := io.ReadAll(a.sent())
		if want := strings.Replace(tt.body, "{", "{"+tt.insert, 1); string(sent) != want || err != nil || a.Output != tt.output {
			t.Errorf("%s became\n%s with %d, %v", tt.body, sent, a.Output, err)
		}
	}
}

// anything reads a body of which everything is allowed that is no ambiguity.
func anything(body string) error {
	r := reader{api: join("", "", true)}
	return r.read([]byte(body))
}

// Attack: a body that is small on the wire, and takes long or much memory to read.
func TestHostileRequestsAreBounded(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	many := func(item string, n int) string { return strings.Repeat(item+",", n) }
	for name, tt := range map[string]struct{ body, says string }{
		"objects":        {`{"model":"m","messages":[` + many(`{"a":0}`, maxValues/2) + `{}]}`, "more than 500000 values"},
		"lists":          {`{"model":"m","max_tokens":1,"messages":[` + many(`[]`, maxValues) + `[]]}`, "more than 500000 values"},
		"numbers":        {`{"model":"m","max_tokens":1,"top_k":[` + many(`1`, maxValues/2) + `1]}`, ""},
		"data":           {`{"model":"m","max_tokens":1,"metadata":{"a":[` + many(`{"":0}`, maxValues) + `1]}}`, "more than 500000 values"},
		"depth":          {`{"model":` + strings.Repeat(`[`, size), "malformed"},
		"deep lists":     {`{"messages":` + strings.Repeat(`[`, 500) + strings.Repeat(`]`, 500) + `}`, "nests deeper"},
		"deep objects":   {`{"tools":{"input_schema":` + strings.Repeat(`{"a":`, 500) + `0` + strings.Repeat(`}`, 500) + `}}`, "nests deeper"},
		"one long name":  {`{"` + strings.Repeat("n", size) + `":{"url":0}}`, "is not allowed here"},
		"escapes":        {`{"model":"` + strings.Repeat(`\u0061`, size/6) + `"}`, "does not look like the name of a model"},
		"escaped choice": {`{"tools":{"type":"` + strings.Repeat(`\u0061`, size/6) + `"}}`, "is not allowed here"},
		"one text":       {`{"model":"m","max_tokens":1,"system":"` + strings.Repeat("x", size) + `"}`, ""},
		"spaces":         {strings.Repeat(" ", size) + `{}`, "names no model"},
	} {
		_, err := inspect(call{provider: run.ProviderAnthropic, form: formMessages}, []byte(tt.body))
		if said := fmt.Sprint(err); (tt.says == "") != (err == nil) || !strings.Contains(said, tt.says) || len(said) > 1000 {
			t.Errorf("%s: %.300s", name, said)
		}
	}
}

// What two readers of JSON could understand in two ways is refused, at any depth.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"a":1,"a":1}`, `{"a":1,"b":2,"a":1}`, `{"a":{"b":[{"c":1,"c":2}]}}`, `{"a":1,"\u0061":2}`, `{"":0,"":0}`,
		`{"\ud800":1,"\ud801":2}`, "{\"a\xff\":1}", "{\"a\":\"\xc0\xaf\"}", "\xef\xbb\xbf{}", `{"a":1}{"a":2}`, `{"a":1}]`,
		`{"a":1,}`, `{,}`, `{"a" 1}`, `{"a":}`, `{a:1}`, `{'a':1}`, `{"a":[1,]}`, `{"a":[1 2]}`, `{"a":01}`, `{"a":-}`,
		`{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":NaN}`, `{"a":Infinity}`, `{"a":True}`, `{"a":nul}`,
		"{\"a\":\"\n\"}", `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\u12"}`, `{"a":"`, `{"a`, `{`, ``, ` `, `[]`, `null`, `"a"`,
		`/**/{}`, `{"a":1/**/}`, "{\"a\":1\x00}", "{\u00a0}", `{"a":1e5,"b":{"x":1,"y":2,"x":3}}`, `{"a_b":1,"aB":1}`,
	} {
		if err := anything(body); err == nil {
			t.Errorf("%q passed", body)
		} else if _, ok := errors.AsType[refusal](err); !ok {
			t.Errorf("%q: %v is no refusal", body, err)
		}
	}
	for _, body := range []string{
		`{}`, " {\t\"a\" : [ 1 , -0 , 0.5e+3 , 1E-2 ] , \"b\" : { } }\r\n", `{"a":{"a":{"a":[{"a":1},{"a":1}]}}}`,
		`{"a":true,"b":false,"c":null,"d":"\"\\\/\b\f\n\r\t\u00e9é\ud83d\ude00\ud83d"}`,
	} {
		if err := anything(body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// FuzzInspect: what passes is sound JSON, and what is sent passes as it is.
func FuzzInspect(f *testing.F) {
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no recordings", err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for kind := range uint8(4) {
			f.Add(body, kind)
		}
	}
	for _, tt := range refusedRequests {
		f.Add([]byte(tt.body), uint8(0))
	}
	f.Add([]byte(`{"model":"m","stream":true,"a":1,"\u0061":"\ud83d"}`), uint8(2))
	f.Add([]byte(`{"generation_config":{ },"a":[1e5,-0.1,{"a":{"b":null}}]}`), uint8(3))
	f.Fuzz(func(t *testing.T, body []byte, kind uint8) {
		c := call{form: form(kind % 4), provider: run.ProviderOpenAI}
		if c.form == formGenerate {
			c.model = "m"
		}
		a, err := inspect(c, body)
		if err != nil {
			if _, ok := errors.AsType[refusal](err); !ok || len(err.Error()) > 1000 {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		sent, err := io.ReadAll(a.sent())
		if err != nil || int64(len(sent)) != a.size() || !json.Valid(sent) {
			t.Fatalf("%q became %q, %v", body, sent, err)
		}
		again, err := inspect(c, sent)
		if err != nil || again.insert != "" || again.Output != a.Output || again.Model != a.Model {
			t.Fatalf("%q became %q, and that %+v, %v", body, sent, again, err)
		}
	})
}

// What the agents' programs send passes. The recordings are of real ones, with their
// texts cut.
func TestRequestsOfAgentsPass(t *testing.T) {
	t.Parallel()
	for agent, path := range map[string]string{
		"claude": "/v1/messages", "codex": "/v1/responses", "copilot": "/v1/responses", "opencode": "/v1/chat/completions",
		"gemini": "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
	} {
		body, err := os.ReadFile(filepath.Join("testdata", "requests", agent+".json"))
		if err != nil {
			t.Fatal(err)
		}
		c, ok := route(request(t, "POST", path, nil))
		if !ok {
			t.Fatal(path)
		}
		if a, err := inspect(c, body); err != nil || a.Output == 0 {
			t.Errorf("%s: %+v, %v", agent, a.Request, err)
		}
	}
}
