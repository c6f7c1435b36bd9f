package gateway

import (
	"net/http"
	"os"
	"testing"
)

// atEnd removes what tests behind a build tag made for each other; nil for nothing.
var atEnd func()

func TestMain(m *testing.M) {
	// Tests run beside one another: each httptest.Server that closes also closes the idle
	// connections of the default transport, and a POST that is just about to use one fails.
	http.DefaultTransport = struct{ http.RoundTripper }{http.DefaultTransport}
	code := m.Run()
	if atEnd != nil {
		atEnd()
	}
	os.Exit(code)
}
