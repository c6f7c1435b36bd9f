package ghsimtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/formatter"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/org/ralph-action/internal/ghsim"
)

// webhooks lists the webhook descriptions to keep: the events that package
// ghsim sends.
func webhooks() []string {
	return []string{
		"check-run-completed", "check-run-created", "check-suite-completed", "installation-created",
		"issue-comment-created", "issue-comment-deleted", "issue-comment-edited",
		"issues-closed", "issues-deleted", "issues-edited", "issues-labeled", "issues-locked", "issues-opened", "issues-reopened",
		"issues-transferred", "issues-unlabeled", "issues-unlocked",
		"pull-request-closed", "pull-request-converted-to-draft", "pull-request-edited", "pull-request-labeled",
		"pull-request-opened",
		"pull-request-ready-for-review", "pull-request-reopened", "pull-request-synchronize", "pull-request-unlabeled",
		"pull-request-review-submitted", "pull-request-review-comment-created",
		"pull-request-review-thread-resolved", "pull-request-review-thread-unresolved", "push",
	}
}

// TrimOpenAPI cuts GitHub's OpenAPI description down to what ghsim serves and
// sends, and drops the prose. The result is compact JSON, the same for the
// same input.
func TrimOpenAPI(full []byte) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(full, &doc); err != nil {
		return nil, fmt.Errorf("OpenAPI description: %w", err)
	}
	paths := map[string]any{}
	for _, op := range ghsim.Operations() {
		from, ok := child(doc, "paths", op.Template)
		method := strings.ToLower(op.Method)
		if !ok || from[method] == nil {
			return nil, fmt.Errorf("OpenAPI description has no %s %s", op.Method, op.Template)
		}
		to, ok := paths[op.Template].(map[string]any)
		if !ok {
			to = map[string]any{}
			paths[op.Template] = to
		}
		to[method] = from[method]
		if p := from["parameters"]; p != nil {
			to["parameters"] = p
		}
	}
	hooks := map[string]any{}
	for _, name := range webhooks() {
		post, ok := child(doc, "x-webhooks", name, "post")
		if !ok {
			return nil, fmt.Errorf("OpenAPI description has no webhook %s", name)
		}
		hooks[name] = map[string]any{"post": map[string]any{"requestBody": post["requestBody"]}}
	}
	out := map[string]any{
		"openapi": doc["openapi"], "info": doc["info"], "servers": doc["servers"],
		"paths": strip(paths, true), "x-webhooks": strip(hooks, true),
	}
	components := map[string]any{}
	todo := refs(out, nil)
	for len(todo) > 0 {
		ref := todo[0]
		todo = todo[1:]
		parts := strings.Split(ref, "/") // #/components/<kind>/<name>
		if len(parts) != 4 || parts[1] != "components" {
			return nil, fmt.Errorf("OpenAPI description: reference %q", ref)
		}
		kind, ok := components[parts[2]].(map[string]any)
		if !ok {
			kind = map[string]any{}
			components[parts[2]] = kind
		}
		if kind[parts[3]] != nil {
			continue
		}
		body, ok := child(doc, parts[1:]...)
		if !ok {
			return nil, fmt.Errorf("OpenAPI description: reference %q leads nowhere", ref)
		}
		kind[parts[3]] = strip(body, false)
		todo = append(todo, refs(kind[parts[3]], nil)...)
	}
	out["components"] = components
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return nil, fmt.Errorf("OpenAPI description: %w", err)
	}
	return b.Bytes(), nil
}

func child(v map[string]any, names ...string) (map[string]any, bool) {
	for _, name := range names {
		next, ok := v[name].(map[string]any)
		if !ok {
			return nil, false
		}
		v = next
	}
	return v, true
}

// strip drops what nothing is validated by: prose, examples, extensions. The
// keys of a map of names (properties, paths) are left alone.
func strip(v any, names bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, child := range v {
			if !names && (slices.Contains([]string{
				"description", "summary", "example", "examples", "externalDocs", "tags", "title", "links",
			}, k) || strings.HasPrefix(k, "x-")) {
				continue
			}
			switch {
			case !names && (k == "enum" || k == "default" || k == "const"):
				out[k] = child // data, not schema
			default:
				out[k] = strip(child, !names && slices.Contains([]string{
					"properties", "patternProperties", "responses", "content", "headers",
				}, k))
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = strip(child, false)
		}
		return out
	default:
		return v
	}
}

