package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/gateway/egress"
)

const (
	// maxHello bounds what is read to find the name of a host: the most that
	// package crypto/tls takes for a handshake message, in its records.
	maxHello = 70 << 10
	// extECH is encrypted_client_hello of RFC 9849, which hides the name.
	extECH = 0xfe0d
)

// accessDenied is the TLS alert of that name.
var accessDenied = []byte{21, 3, 3, 0, 2, 2, 49}

// tunnel connects a start to a host for TLS. The first message has to name the
// host that the tunnel is for, or another that is served at the same address
// would be reached by it; then bytes pass as they come, and are not looked at.
// On an error nothing was answered.
func (h *handler) tunnel(w http.ResponseWriter, r *http.Request, start, host string) error {
	ctx, cancel := context.WithTimeout(r.Context(), maxTunnel)
	defer cancel()
	select {
	case h.tunnels <- struct{}{}:
		defer func() { <-h.tunnels }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	up, err := h.cfg.dial(ctx, "tcp", net.JoinHostPort(host, "443"))
	if errors.Is(err, errNotPublic) {
		return &blocked{host, notPublic}
	}
	if err != nil {
		return fmt.Errorf("connect to %s: %w", host, err)
	}
	defer func() { _ = up.Close() }()
	down, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer func() { _ = down.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = down.Close(); _ = up.Close() })
	defer stop()
	if _, err := io.WriteString(down, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return nil // it went away
	}
	if err := down.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return nil
	}
	// Not read through the server's own reader: at the client's end that cancels the
	// request, and a client that is done writing would lose the answer.
	said := io.MultiReader(io.LimitReader(buffered, int64(buffered.Reader.Buffered())), down)
	hello, reason := readHello(ctx, said, host)
	if reason != "" {
		// Noted before it is told: an agent that ends at the answer shall not end before its report is whole.
		_ = h.cfg.Meter.Block(ctx, start, host, reason)
		// No answer is left to tell it by, but for TLS itself.
		_, _ = down.Write(accessDenied)
		return nil
	}
	if err := down.SetReadDeadline(time.Time{}); err != nil || len(hello) == 0 {
		return nil
	}
	passage, ctx, err := h.cfg.Meter.Pass(ctx, start, host)
	if err != nil {
		return nil // the start has ended
	}
	counted := &countedConn{Conn: up, of: h.traffic(start)}
	defer func() {
		passage.Close(ctx, counted.sent.Load(), counted.received.Load())
		h.noteOver(ctx, start, host)
	}()
	stopPassage := context.AfterFunc(ctx, func() { _ = down.Close(); _ = up.Close() })
	defer stopPassage()
	counted.idle = time.AfterFunc(idleTimeout, func() { _ = down.Close(); _ = up.Close() })
	defer counted.idle.Stop()

	if _, err := counted.Write(hello); err != nil {
		return nil
	}
	var both sync.WaitGroup
	both.Go(func() { splice(counted, up, said, down) })
	both.Go(func() { splice(down, down, counted, up) })
	both.Wait()
	return nil
}

// splice copies one direction and passes its end on; the other stays open, as TCP
// allows. After an error that one is of no use either.
func splice(dst io.Writer, to net.Conn, src io.Reader, from net.Conn) {
	// Not io.Copy: it would let a reader or writer do the work that buffers, and
	// the bytes would not be counted as they come.
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, werr := dst.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
			return
		default:
			_ = to.Close()
			_ = from.Close()
			return
		}
	}
}

// readHello reads the first message of a TLS client, which has to name the host.
// reason says why it is not to be passed on; without a message there is none.
func readHello(ctx context.Context, r io.Reader, host string) (hello []byte, reason string) {
	var read bytes.Buffer
	var name string
	var hidden, seen bool
	enough := errors.New("the name is known")
	server := tls.Server(&helloConn{r: io.TeeReader(io.LimitReader(r, maxHello), &read)}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			seen, name, hidden = true, info.ServerName, slices.Contains(info.Extensions, extECH)
			return nil, enough
		},
	})
	// It fails in any case: there is no certificate, and nothing is sent.
	_ = server.HandshakeContext(ctx)
	own, ok := egress.Name(name)
	switch {
	case read.Len() == 0:
		return nil, ""
	case !seen:
		return nil, notTLS
	case !ok || hidden:
		return nil, noName
	case own != host:
		return nil, otherName
	}
	return read.Bytes(), ""
}

// helloConn is a connection to a client of which only the first message is read,
// and to which nothing is said.
type helloConn struct {
	net.Conn
	r io.Reader
}

func (c *helloConn) Read(p []byte) (int, error)       { return c.r.Read(p) }
func (*helloConn) Write(p []byte) (int, error)        { return len(p), nil }
func (*helloConn) Close() error                       { return nil }
func (*helloConn) SetDeadline(time.Time) error        { return nil }
func (*helloConn) SetReadDeadline(t time.Time) error  { return nil }
func (*helloConn) SetWriteDeadline(t time.Time) error { return nil }
