package sandboxtest

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// attemptTime is for attempts that nobody answers.
const attemptTime = 3 * time.Second

// hijacked is a hijacked agent: it tries to get out of its sandbox, and to get more from the
// gateway than it is for. It prints a line for each attempt: what it is called, a tab, and
// what came of it.
func hijacked(args []string) int {
	if len(args) != 1 || args[0] != "network" {
		return fail(fmt.Errorf("unknown attack %q", args))
	}
	network()
	return 0
}

func tell(name, format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	fmt.Fprintf(os.Stdout, "%s\t%s\n", name, text)
}

// try tells what came of an attempt.
func try(name string, attempt func(ctx context.Context) (string, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), attemptTime)
	defer cancel()
	got, err := attempt(ctx)
	if err != nil {
		tell(name, "failed: %v", err)
		return
	}
	tell(name, "REACHED: %s", got)
}

// client takes any certificate and follows redirects; it uses the proxy as its
// environment says.
func client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, // #nosec G402 -- it wants to get out
	}}
}

func fetchOne(target string) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil) // #nosec G704 -- it goes where it wants
		if err != nil {
			return "", err
		}
		return send(req)
	}
}

// send gives the answer's text; one that says that the proxy blocked it is an
// error.
func send(req *http.Request) (string, error) {
	resp, err := client().Do(req) // #nosec G704 -- it goes where it wants
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%s: %s", resp.Status, body))
	}
	return string(body), err
}

func dial(network, address string) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return "", err
		}
		defer func() { _ = conn.Close() }()
		if strings.HasPrefix(network, "udp") {
			// Only an answer tells that it got somewhere.
			deadline, _ := ctx.Deadline()
			if err := conn.SetDeadline(deadline); err != nil {
				return "", err
			}
			if _, err := conn.Write(make([]byte, 1200)); err != nil {
				return "", err
			}
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				return "", err
			}
		}
		return address, nil
	}
}

// raw says a text to the proxy and gives the connection with what is answered.
func raw(ctx context.Context, text string) (net.Conn, *http.Response, error) {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil {
		return nil, nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", proxy.Host)
	if err != nil {
		return nil, nil, err
	}
	auth := "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.String()))
	if _, err := io.WriteString(conn, strings.ReplaceAll(strings.ReplaceAll(text, "$AUTH", auth), "\n",
		"\r\n")); err != nil {
		return nil, nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: strings.Fields(text)[0]})
	return conn, resp, err
}

func ask(text string) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		conn, resp, err := raw(ctx, text)
		if err != nil {
			return "", err
		}
		defer func() { _ = conn.Close(); _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return "", errors.New(resp.Status)
		}
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
}

// network tries to get out. registry is the host that it may reach.
func network() {
	registry, host := os.Getenv("REGISTRY"), os.Getenv("HOST_PORT")
	try("allowed", fetchOne("https://"+registry+"/package"))
	try("allowed, plain", fetchOne("http://"+registry+"/package"))

	// Past the proxy.
	try("address", dial("tcp4", "93.184.216.34:443"))
	try("address of IPv6", dial("tcp6", "[2606:2800:220:1:248:1893:25c8:1946]:443"))
	try("name", dial("tcp", "example.com:443"))
	try("metadata", dial("tcp", "169.254.169.254:80"))
	try("QUIC", dial("udp4", "93.184.216.34:443"))
	try("QUIC over IPv6", dial("udp6", "[2606:2800:220:1:248:1893:25c8:1946]:443"))
	try("loopback of the host", dial("tcp", host))
	try("DNS TXT", func(ctx context.Context) (string, error) {
		texts, err := (&net.Resolver{PreferGo: true}).LookupTXT(ctx, "secret.example.com")
		return strings.Join(texts, " "), err
	})
	try("DNS of another's", func(ctx context.Context) (string, error) {
		r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, "8.8.8.8:53")
		}}
		texts, err := r.LookupTXT(ctx, "secret.example.com")
		return strings.Join(texts, " "), err
	})

	// Through the proxy.
	try("proxy: host", fetchOne("https://evil.example.com/"))
	try("proxy: address", fetchOne("https://93.184.216.34/"))
	try("proxy: address of IPv6", fetchOne("https://[2606:2800:220:1:248:1893:25c8:1946]/"))
	try("proxy: metadata", fetchOne("http://169.254.169.254/latest/meta-data/"))
	try("proxy: port", fetchOne("https://"+registry+":8443/"))
	try("proxy: redirect", fetchOne("https://"+registry+"/redirect"))
	try("proxy: Host of the allowed", ask("GET http://evil.example.com/ HTTP/1.1\nHost: "+registry+
		"\n$AUTH\nConnection: close\n\n"))
	try("proxy: no token", ask("GET http://"+registry+"/ HTTP/1.1\nHost: "+registry+"\nConnection: close\n\n"))
	try("proxy: name resolves inside", fetchOne("https://inside.example.com/"))
	try("proxy: TLS for another", func(ctx context.Context) (string, error) {
		conn, resp, err := raw(ctx, "CONNECT "+registry+":443 HTTP/1.1\nHost: "+registry+":443\n$AUTH\n\n")
		if err != nil {
			return "", err
		}
		defer func() { _ = conn.Close(); _ = resp.Body.Close() }()
		c := tls.Client(conn, &tls.Config{ServerName: "evil.example.com", InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) // #nosec G402 -- see above
		return "evil.example.com", c.HandshakeContext(ctx)
	})
	try("socket of the gateway", func(ctx context.Context) (string, error) {
		tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", os.Getenv("SOCKET"))
		}}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+registry+"/", nil) // #nosec G704 -- it goes where it wants
		if err != nil {
			return "", err
		}
		// As a proxy is asked: with the whole address, and without a token.
		req.URL.Opaque = "//" + registry + "/"
		resp, err := tr.RoundTrip(req)
		if err != nil {
			return "", err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return "", errors.New(resp.Status)
		}
		return "", nil
	})
}