// refs collects every $ref in v.
func refs(v any, found []string) []string {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			if ref, ok := child.(string); ok && k == "$ref" {
				found = append(found, ref)
				continue
			}
			found = refs(child, found)
		}
	case []any:
		for _, child := range v {
			found = refs(child, found)
		}
	}
	return found
}

// TrimGraphQL cuts GitHub's GraphQL schema down to the fields that ghsim
// resolves and the types they lead to.
func TrimGraphQL(full string) (string, error) {
	doc, err := parser.ParseSchema(&ast.Source{Name: "schema.graphql", Input: full})
	if err != nil {
		return "", fmt.Errorf("GraphQL schema: %w", err)
	}
	fields := ghsim.GraphQLFields()
	byName := map[string]*ast.Definition{}
	for _, d := range doc.Definitions {
		byName[d.Name] = d
	}
	keep := map[string]bool{}
	for typ, names := range fields {
		d := byName[typ]
		if d == nil {
			return "", fmt.Errorf("GraphQL schema has no type %s", typ)
		}
		for _, name := range names {
			if d.Fields.ForName(name) == nil {
				return "", fmt.Errorf("GraphQL schema has no field %s.%s", typ, name)
			}
		}
		keep[typ] = true
	}
	// Leaves and inputs follow from the fields; objects must be listed.
	var need func(typ string) error
	need = func(typ string) error {
		d := byName[typ]
		if d == nil || keep[typ] {
			return nil // a built-in scalar, or known
		}
		switch d.Kind {
		case ast.Scalar, ast.Enum:
			keep[typ] = true
		case ast.InputObject:
			keep[typ] = true
			for _, f := range d.Fields {
				if err := need(f.Type.Name()); err != nil {
					return err
				}
			}
		default:
			return fmt.Errorf("GraphQL: a kept field leads to %s, of which no field is resolved", typ)
		}
		return nil
	}
	for _, typ := range sortedNames(fields) {
		d := byName[typ]
		d.Fields = slices.DeleteFunc(d.Fields, func(f *ast.FieldDefinition) bool {
			return !slices.Contains(fields[typ], f.Name)
		})
		for _, f := range d.Fields {
			if err := need(f.Type.Name()); err != nil {
				return "", fmt.Errorf("%s.%s: %w", typ, f.Name, err)
			}
			for _, a := range f.Arguments {
				if err := need(a.Type.Name()); err != nil {
					return "", fmt.Errorf("%s.%s: %w", typ, f.Name, err)
				}
			}
		}
		d.Interfaces = slices.DeleteFunc(d.Interfaces, func(name string) bool { return fields[name] == nil })
	}
	out := &ast.SchemaDocument{}
	for _, d := range doc.Definitions {
		if !keep[d.Name] {
			continue
		}
		quiet(d)
		out.Definitions = append(out.Definitions, d)
	}
	var b strings.Builder
	b.WriteString("# Part of GitHub's GraphQL schema, cut down by internal/ghsim/ghsimtest/trim. Do not edit.\n")
	b.WriteString("# From the npm package @octokit/graphql-schema 15.26.1, MIT licensed: see ghsimtest/testdata/LICENSE.\n\n")
	formatter.NewFormatter(&b).FormatSchemaDocument(out)
	return b.String(), nil
}

// quiet drops prose and directives from a definition, and a field that the
// published schema defines twice.
func quiet(d *ast.Definition) {
	d.Description, d.Directives = "", nil
	seen := map[string]bool{}
	d.Fields = slices.DeleteFunc(d.Fields, func(f *ast.FieldDefinition) bool {
		twice := seen[f.Name]
		seen[f.Name] = true
		f.Description, f.Directives = "", nil
		for _, a := range f.Arguments {
			a.Description, a.Directives = "", nil
		}
		return twice
	})
	for _, v := range d.EnumValues {
		v.Description, v.Directives = "", nil
	}
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
