package ghsim

import (
	"errors"
	"net/http"
	"strings"
)

// Error is a refusal in GitHub's words, as the REST API answers it. The Go
// methods of Sim return it for what GitHub would refuse too.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Message is GitHub's own sentence.
	Message string
	// Fields say what is wrong with a request that was understood (422).
	Fields []FieldError
	// Detail helps whoever reads a test's log; GitHub does not send it.
	Detail string
}

// FieldError is one entry of `errors` in a 422 answer.
type FieldError struct {
	Resource string `json:"resource"`
	Code     string `json:"code"`
	Field    string `json:"field,omitempty"`
	Message  string `json:"message,omitempty"`
	Value    string `json:"value,omitempty"`
}

// Error implements error.
func (e *Error) Error() string {
	parts := []string{e.Message}
	for _, f := range e.Fields {
		parts = append(parts, strings.TrimSpace(f.Resource+" "+f.Field+" "+f.Code+" "+f.Message))
	}
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	return strings.Join(parts, ": ")
}

// errClosed ends the waiting of those who wait for a Sim that is closed.
var errClosed = errors.New("ghsim: closed")

func notFound() error { return &Error{Status: http.StatusNotFound, Message: "Not Found"} }

func forbidden() error {
	return &Error{Status: http.StatusForbidden, Message: "Resource not accessible by integration"}
}

func badCredentials() error {
	return &Error{Status: http.StatusUnauthorized, Message: "Bad credentials"}
}

// unprocessable is a 422 whose message alone says what is wrong.
func unprocessable(message string) error {
	return &Error{Status: http.StatusUnprocessableEntity, Message: message}
}

// invalid is a 422 "Validation Failed" for one field.
func invalid(resource, field, code, message string) error {
	return &Error{
		Status: http.StatusUnprocessableEntity, Message: "Validation Failed",
		Fields: []FieldError{{Resource: resource, Field: field, Code: code, Message: message}},
	}
}
