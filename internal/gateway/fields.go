package gateway

import (
	"strings"
	"sync"
)

// rule says what a field of a request may hold. A list may hold what each of its
// values may be.
type rule struct {
	// values are the values that it may have, as patterns of spend.Match; none means
	// that the field may not be there.
	values []string
	// object: it may be an object, too.
	object bool
	// why says what is wrong with others.
	why string
}

const (
	whyAway  = "the provider would fetch, run or look up something outside of the request; send the content itself"
	whyTool  = "it would run at the provider, outside of the sandbox; use a tool that the agent runs"
	whyPrice = "it costs more than is counted; leave it out"
	whyStore = "the provider would keep it; leave it out"
	whyOther = "it would choose another model, account or place than the operator's; leave it out"
)

// only is a field that has one of the values in a list.
func only(values, why string) rule { return rule{values: strings.Fields(values), why: why} }

// never are fields, in one text, that may not be there.
func never(names, why string) map[string]rule {
	out := map[string]rule{}
	for name := range strings.FieldsSeq(names) {
		out[name] = rule{why: why}
	}
	return out
}

// rules are those of one API, by the names of fields: "name" for one at any depth,
// "parent.name" for one in that, ".name" for one at the top. What no rule is for passes.
// Rules are for what gives reach: what a provider would fetch, run, look up or store,
// and what bills what is not counted or takes another model.
type rules struct {
	fields map[string]rule
	// data are the fields whose content is for the model or for a tool alone, and schemas
	// those that hold a JSON schema: the names in them mean nothing to the API.
	data, schemas map[string]bool
	// names are those that decide, by their normal form: whatever else a provider ignores,
	// no other spelling may stand for one of them.
	names map[string]string
	// camel: the API takes a_name for aName, as protocol buffers do.
	camel bool
}

// join makes the rules of an API; those that come later go before those that all have.
func join(data, schemas string, camel bool, more ...map[string]rule) *rules {
	r := &rules{
		fields: map[string]rule{}, data: map[string]bool{}, schemas: map[string]bool{}, names: map[string]string{}, camel: camel,
	}
	for name := range strings.FieldsSeq(readFields + " " + data + " " + schemas) {
		r.names[normal(name)] = name
	}
	for _, some := range append([]map[string]rule{
		never(".mcp_servers .previous_response_id .conversation .prompt .web_search_options .data_sources .cached_content "+
			".compaction .retrieval .search_parameters .search_options .search_settings .enable_search .compound_custom "+
			".documents .citation_options container container_id vector_store_ids", whyAway),
		never(".models .fallbacks .route .router .preset .provider .providers .plugins .transforms .api_base .api_key "+
			".api_version .organization .user_config .user_profile_id .model_list .custom_llm_provider .extra_body "+
			".extra_headers .extra_query .guardrails routing_config model_config", whyOther),
		never("audio input_audio speech_config image_config", whyPrice),
		{
			".store": only("false", whyStore), ".prompt_cache_retention": only("in-memory in_memory null", whyStore),
			".background":   only("false null", "the answer would come by another way; leave it out"),
			".service_tier": only("auto default flex standard_only null", whyPrice), ".speed": only("standard null", whyPrice),
			".inference_geo": only("global not_available null", whyPrice), ".modalities": only("text null", whyPrice),
			"response_modalities": only("TEXT text null", whyPrice),
			".n":                  only("1 null", "ask for one answer: each of them is billed"),
			"candidate_count":     only("1 null", "ask for one answer: each of them is billed"),
		},
	}, more...) {
		for name, rl := range some {
			r.fields[normal(name)] = rl
			for part := range strings.SplitSeq(strings.TrimPrefix(name, "."), ".") {
				r.names[normal(part)] = part
			}
		}
	}
	for name := range strings.FieldsSeq(data) {
		r.data[normal(name)] = true
	}
	for name := range strings.FieldsSeq(schemas) {
		r.schemas[normal(name)] = true
	}
	return r
}

// apis are the rules by the form of requests. They are made when the first is asked for: a
// shim, which is the same program, needs none.
var apis = sync.OnceValue(func() map[form]*rules {
	return map[form]*rules{
		// Anthropic's Messages.
		formMessages: join("input input_examples metadata", "input_schema schema", false, map[string]rule{
			"tools.type":  only("custom bash_* text_editor_* computer_* memory_* tool_search_tool_*", whyTool),
			"source.type": only("base64 text content", "by address: "+whyAway),
			"edits.type":  only("clear_*", whyPrice),
		}),
		// OpenAI's Responses.
		formResponses: join("metadata client_metadata env", "parameters schema", false, map[string]rule{
			"tools.type": only("function custom local_shell apply_patch namespace", whyTool),
			"input.type": only(`message function_call function_call_output custom_tool_call custom_tool_call_output reasoning
			local_shell_call local_shell_call_output apply_patch_call apply_patch_call_output`, whyAway),
			"content.type": only(contentTypes, whyAway), "output.type": only(contentTypes, whyAway),
			"image_url": only("data:*", "by address "+whyAway),
		}, never(".context_management", whyPrice)),
		// OpenAI's Chat Completions, and the many that are like it.
		formChat: join("metadata logit_bias", "parameters schema", false, map[string]rule{
			"tools.type":    only("function custom", whyTool),
			"image_url":     {values: []string{"data:*"}, object: true, why: "by address " + whyAway},
			"image_url.url": only("data:*", "by address "+whyAway),
		}),
		// Gemini's generateContent, whose tools are named by their fields.
		formGenerate: join("args response", "parameters parameters_json_schema response_schema response_json_schema", true,
			map[string]rule{
				"inline_data.mime_type": only("image/* text/* application/*", whyPrice),
				"tools":                 {values: []string{"null"}, object: true, why: whyTool},
			}, never("file_data", whyAway), never(".model .store .service_tier", whyOther)),
	}
})

// readFields are the fields that are read for what they say, or have to be there.
const readFields = `model stream stream_options include_usage max_tokens max_completion_tokens max_output_tokens
	generation_config role content type function_declarations`

// contentTypes are those of the parts of a message, and of a tool's output, in Responses.
const contentTypes = "input_text input_image input_file output_text refusal reasoning_text summary_text text"

// toolFields are the tools of Gemini's that the agent runs.
const toolFields = "functiondeclarations"

// reaches says whether the name of a field, in its normal form, is that of something
// elsewhere: a new field of an API that fetches will hardly have another.
func reaches(name string) bool {
	for _, end := range []string{"url", "urls", "uri", "uris", "fileid", "fileids"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// of is the rule for a field in another, both in their normal form, and at the top.
func (r *rules) of(parent, name string) (rl rule, ok bool) {
	for _, key := range []string{parent + "." + name, name} {
		if rl, ok = r.fields[key]; ok {
			return rl, true
		}
	}
	switch {
	case reaches(name):
		return rule{why: "by address: " + whyAway}, true
	case r.camel && parent == "tools" && name != toolFields:
		return rule{why: whyTool}, true
	}
	return rule{}, false
}

// spells says whether a name of that normal form is spelled as the API spells it, if it is
// one that decides.
func (r *rules) spells(normal, name string) bool {
	want, decides := r.names[normal]
	return !decides || name == want || r.camel && name == camelCase(want)
}

// camelCase is the other spelling of a_name that protocol buffers have: aName.
func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// normal is the form of a name in which all its spellings are one.
func normal(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }
