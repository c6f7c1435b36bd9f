package gateway

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// mayLink says whether a request may refer to something outside of it. In a text
// quotes are escaped, so that no text looks like these names; a name in escaped
// letters might.
func mayLink(f form, body []byte) bool {
	marks := []string{`\u004`, `\u005`, `\u006`, `\u007`}
	switch f {
	case formMessages:
		marks = append(marks, `"url"`)
	case formResponses, formChat:
		marks = append(marks, `"image_url"`, `"file_url"`)
	case formGenerate:
		marks = append(marks, `"fileData"`, `"file_data"`)
	case formFree:
		return false
	}
	return slices.ContainsFunc(marks, func(mark string) bool { return bytes.Contains(body, []byte(mark)) })
}

// links refuses images and documents that the provider would fetch from an
// address: the agent would reach the network by it.
func links(c call, body []byte) error {
	// Most requests hold none, and need not be read twice.
	if !mayLink(c.form, body) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		return refuse("the request is not a JSON object")
	}
	// What tools are called with is the agent's own, whatever it looks like.
	delete(v, "tools")
	if linked(c.form, v) {
		return refuse("images and documents by address are not allowed here: the provider would fetch them; send their content")
	}
	return nil
}

// linked says whether v holds a reference of the API's. The nesting is bounded by
// the JSON reader.
func linked(f form, v any) bool {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if linked(f, item) {
				return true
			}
		}
	case map[string]any:
		if refers(f, v) {
			return true
		}
		for name, item := range v {
			// The input of a tool is free in form.
			if name != "input" || v["type"] != "tool_use" {
				if linked(f, item) {
					return true
				}
			}
		}
	}
	return false
}

// refers says whether an object is itself a reference.
func refers(f form, o map[string]any) bool {
	away := func(v any) bool {
		if inner, ok := v.(map[string]any); ok {
			v = inner["url"]
		}
		address, ok := v.(string)
		return ok && !strings.HasPrefix(address, "data:")
	}
	switch f {
	case formMessages:
		source, ok := o["source"].(map[string]any)
		return ok && source["type"] == "url"
	case formResponses, formChat:
		return away(o["image_url"]) || away(o["file_url"])
	case formGenerate:
		_, one := o["fileData"]
		_, two := o["file_data"]
		return one || two
	case formFree:
	}
	return false
}
