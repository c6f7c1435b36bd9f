package ghapp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// graphQLError is one entry of an answer's errors.
type graphQLError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// mutate sends the GraphQL mutation of a name ("AddReaction") and decodes what is selected of its answer into
// out, if that is wanted.
func (r *Repo) mutate(ctx context.Context, op, name, selection string, input map[string]any, out any) error {
	field := strings.ToLower(name[:1]) + name[1:]
	query := fmt.Sprintf("mutation($input: %sInput!) { %s(input: $input) { %s } }", name, field, selection)
	data := map[string]json.RawMessage{}
	err := r.graphQL(ctx, r.writer.Client(), op, query, map[string]any{"input": input}, &data)
	if err == nil && out != nil {
		if err = json.Unmarshal(data[field], out); err != nil {
			err = &Error{Op: op, Class: Transient, Err: fmt.Errorf("decode data: %w", err)}
		}
	}
	return err
}

func (r *Repo) graphQL(
	ctx context.Context, client *http.Client, op, query string, variables map[string]any, out any,
) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return fmt.Errorf("%s: encode request: %w", op, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.app.graphQL.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return wrap(op, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxGraphQLBody))
	if err != nil {
		return wrap(op, fmt.Errorf("read answer: %w", err))
	}
	if resp.StatusCode != http.StatusOK {
		return fromResponse(op, resp, messageOf(raw))
	}
	var answer struct {
		Data   json.RawMessage `json:"data"`
		Errors []graphQLError  `json:"errors"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		// A proxy's page, or an answer cut short: the mutation may have run.
		return &Error{
			Op: op, Status: resp.StatusCode, Class: Transient, Err: fmt.Errorf("decode answer: %w", err),
		}
	}
	if len(answer.Errors) > 0 {
		return fromGraphQL(op, resp, answer.Errors)
	}
	if err := json.Unmarshal(answer.Data, out); err != nil {
		return &Error{Op: op, Status: resp.StatusCode, Class: Transient, Err: fmt.Errorf("decode data: %w", err)}
	}
	return nil
}

// fromGraphQL classifies errors that came with status 200. An error without a
// type is GitHub's "Something went wrong while executing your query".
func fromGraphQL(op string, resp *http.Response, errs []graphQLError) *Error {
	messages := make([]string, len(errs))
	for i, e := range errs {
		messages[i] = e.Message
	}
	out := fromResponse(op, resp, strings.Join(messages, "; "))
	if out.Class == RateLimited {
		return out
	}
	switch errs[0].Type {
	case "STALE_DATA":
		out.Class = Stale
	case "RATE_LIMITED", "RATE_LIMIT":
		_, out.RetryAfter = rateLimit(resp, "rate limit")
		out.Class = RateLimited
	case "NOT_FOUND":
		out.Class = NotFound
	case "FORBIDDEN", "INSUFFICIENT_SCOPES":
		out.Class = Forbidden
	case "UNPROCESSABLE", "VALIDATION":
		out.Class = Invalid
	case "", "INTERNAL", "SERVICE_UNAVAILABLE":
		out.Class = Transient
	default:
		out.Class = Permanent
	}
	return out
}
