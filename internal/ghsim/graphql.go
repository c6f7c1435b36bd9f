package ghsim

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"

	"github.com/org/ralph-action/internal/strs"
)

// schemaSource is the part of GitHub's published schema that resolvers serve;
// ghsimtest/trim makes it.
//
//go:embed schema.graphql
var schemaSource string

// graphQL executes operations against the schema. Queries are validated
// strictly: what the schema does not have is refused, as GitHub does.
type graphQL struct {
	schema *ast.Schema
	fields map[string]map[string]resolver
}

// resolver computes one field of a parent value.
type resolver func(x *execution, parent any, a arguments) (any, error)

// arguments of a field, already checked and coerced by the schema.
type arguments map[string]any

func (a arguments) str(name string) string {
	s, ok := a[name].(string)
	if !ok {
		return ""
	}
	return s
}

func (a arguments) obj(name string) arguments {
	m, ok := a[name].(map[string]any)
	if !ok {
		return arguments{}
	}
	return m
}

func (a arguments) list(name string) []any {
	l, ok := a[name].([]any)
	if !ok {
		return nil
	}
	return l
}

func (a arguments) num(name string) int {
	switch n := a[name].(type) {
	case int64:
		return int(n)
	case float64:
		return int(n)
	case json.Number:
		i, err := strconv.Atoi(n.String())
		if err == nil {
			return i
		}
	}
	return -1
}

// gqlError is an error with GitHub's type: NOT_FOUND, FORBIDDEN, STALE_DATA,
// UNPROCESSABLE.
type gqlError struct{ kind, message string }

func (e *gqlError) Error() string { return e.message }

// execution is one operation on its way through.
type execution struct {
	sim    *Sim
	call   *call
	vars   map[string]any
	errors []obj
}

func newGraphQL() (*graphQL, error) {
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: schemaSource})
	if err != nil {
		return nil, fmt.Errorf("GraphQL schema: %w", err)
	}
	return &graphQL{schema: schema, fields: resolvers()}, nil
}

type gqlRequest struct {
	Query         string         `json:"query"`
	OperationName string         `json:"operationName"`
	Variables     map[string]any `json:"variables"`
}

// names gives the operation and the fields of a request, for the call log and for faults:
// "mutation", "createRef" and "createCommitOnBranch".
func (g *graphQL) names(body []byte) (operation string, fields []string) {
	var req gqlRequest
	if json.Unmarshal(body, &req) != nil {
		return "", nil
	}
	doc, err := parser.ParseQuery(&ast.Source{Input: req.Query})
	if err != nil || len(doc.Operations) == 0 {
		return "", nil
	}
	for _, sel := range doc.Operations[0].SelectionSet {
		if f, ok := sel.(*ast.Field); ok {
			fields = append(fields, f.Name)
		}
	}
	return string(doc.Operations[0].Operation), fields
}

// graphql answers a GraphQL call.
func (s *Sim) graphql(c *call) answer {
	if c.Method != http.MethodPost {
		return errorAnswer(notFound())
	}
	if c.who.tok == nil && c.who.user == nil {
		return errorAnswer(&Error{
			Status: http.StatusUnauthorized, Message: "This endpoint requires you to be authenticated.",
		})
	}
	var req gqlRequest
	if err := json.Unmarshal(c.body, &req); err != nil {
		return errorAnswer(&Error{Status: http.StatusBadRequest, Message: "Problems parsing JSON"})
	}
	doc, errs := gqlparser.LoadQuery(s.gql.schema, req.Query) //nolint:staticcheck // the default rules are the ones we want
	if len(errs) > 0 {
		return jsonAnswer(http.StatusOK, obj{"errors": schemaErrors(errs)})
	}
	op := doc.Operations.ForName(req.OperationName)
	if op == nil {
		return jsonAnswer(http.StatusOK, obj{"errors": []obj{{"message": "An operation name is required"}}})
	}
	vars, err := validator.VariableValues(s.gql.schema, op, req.Variables)
	if err != nil {
		return jsonAnswer(http.StatusOK, obj{"errors": []obj{{"message": err.Error()}}})
	}
	x := &execution{sim: s, call: c, vars: vars}
	root, typ := any(gqlRoot{}), s.gql.schema.Query
	if op.Operation == ast.Mutation {
		typ = s.gql.schema.Mutation
	}
	body := obj{"data": x.object(typ, root, []*ast.SelectionSet{&op.SelectionSet}, nil)}
	if len(x.errors) > 0 {
		body["errors"] = x.errors
	}
	return jsonAnswer(http.StatusOK, body)
}

var unknownField = strs.Lazy(`^Cannot query field "(\w+)" on type "(\w+)"\.`)

