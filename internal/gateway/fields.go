package gateway

import (
	"maps"
	"strings"
)

// The fields below are those that the APIs document and agents use, less those
// that would have the provider fetch or run something, bill what is not counted,
// take another model or account, or store or refer to what is stored. Texts that
// choose between things are listed for the same reason.

const (
	whyAway  = "the provider would fetch, run or look up something outside of the request; send the content itself"
	whyTool  = "it would run at the provider, outside of the sandbox; use a tool that the agent runs"
	whyPrice = "it costs more than is counted; leave it out"
	whyStore = "the provider would keep it; leave it out"
)

var (
	// anything goes: the provider hands it to the model, or back, as it is.
	anything = recursive(func(self *shape) { self.rest = self })
	// scalar is a text, a number, a truth value or null.
	scalar = &shape{}
	// schema is a JSON schema, which refers to nothing but itself.
	schema = recursive(func(self *shape) {
		local := &shape{fields: map[string]*shape{}, rest: self, texts: []string{"#*"}, why: whyAway}
		self.fields, self.rest = map[string]*shape{"$ref": local, "$dynamicRef": local, "$recursiveRef": local}, self
	})
	// dataURL is an address that holds what it is of.
	dataURL = &shape{texts: []string{"data:*"}, why: "by address " + whyAway}
)

func recursive(fill func(self *shape)) *shape {
	s := &shape{}
	fill(s)
	return s
}

type fields = map[string]*shape

// object is an object with plain fields, whose names are in one text, and others.
func object(plain string, others ...fields) *shape {
	s := &shape{fields: fields{}}
	for name := range strings.FieldsSeq(plain) {
		s.fields[name] = scalar
	}
	for _, more := range others {
		maps.Copy(s.fields, more)
	}
	return s
}

// one is a text that is one of those in the list.
func one(why, list string) *shape { return &shape{texts: strings.Fields(list), why: why} }

func at(p place) *shape { return &shape{place: p} }

var cacheControl = object("type scope", fields{"ttl": {texts: []string{"5m", "1h"}, why: whyPrice}})

// messagesShape is a request of Anthropic's Messages API.
var messagesShape = func() *shape {
	block := recursive(func(block *shape) {
		source := object("media_type data", fields{"type": one("by address: "+whyAway, "base64 text content"), "content": block})
		*block = *object(`text id name tool_use_id is_error thinking signature data title context tool_name error_code
			cited_text document_index document_title start_char_index end_char_index start_page_number end_page_number
			start_block_index end_block_index search_result_index enabled`, fields{
			"type": one(whyAway, `text image document tool_use tool_result thinking redacted_thinking search_result
				tool_reference server_tool_use tool_search_tool_result tool_search_tool_search_result
				tool_search_tool_result_error char_location page_location content_block_location search_result_location`),
			"cache_control": cacheControl, "source": source, "content": block, "citations": block, "input": anything,
			"caller": object("", fields{"type": one(whyTool, "direct")}), "tool_references": block,
		})
	})
	count := object("type value")
	return object("temperature top_p top_k stop_sequences", fields{
		"model": at(inModel), "max_tokens": at(inOutput), "stream": at(inStream),
		"messages": object("role id", fields{"content": block}), "system": block,
		"tools": object(`name description strict eager_input_streaming defer_loading display_width_px display_height_px
			display_number enable_zoom max_characters`, fields{
			"type":         one(whyTool, "custom bash_* text_editor_* computer_* memory_* tool_search_tool_*"),
			"input_schema": schema, "cache_control": cacheControl, "input_examples": anything,
			"allowed_callers": one(whyTool, "direct"),
		}),
		"tool_choice": object("type name disable_parallel_tool_use"), "metadata": object("user_id"),
		"thinking": object("type budget_tokens display"), "cache_control": cacheControl,
		"output_config": object("effort", fields{
			"format": object("type", fields{"schema": schema}), "task_budget": object("type total remaining"),
		}),
		"output_format": object("type", fields{"schema": schema}),
		"context_management": object("", fields{"edits": object("exclude_tools clear_tool_inputs", fields{
			"type": one(whyPrice, "clear_*"), "trigger": count, "keep": count, "clear_at_least": count,
		})}),
		"service_tier": one(whyPrice, "auto standard_only"), "speed": one(whyPrice, "standard"),
		"inference_geo": one(whyPrice, "global not_available"),
	})
}()

// openAIOptions are the fields that both of OpenAI's APIs have.
func openAIOptions() fields {
	return fields{
		"model": at(inModel), "stream": at(inStream), "store": {off: true, why: whyStore, place: inStore},
		"metadata":               {rest: scalar},
		"service_tier":           one(whyPrice, "auto default flex"),
		"prompt_cache_retention": one(whyStore, "in-memory in_memory"),
		"stream_options": {
			fields: fields{"include_usage": at(inIncludeUsage), "include_obfuscation": scalar}, place: inStreamOptions,
		},
	}
}

