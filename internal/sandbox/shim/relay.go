package shim

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// The relay's patience: a bot that restarts is back within seconds; a client
// that waits longer than this shall see its connection close.
const (
	relayPatience = 5 * time.Minute
	relayRetry    = 100 * time.Millisecond
)

// relay joins every connection to a listener with a connection of its own to a
// unix socket. Where the socket is away (not there yet, or its server is being
// restarted) it dials again, so that the client sees a slow answer rather than
// an error.
type relay struct {
	socket   string
	patience time.Duration
}

// serve accepts until the listener is closed or ctx is done.
func (r relay) serve(ctx context.Context, l net.Listener) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors, or a client that went away at once.
			select {
			case <-ctx.Done():
				return
			case <-time.After(relayRetry):
				continue
			}
		}
		go r.join(ctx, conn)
	}
}

func (r relay) join(ctx context.Context, client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := r.dial(ctx)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = client.Close(); _ = server.Close() })
	defer stop()

	var both sync.WaitGroup
	both.Go(func() { pump(server, client) })
	both.Go(func() { pump(client, server) })
	both.Wait()
}

// pump copies one direction and passes its end on; the other direction stays
// open, as TCP allows. After an error the other direction is of no use either.
func pump(dst, src net.Conn) {
	if _, err := io.Copy(dst, src); err != nil {
		_ = dst.Close()
		_ = src.Close()
		return
	}
	if half, ok := dst.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

func (r relay) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "unix", r.socket)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(relayRetry):
		}
	}
}