// schemaErrors are the errors of a query that the schema refuses, with the
// commonest of them in GitHub's words.
func schemaErrors(errs gqlerror.List) []obj {
	var out []obj
	for _, e := range errs {
		o := obj{
			"message":   unknownField().ReplaceAllString(e.Message, "Field '$1' doesn't exist on type '$2'"),
			"locations": locations(e.Locations),
		}
		if m := unknownField().FindStringSubmatch(e.Message); m != nil {
			o["extensions"] = obj{"code": "undefinedField", "typeName": m[2], "fieldName": m[1]}
		}
		out = append(out, o)
	}
	return out
}

func locations(ls []gqlerror.Location) []obj {
	out := []obj{}
	for _, l := range ls {
		out = append(out, obj{"line": l.Line, "column": l.Column})
	}
	return out
}

// object resolves a selection on one value. The selections of a field that was
// named twice are merged.
func (x *execution) object(typ *ast.Definition, value any, sets []*ast.SelectionSet, path []any) obj {
	type collected struct {
		field *ast.Field
		sets  []*ast.SelectionSet
	}
	var order []string
	fields := map[string]*collected{}
	var collect func(ast.SelectionSet)
	collect = func(set ast.SelectionSet) {
		for _, sel := range set {
			switch sel := sel.(type) {
			case *ast.Field:
				if x.skipped(sel.Directives) {
					continue
				}
				if fields[sel.Alias] == nil {
					order = append(order, sel.Alias)
					fields[sel.Alias] = &collected{field: sel}
				}
				fields[sel.Alias].sets = append(fields[sel.Alias].sets, &sel.SelectionSet)
			case *ast.InlineFragment:
				if !x.skipped(sel.Directives) && x.is(typ, sel.TypeCondition) {
					collect(sel.SelectionSet)
				}
			case *ast.FragmentSpread:
				if !x.skipped(sel.Directives) && x.is(typ, sel.Definition.TypeCondition) {
					collect(sel.Definition.SelectionSet)
				}
			}
		}
	}
	for _, set := range sets {
		collect(*set)
	}
	out := obj{}
	for _, alias := range order {
		f := fields[alias]
		out[alias] = x.field(typ, value, f.field, f.sets, append(slices.Clone(path), alias))
	}
	return out
}

func (x *execution) skipped(ds ast.DirectiveList) bool {
	on := func(name string) (value, found bool) {
		d := ds.ForName(name)
		if d == nil {
			return false, false
		}
		b, ok := d.ArgumentMap(x.vars)["if"].(bool)
		return ok && b, true
	}
	skip, _ := on("skip")
	include, found := on("include")
	return skip || found && !include
}

// is says whether a value of type typ meets a type condition.
func (x *execution) is(typ *ast.Definition, condition string) bool {
	return condition == "" || condition == typ.Name ||
		slices.ContainsFunc(x.sim.gql.schema.GetPossibleTypes(x.sim.gql.schema.Types[condition]),
			func(d *ast.Definition) bool { return d.Name == typ.Name })
}

func (x *execution) field(typ *ast.Definition, value any, f *ast.Field, sets []*ast.SelectionSet, path []any) any {
	if f.Name == "__typename" {
		return typ.Name
	}
	if broken := x.call.broken; broken != nil && len(path) == 1 && broken.match.MatchString("/graphql "+f.Name) {
		x.fail(f, path, &gqlError{broken.Field, broken.Body})
		return nil
	}
	resolve := x.sim.gql.fields[typ.Name][f.Name]
	if resolve == nil { // the schema is made from the resolvers; a test says so
		x.fail(f, path, fmt.Errorf("ghsim: no resolver for %s.%s", typ.Name, f.Name))
		return nil
	}
	result, err := resolve(x, value, f.ArgumentMap(x.vars))
	if err != nil {
		x.fail(f, path, err)
		return nil
	}
	return x.complete(result, sets, path)
}

// complete turns what a resolver returned into JSON: a leaf, an object or a
// list.
func (x *execution) complete(result any, sets []*ast.SelectionSet, path []any) any {
	if result == nil {
		return nil
	}
	if v := reflect.ValueOf(result); v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8 {
		list := []any{}
		for i := range v.Len() {
			list = append(list, x.complete(v.Index(i).Interface(), sets, append(slices.Clone(path), i)))
		}
		return list
	}
	typ, ok := result.(typed)
	if !ok {
		return result
	}
	return x.object(x.sim.gql.schema.Types[typ.typeName()], result, sets, path)
}

func (x *execution) fail(f *ast.Field, path []any, err error) {
	o := obj{
		"message": err.Error(), "path": path, "locations": []obj{{"line": f.Position.Line, "column": f.Position.Column}},
	}
	if e, ok := errors.AsType[*gqlError](err); ok {
		o["type"] = e.kind
	}
	x.errors = append(x.errors, o)
}

// GraphQLFields lists, for each type, the fields that can be queried. The
// trimmed schema is made from it.
func GraphQLFields() map[string][]string {
	out := map[string][]string{}
	for typ, fields := range resolvers() {
		out[typ] = slices.Sorted(maps.Keys(fields))
	}
	return out
}

// Schema is the part of GitHub's GraphQL schema that is served.
func Schema() string { return schemaSource }