// responsesShape is a request of OpenAI's Responses API.
var responsesShape = func() *shape {
	function := func(more fields) *shape {
		return object("name description strict defer_loading", fields{
			"type": one(whyTool, "function custom local_shell apply_patch namespace"), "parameters": schema,
			"format": object("type syntax definition"),
		}, more)
	}
	tool := function(fields{"tools": function(nil)})
	item := recursive(func(item *shape) {
		*item = *object(`id role status phase text refusal name namespace arguments call_id input encrypted_content
			detail filename file_data annotations logprobs max_output_length`, fields{
			"type": one(whyAway, `message function_call function_call_output custom_tool_call custom_tool_call_output
				reasoning local_shell_call local_shell_call_output apply_patch_call apply_patch_call_output
				input_text output_text input_image input_file refusal summary_text reasoning_text text`),
			"content": item, "summary": item, "output": item, "image_url": dataURL,
			"action":    object("type command timeout_ms user working_directory", fields{"env": {rest: scalar}}),
			"operation": object("type path diff"),
		})
	})
	return object(`instructions max_tool_calls parallel_tool_calls temperature top_logprobs top_p truncation user
		prompt_cache_key safety_identifier`, openAIOptions(), fields{
		"max_output_tokens": at(inOutput), "input": item, "tools": tool, "client_metadata": {rest: scalar},
		"background": {off: true, why: "the answer would come by another way; leave it out"},
		"reasoning":  object("effort summary generate_summary"),
		"text":       object("verbosity", fields{"format": object("type name strict description", fields{"schema": schema})}),
		"tool_choice": object("name mode", fields{
			"type":  one(whyTool, "function custom local_shell apply_patch allowed_tools"),
			"tools": object("name", fields{"type": one(whyTool, "function custom local_shell apply_patch")}),
		}),
		"include": one(whyAway, "reasoning.encrypted_content message.output_text.logprobs"),
	})
}()

// chatShape is a request of OpenAI's Chat Completions API, and of the many that
// are like it.
var chatShape = func() *shape {
	function := object("name description strict arguments", fields{"parameters": schema})
	format := object("type", fields{"grammar": object("syntax definition")})
	custom := object("name description input", fields{"format": format})
	kind := one(whyTool, "function custom")
	part := object("text refusal", fields{
		"type": one(whyAway, "text image_url file refusal"), "cache_control": cacheControl,
		"image_url": {fields: fields{"url": dataURL, "detail": scalar}, texts: dataURL.texts, why: dataURL.why},
		"file":      object("file_data filename"),
	})
	call := object("id index", fields{"type": kind, "function": function, "custom": custom})
	choice := object("mode", fields{"type": one(whyTool, "function custom allowed_tools"), "function": function,
		"custom": custom})
	choice.fields["allowed_tools"] = object("mode", fields{"tools": call})
	return object(`parallel_tool_calls temperature top_p top_k min_p stop presence_penalty frequency_penalty
		repetition_penalty logprobs top_logprobs seed user reasoning_effort verbosity prompt_cache_key safety_identifier`,
		openAIOptions(), fields{
			"messages": object(`role name tool_call_id refusal reasoning reasoning_content reasoning_text reasoning_opaque
				annotations`, fields{
				"content": part, "tool_calls": call, "function_call": function, "cache_control": cacheControl,
			}),
			"tools":     object("", fields{"type": kind, "function": function, "custom": custom, "cache_control": cacheControl}),
			"functions": function, "function_call": function, "tool_choice": choice,
			"n": at(inAnswers), "max_tokens": at(inOutputOld), "max_completion_tokens": at(inOutput),
			"logit_bias": {rest: scalar}, "modalities": one(whyPrice, "text"),
			"response_format": object("type", fields{
				"json_schema": object("name description strict", fields{"schema": schema}),
			}),
			"prediction": object("type", fields{"content": part}), "reasoning": object("effort max_tokens exclude enabled"),
			"thinking": object("type budget_tokens"),
		})
}()

// generateShape is a request of Gemini's generateContent.
var generateShape = func() *shape {
	blob := object("data displayName", fields{"mimeType": one(whyPrice, "image/* text/* application/*")})
	content := object("role", fields{"parts": object("text thought thoughtSignature", fields{
		"inlineData": blob, "functionCall": object("id name", fields{"args": anything}),
		"functionResponse": object("id name willContinue scheduling", fields{
			"response": anything, "parts": object("", fields{"inlineData": blob}),
		}),
	})})
	config := object(`temperature topP topK stopSequences responseMimeType presencePenalty frequencyPenalty seed
		responseLogprobs logprobs mediaResolution`, fields{
		"maxOutputTokens": at(inOutput), "candidateCount": at(inAnswers), "responseSchema": schema,
		"responseJsonSchema": schema, "responseModalities": one(whyPrice, "TEXT text"),
		"thinkingConfig": object("includeThoughts thinkingBudget thinkingLevel"),
	})
	return object("", fields{
		"contents": content, "systemInstruction": content, "generationConfig": config,
		"safetySettings": object("category threshold method"),
		"tools": object("", fields{"functionDeclarations": object("name description behavior", fields{
			"parameters": schema, "parametersJsonSchema": schema, "response": schema, "responseJsonSchema": schema,
		})}),
		"toolConfig": object("", fields{"functionCallingConfig": object("mode allowedFunctionNames")}),
	})
}()
