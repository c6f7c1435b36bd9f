package ghsim

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"

	"github.com/org/ralph-action/internal/strs"
)

// schemaSource is the part of GitHub's published schema that is served. Queries are held against it strictly: what
// it does not have is refused, as GitHub does.
//
//go:embed schema.graphql
var schemaSource string

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

// list is a list of objects.
func (a arguments) list(name string) []arguments {
	raw, ok := a[name].([]any)
	if !ok {
		return nil
	}
	return shapes(raw, func(e any) arguments { return arguments{"": e}.obj("") })
}

// num is a whole number, 0 where there is none.
func (a arguments) num(name string) int {
	switch n := a[name].(type) {
	case int64:
		return int(n)
	case float64:
		return int(n)
	case json.Number:
		if i, err := n.Int64(); err == nil {
			return int(i)
		}
	}
	return 0
}

// gqlError is an error with GitHub's type for it.
type gqlError struct{ kind, message string }

func (e *gqlError) Error() string { return e.message }

// inGraphQL puts a refusal of REST in GraphQL's words.
func inGraphQL(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	kind := "UNPROCESSABLE"
	if e.Status == http.StatusForbidden {
		kind = "FORBIDDEN"
	}
	return &gqlError{kind, e.Message}
}

// execution is one GraphQL operation under way.
type execution struct {
	*Sim

	call   *call
	vars   map[string]any
	errors []obj
}

// lazy is a field that has arguments.
type lazy func(a arguments) (any, error)

type gqlRequest struct {
	Query         string         `json:"query"`
	OperationName string         `json:"operationName"`
	Variables     map[string]any `json:"variables"`
}

// fieldsOf gives the operation and the fields of a request, for the call log and for faults: "mutation",
// "createRef" and "createCommitOnBranch".
func fieldsOf(body []byte) (operation string, fields []string) {
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
	if c.who.tok == nil {
		return errorAnswer(&Error{
			Status: http.StatusUnauthorized, Message: "This endpoint requires you to be authenticated.",
		})
	}
	var req gqlRequest
	if err := json.Unmarshal(c.body, &req); err != nil {
		return errorAnswer(&Error{Status: http.StatusBadRequest, Message: "Problems parsing JSON"})
	}
	doc, errs := gqlparser.LoadQuery(s.schema, req.Query) //nolint:staticcheck // the default rules are the ones we want
	if len(errs) > 0 {
		return jsonAnswer(http.StatusOK, obj{"errors": shapes(errs, schemaError)})
	}
	op := doc.Operations.ForName(req.OperationName)
	if op == nil {
		return jsonAnswer(http.StatusOK, obj{"errors": []obj{{"message": "An operation name is required"}}})
	}
	vars, err := validator.VariableValues(s.schema, op, req.Variables)
	if err != nil {
		return jsonAnswer(http.StatusOK, obj{"errors": []obj{{"message": err.Error()}}})
	}
	x := &execution{Sim: s, call: c, vars: vars}
	data := obj{}
	for _, sel := range op.SelectionSet {
		f, ok := sel.(*ast.Field)
		if !ok {
			continue // a fragment: nobody sends one here
		}
		// The fields after one that has failed are done, too, as GitHub does them.
		value, err := x.root(op.Operation, f)
		if err != nil {
			x.fail(f, []any{f.Alias}, err)
		}
		data[f.Alias] = x.project(f.SelectionSet, value, f.Alias)
	}
	body := obj{"data": data}
	if len(x.errors) > 0 {
		body["errors"] = x.errors
	}
	return jsonAnswer(http.StatusOK, body)
}

var unknownField = strs.Lazy(`^Cannot query field "(\w+)" on type "(\w+)"\.`)

// schemaError is an error of a query that the schema refuses, with the commonest of them in GitHub's words.
func schemaError(e *gqlerror.Error) obj {
	return obj{
		"message": unknownField().ReplaceAllString(e.Message, "Field '$1' doesn't exist on type '$2'"), "locations": e.Locations,
	}
}

// root does one field of the operation itself.
func (x *execution) root(operation ast.Operation, f *ast.Field) (obj, error) {
	handle := gqlHandlers()[f.Name]
	if handle == nil {
		return nil, fmt.Errorf("ghsim: nothing answers %s", f.Name)
	}
	args := arguments(f.ArgumentMap(x.vars))
	if operation == ast.Mutation {
		args = args.obj("input")
	}
	value, err := handle(x, args)
	if err != nil {
		return nil, inGraphQL(err)
	}
	if operation == ast.Mutation {
		value["clientMutationId"] = args["clientMutationId"]
	}
	return value, nil
}

// project cuts out of a value what a selection asks for. Objects are plain maps, with a lazy where a field has
// arguments. A field that the map lacks fails: the schema has it, and nothing here gives it. One that fails is null,
// and the rest is answered. Nobody sends fragments here.
func (x *execution) project(set ast.SelectionSet, value any, path ...any) any {
	switch v := value.(type) {
	case []obj:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = x.project(set, e, append(slices.Clone(path), i)...)
		}
		return out
	case obj:
		if v == nil {
			return nil
		}
		out := obj{}
		for _, sel := range set {
			f, ok := sel.(*ast.Field)
			if !ok {
				continue
			}
			below := append(slices.Clone(path), f.Alias)
			field, ok := v[f.Name]
			var err error
			if !ok {
				err = fmt.Errorf("ghsim: nothing gives the field %s", f.Name)
			} else if give, isLazy := field.(lazy); isLazy {
				field, err = give(f.ArgumentMap(x.vars))
			}
			if err != nil {
				x.fail(f, below, err)
			}
			out[f.Alias] = x.project(f.SelectionSet, field, below...)
		}
		return out
	default:
		return value
	}
}

func (x *execution) fail(f *ast.Field, path []any, err error) {
	o := obj{
		"message": err.Error(), "path": path,
		"locations": []obj{{"line": f.Position.Line, "column": f.Position.Column}},
	}
	if e, ok := errors.AsType[*gqlError](err); ok {
		o["type"] = e.kind
	}
	x.errors = append(x.errors, o)
}
