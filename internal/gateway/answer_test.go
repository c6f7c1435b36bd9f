package gateway

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// Attack: an endpoint that says the key, in an error, a header, a stream, or on the
// way to an answer. However it is cut, the agent does not see it.
func TestKeyIsMaskedInAnswers(t *testing.T) {
	t.Parallel()
	forms := []string{
		realKey, "Bearer " + realKey, strings.Repeat(realKey, 3),
		hex.EncodeToString([]byte(realKey)), base64.StdEncoding.EncodeToString([]byte("x:" + realKey)),
	}
	for _, form := range forms {
		for _, size := range []int{1, 7, 1 << 20} {
			for _, kind := range []string{"text/event-stream", "application/json"} {
				text := "data: {\"a\":\"" + form + "\"}\n\ndata: [DONE]\n\n"
				u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", kind)
					w.Header().Set("X-Echo", form)
					w.Header().Set("Trailer", "X-Late")
					w.Header().Set("Link", "</"+form+">")
					w.WriteHeader(http.StatusEarlyHints)
					w.WriteHeader(http.StatusOK)
					for part := range chunks([]byte(text), size) {
						_, _ = w.Write(part)
						_ = http.NewResponseController(w).Flush()
					}
					w.Header().Set("X-Late", form)
					w.Header().Set(http.TrailerPrefix+"X-Later", form)
				}}
				req := request(t, http.MethodPost, try(t, u, run.ProviderAnthropic, 0, nil).url+messagesPath, strings.NewReader(small),
					"X-Api-Key", runToken)
				early := ""
				req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
					Got1xxResponse: func(status int, h textproto.MIMEHeader) error { early += fmt.Sprint(status, h); return nil },
				}))
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || !strings.HasPrefix(string(body), "data: {\"a\":\"") || !strings.HasSuffix(string(body), "\"}\n\ndata: [DONE]\n\n") {
					t.Errorf("%q, %v", body, err)
				}
				seen := early + fmt.Sprint(resp.Header, resp.Trailer) + string(body)
				for _, secret := range []string{realKey, hex.EncodeToString([]byte(realKey))[8:], forms[4][4:20]} {
					if strings.Contains(seen, secret) {
						t.Fatalf("in pieces of %d the agent sees %s", size, seen)
					}
				}
			}
		}
	}
}

// What breaks off in the middle of the key shows none of it.
func TestKeyThatIsCutIsMasked(t *testing.T) {
	t.Parallel()
	cut := realKey[:len(realKey)-1]
	u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: x\ndata: "+cut)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}}
	resp, err := http.DefaultClient.Do(request(t, http.MethodPost, start(t, u, nil)+messagesPath, strings.NewReader(small),
		"X-Api-Key", runToken))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); strings.Contains(string(body), cut) || err == nil {
		t.Errorf("%q, %v", body, err)
	}
}
