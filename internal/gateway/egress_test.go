package gateway

import (
	"bufio"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/gateway/spend/spendtest"
	"github.com/org/ralph-action/internal/run"
)

// registry is the one host that the tests allow and reach. Package httptest has a
// certificate for it.
const registry = "registry.example.com"

var netToken = ProxyToken([]byte("key"), "r1-1")

// internet is what is around a gateway: a registry on loopback, and names that
// resolve to what they are told.
type internet struct {
	secure *httptest.Server
	certs  *x509.CertPool
	meter  *spend.Meter
	// proxy is the gateway's address.
	proxy string

	mu sync.Mutex
	// names are the addresses of hosts beside the registry.
	names map[string][]string
	// dialed are the addresses that were to be reached.
	dialed []string
	seen   []*http.Request
}

func newInternet(t testing.TB, answer http.HandlerFunc) *internet {
	t.Helper()
	n := &internet{names: map[string][]string{}, certs: x509.NewCertPool()}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.seen = append(n.seen, r)
		n.mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
	})
	n.secure = httptest.NewTLSServer(h)
	t.Cleanup(n.secure.Close)
	n.certs.AddCert(n.secure.Certificate())
	return n
}

// dial reaches the registry on loopback, and everything else as the gateway does.
func (n *internet) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, address)
	n.mu.Unlock()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host == registry {
		return (&net.Dialer{}).DialContext(ctx, network, n.secure.Listener.Addr().String())
	}
	err = errors.New("no such host")
	for _, at := range n.names[host] {
		if conn, err = dialer().DialContext(ctx, network, net.JoinHostPort(at, port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// open puts a gateway between a start and the internet.
func (n *internet) open(t testing.TB, allow egress.List, hosts []string) {
	t.Helper()
	ledger := spendtest.Open(t, t.TempDir())
	n.meter = spend.NewMeter(ledger, nil)
	if err := n.meter.Begin(t.Context(), spend.Start{Name: "r1-1", Hosts: hosts}); err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(n.handler(t, allow))
	t.Cleanup(front.Close)
	n.proxy = front.Listener.Addr().String()
}

// toRegistry is an internet behind a gateway that lets a start reach the registry.
func toRegistry(t testing.TB, answer http.HandlerFunc) *internet {
	t.Helper()
	n := newInternet(t, answer)
	n.open(t, egress.List{registry}, []string{registry})
	return n
}

func (n *internet) handler(t testing.TB, allow egress.List) http.Handler {
	t.Helper()
	target, err := url.Parse(n.secure.URL)
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHandler(Config{
		Upstreams: []Upstream{{Provider: run.ProviderAnthropic, BaseURL: target, APIKey: realKey}},
		Egress:    allow, Key: []byte("key"), Meter: n.meter, dial: n.dial,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// client is one that uses the proxy as its variables of the environment say.
func (n *internet) client(t testing.TB, token string) *http.Client {
	t.Helper()
	tr := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", User: url.UserPassword(ProxyUser, token), Host: n.proxy}),
		TLSClientConfig: &tls.Config{RootCAs: n.certs, MinVersion: tls.VersionTLS12},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func (n *internet) get(t *testing.T, target string) (answer, error) {
	t.Helper()
	resp, err := n.client(t, netToken).Do(request(t, http.MethodGet, target, nil))
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b)}, err
}

// say sends a request as it is written, for clients that no library would be.
// $AUTH in it becomes the header with the token.
func (n *internet) say(t *testing.T, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", n.proxy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	auth := "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(ProxyUser+":"+netToken))
	text = strings.ReplaceAll(strings.ReplaceAll(text, "$AUTH", auth), "\n", "\r\n")
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// ends closes the start, so that all is noted, and gives its hosts.
func (n *internet) ends(t *testing.T) []run.HostUse {
	t.Helper()
	if err := n.meter.End(t.Context(), "r1-1"); err != nil {
		t.Fatal(err)
	}
	r, err := n.meter.Report(t.Context(), "r1-1")
	if err != nil {
		t.Fatal(err)
	}
	return r.Hosts
}

var noBytes = cmpopts.IgnoreFields(run.HostUse{}, "Sent", "Received")

func TestProxyReachesWhatIsAllowed(t *testing.T) {
	t.Parallel()
	const big = 1 << 20
	say := make(chan string, 1)
	n := newInternet(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/big":
			_, _ = w.Write(make([]byte, big))
		case "/slow":
			for text := range say {
				_, _ = io.WriteString(w, text)
				_ = http.NewResponseController(w).Flush()
			}
		default:
			_, _ = io.WriteString(w, "package")
		}
	})
	n.open(t, egress.List{"*.example.com"}, []string{registry})
	for _, target := range []string{"https://" + registry + "/a?b=c", "https://REGISTRY.example.com.:443/", "https://" + registry + "/big"} {
		resp, err := n.get(t, target)
		if err != nil || resp.status != http.StatusOK || resp.body != "package" && len(resp.body) != big {
			t.Errorf("%s: %v %v", target, resp, err)
		}
	}
	// What comes passes when it comes.
	say <- "first"
	resp, err := n.client(t, netToken).Do(request(t, http.MethodGet, "https://"+registry+"/slow", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b := make([]byte, 5)
	for _, next := range []string{"other", "third"} { // said only once the one before has come
		if _, err := io.ReadFull(resp.Body, b); err != nil {
			t.Fatalf("%q %v", b, err)
		}
		say <- next
	}
	close(say)
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "third" {
		t.Errorf("%q %v", b, err)
	}
	for _, r := range n.seen {
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Errorf("the registry sees %v", r.Header)
		}
	}
	got := n.ends(t)
	if len(got) != 1 || got[0].Host != registry || got[0].Blocked != "" || got[0].Count != 4 || got[0].Received < big ||
		got[0].Received > 2*big || got[0].Sent < 100 {
		t.Errorf("report %+v", got)
	}
}

// Attack G2: what a hijacked agent asks of the proxy beyond what it is for is
// blocked and listed, and nothing is even looked up for it.
func TestG2ProxyBlocks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ request, host, reason string }{
		{"CONNECT evil.example.com:443", "evil.example.com", notAllowed},
		{"CONNECT c2VjcmV0.evil.example:443", "c2vjcmv0.evil.example", notAllowed},
		{"CONNECT evil." + registry + ":443", "evil." + registry, notAllowed},
		{"CONNECT localhost:443", "localhost", notAllowed},
		{"CONNECT metadata.google.internal:443", "metadata.google.internal", notAllowed},
		{"CONNECT 93.184.216.34:443", "93.184.216.34", notAName},
		{"CONNECT [2606:4700::1]:443", "2606:4700::1", notAName},
		{"CONNECT 127.1:443", "127.1", notAName},
		{"CONNECT reg\u0456stry.example.com:443", "reg?stry.example.com", notAName},
		{"CONNECT " + strings.Repeat("a.", 200) + "com:443", strings.Repeat("a.", 30) + "…", notAName},
		{"CONNECT " + registry + ":22", registry, notTheWay},
		{"CONNECT " + registry + ":80", registry, notTheWay},
		{"GET http://evil.example.com/", "evil.example.com", notAllowed},
		{"GET http://169.254.169.254/latest/meta-data/", "169.254.169.254", notAName},
		{"GET http://2852039166/", "2852039166", notAName},
		{"GET http:///x", "", notAName},
		{"GET http://" + registry + "/", registry, notTheWay},
		{"GET https://" + registry + ":443/", registry, notTheWay},
		{"POST ftp://" + registry + "/", registry, notTheWay},
	} {
		t.Run(tt.request, func(t *testing.T) {
			t.Parallel()
			n := toRegistry(t, nil)
			_, r := n.say(t, tt.request+" HTTP/1.1\nHost: "+registry+"\n$AUTH\nContent-Length: 0\n\n")
			method, _, _ := strings.Cut(tt.request, " ")
			resp, err := http.ReadResponse(r, &http.Request{Method: method})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusForbidden || !strings.Contains(string(body), tt.reason) ||
				method == "CONNECT" && !strings.Contains(resp.Status, tt.reason) {
				t.Errorf("%s %q %v", resp.Status, body, err)
			}
			if diff := cmp.Diff([]run.HostUse{{Host: tt.host, Blocked: tt.reason, Count: 1}}, n.ends(t)); diff != "" {
				t.Error(diff)
			}
			if len(n.dialed)+len(n.seen) != 0 {
				t.Errorf("dialed %v", n.dialed)
			}
		})
	}
}

// established reads the proxy's word that the tunnel is there.
func established(t *testing.T, r *bufio.Reader) {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
}

// hello is what a client sends first; it fails afterwards.
func hello(t *testing.T, n *internet, cfg *tls.Config) error {
	t.Helper()
	conn, r := n.say(t, "CONNECT "+registry+":443 HTTP/1.1\nHost: x\n$AUTH\n\n")
	established(t, r)
	return tls.Client(conn, cfg).HandshakeContext(t.Context())
}

// Attack G2: a tunnel to an allowed host is used for another one that is served at
// the same address.
func TestG2NameInsideOfTheTunnel(t *testing.T) {
	t.Parallel()
	skip := func(name string) *tls.Config {
		return &tls.Config{ServerName: name, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} // #nosec G402 -- it does not get that far
	}
	tests := []struct {
		name   string
		cfg    *tls.Config
		reason string
	}{
		{"another host", skip("evil.example.com"), otherName},
		{"a name below", skip("evil." + registry), otherName},
		{"no host", skip(""), noName},
		{"an address", skip("127.0.0.1"), noName},
		{"a hidden host", hiding(t, "evil.example.com", registry), noName},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := toRegistry(t, nil)
			err := hello(t, n, tt.cfg)
			if alert, ok := errors.AsType[tls.AlertError](err); !ok || alert != 49 {
				if !strings.Contains(fmt.Sprint(err), "access denied") {
					t.Errorf("the client is told %v", err)
				}
			}
			if diff := cmp.Diff([]run.HostUse{{Host: registry, Blocked: tt.reason, Count: 1}}, n.ends(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, text := range map[string]string{
		"another protocol": "SSH-2.0-evil\n", "plain HTTP": "GET / HTTP/1.1\nHost: evil.example.com\n\n",
		"half a message": "\x16\x03\x01\x02\x00\x01\x00", "nothing": "", // which is no attack
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := toRegistry(t, nil)
			// Sent at once, without waiting for the tunnel.
			conn, r := n.say(t, "CONNECT "+registry+":443 HTTP/1.1\nHost: x\n$AUTH\n\n")
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			established(t, r)
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			told, want := string(accessDenied), []run.HostUse{{Host: registry, Blocked: notTLS, Count: 1}}
			if text == "" {
				told, want = "", nil
			}
			if b, err := io.ReadAll(r); err != nil || string(b) != told {
				t.Errorf("%q %v", b, err)
			}
			if diff := cmp.Diff(want, n.ends(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("the right host, byte by byte", func(t *testing.T) {
		t.Parallel()
		n := toRegistry(t, nil)
		conn, r := n.say(t, "CONNECT "+registry+":443 HTTP/1.1\nHost: x\n$AUTH\n\n")
		established(t, r)
		c := tls.Client(slow{conn}, &tls.Config{ServerName: registry, RootCAs: n.certs, MinVersion: tls.VersionTLS13})
		if err := c.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A client that is done writing still gets what the host answers.
func TestTunnelHalfClosed(t *testing.T) {
	t.Parallel()
	n := toRegistry(t, func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done() // until the end of the client's side has come through
		_, _ = io.WriteString(w, "late answer")
	})
	conn, r := n.say(t, "CONNECT "+registry+":443 HTTP/1.1\nHost: x\n$AUTH\n\n")
	established(t, r)
	c := tls.Client(conn, &tls.Config{ServerName: registry, RootCAs: n.certs, MinVersion: tls.VersionTLS13})
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+registry+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "late answer" {
		t.Errorf("%q %v", b, err)
	}
}

// slow writes each byte by itself.
type slow struct{ net.Conn }

func (s slow) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := s.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// hiding is the configuration of a client that hides the name of its host (RFC
// 9849) and shows another.
func hiding(t *testing.T, name, shown string) *tls.Config {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public := key.PublicKey().Bytes()
	// ECHConfigContents: id, X25519 with HKDF-SHA256, the key, one cipher suite,
	// the longest name, the name that is shown, no extensions.
	c := append([]byte{1, 0, 0x20, 0, byte(len(public))}, public...) // #nosec G115 -- short
	c = append(c, 0, 4, 0, 1, 0, 1, 64, byte(len(shown)))            // #nosec G115 -- short
	c = append(append(c, shown...), 0, 0)
	c = append([]byte{0xfe, 0x0d, 0, byte(len(c))}, c...)                                                                                                                  // #nosec G115 -- short
	return &tls.Config{ServerName: name, EncryptedClientHelloConfigList: append([]byte{0, byte(len(c))}, c...), MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()} // #nosec G115 -- short
}

// Attack G2: a name that is allowed resolves to an address that is not public,
// also later than it was asked first.
func TestG2AddressesThatAreNotPublic(t *testing.T) {
	t.Parallel()
	const name = "internal.example.com"
	for _, text := range []string{
		"127.0.0.1", "169.254.169.254", "10.0.0.1", "100.64.0.1", "::1", "fd00:ec2::254", "::ffff:10.0.0.1",
		"64:ff9b::a9fe:a9fe", "0.0.0.0",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			n := newInternet(t, nil)
			n.names[name] = []string{text}
			n.open(t, egress.List{name}, []string{name})
			if _, err := n.get(t, "https://"+name); err == nil || !strings.Contains(err.Error(), notPublic) {
				t.Errorf("%v", err)
			}
			if diff := cmp.Diff([]run.HostUse{{Host: name, Blocked: notPublic, Count: 1}}, n.ends(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A start reaches what both the operator's list and its own name.
func TestProxyNarrowsToTheStart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		allow egress.List
		hosts []string
	}{
		{egress.List{"other.example.com"}, []string{"*.example.com"}},
		{egress.List{"*.example.com"}, []string{"other.example.com"}},
		{egress.List{"*.example.com"}, nil},
		{nil, []string{"*.example.com"}},
	} {
		n := newInternet(t, nil)
		n.open(t, tt.allow, tt.hosts)
		if _, err := n.get(t, "https://"+registry); err == nil || !strings.Contains(err.Error(), notAllowed) {
			t.Errorf("%v and %v: %v", tt.allow, tt.hosts, err)
		}
	}
}

// The token for the proxy opens nothing else, and nothing else opens the proxy,
// but for the agent's own token, by which its attempts are known.
func TestG3ProxyTokens(t *testing.T) {
	t.Parallel()
	n := toRegistry(t, nil)
	for name, token := range map[string]string{
		"none": "", "another run's": ProxyToken([]byte("other"), "r1-1"), "never begun": ProxyToken([]byte("key"), "r1-2"),
		"cut":     netToken[:len(netToken)-1],
		"renamed": strings.Replace(netToken, "r1-1", "r1-2", 1), "of the other kind": proxyPrefix +
			strings.TrimPrefix(runToken, tokenPrefix), "the key": "key",
	} {
		if _, err := n.client(t, token).Do(request(t, http.MethodGet, "https://"+registry, nil)); err == nil ||
			!strings.Contains(err.Error(), "Proxy Authentication Required") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for token, want := range map[string]int{netToken: http.StatusOK, runToken: http.StatusOK} {
		resp := doBy(t, n.client(t, token), request(t, http.MethodGet, "https://"+registry, nil))
		if resp.status != want {
			t.Errorf("%s: %d", token, resp.status)
		}
	}
	seen := len(n.seen)
	resp := do(t, request(t, http.MethodPost, "http://"+n.proxy+"/v1/messages", strings.NewReader(small), "X-Api-Key",
		netToken, "Authorization", "Bearer "+netToken))
	if resp.status != http.StatusBadRequest || !strings.Contains(resp.body, "token is missing or wrong") ||
		len(n.seen) != seen {
		t.Errorf("the models by the proxy's token: %d %s", resp.status, resp.body)
	}
	if err := n.meter.End(t.Context(), "r1-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := n.client(t, netToken).Do(request(t, http.MethodGet, "https://"+registry, nil)); err == nil ||
		!strings.Contains(err.Error(), "Proxy Authentication Required") {
		t.Errorf("after the end of the start: %v", err)
	}
}

// A hijacked agent has a host that is allowed; it does not carry everything there.
func TestG2SendingIsBounded(t *testing.T) {
	t.Parallel()
	n := toRegistry(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	resp, err := n.client(t, netToken).Do(request(t, http.MethodPost, "https://"+registry,
		io.LimitReader(zeros{}, maxSent+1<<20)))
	if err == nil {
		_ = resp.Body.Close()
		t.Errorf("all of it was sent: %s", resp.Status)
	}
	if _, err := n.get(t, "https://"+registry); err == nil || !strings.Contains(err.Error(), tooMuch) {
		t.Errorf("afterwards: %v", err)
	}
	got := n.ends(t)
	if len(got) != 2 || got[1].Blocked != tooMuch || got[1].Count < 2 || got[0].Sent < maxSent || got[0].Sent > maxSent+
		1<<20 {
		t.Errorf("%+v", got)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// The end of a start and the end of the gateway end tunnels, used or not.
func TestTunnelsEnd(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"start", "gateway"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			n := toRegistry(t, nil)
			s, err := Listen(shortDir(t), n.handler(t, egress.List{registry}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close(context.Background()) }) //nolint:usetesting // after the test
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", s.Path())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			auth := base64.StdEncoding.EncodeToString([]byte(ProxyUser + ":" + netToken))
			if _, err := fmt.Fprintf(conn, "CONNECT %s:443 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic %s\r\n\r\n",
				registry, auth); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(conn)
			established(t, r)
			c := tls.Client(conn, &tls.Config{ServerName: registry, RootCAs: n.certs, MinVersion: tls.VersionTLS13})
			if err := c.HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if how == "start" {
				err = n.meter.End(ctx, "r1-1")
			} else {
				err = s.Close(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("the tunnel is still open")
			}
			if got := n.ends(t); len(got) != 1 || got[0].Count != 1 || got[0].Received == 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestHostThatIsAway(t *testing.T) {
	t.Parallel()
	n := newInternet(t, nil)
	n.open(t, egress.List{registry, "gone.example.com"}, []string{"*.example.com"})
	n.secure.Close()
	for _, target := range []string{"https://" + registry, "https://gone.example.com"} {
		if resp, err := n.get(t, target); err == nil || !strings.Contains(err.Error(), "Bad Gateway") {
			t.Errorf("%s: %v %v", target, resp, err)
		}
	}
	if got := n.ends(t); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
