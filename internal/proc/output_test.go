package proc

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"
)

// gated is a sink that takes nothing before it may.
type gated struct {
	bytes.Buffer
	may chan struct{}
}

func (g *gated) Write(p []byte) (int, error) {
	<-g.may
	return g.Buffer.Write(p)
}

// A sink that is slower than Run is patient with descendants loses nothing of
// what was written before the process ended. A descendant that still holds the
// pipe is not waited for.
func TestDrainGivesASlowSinkAll(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		held bool
	}{{"ended", false}, {"held open", true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			// The drain closes its own writing end when it starts.
			unused, own, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			_ = unused.Close()
			sink := &gated{may: make(chan struct{})}
			d := &drain{r: r, w: own, sink: sink, done: make(chan error, 1)}
			d.start()
			said := bytes.Repeat([]byte("0123456789\n"), 5000)
			if _, err := w.Write(said); err != nil {
				t.Fatal(err)
			}
			if tt.held {
				defer func() { _ = w.Close() }()
			} else if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil { // as finish does when it is late
				t.Fatal(err)
			}
			close(sink.may)
			late := make(chan struct{})
			close(late)
			if err := d.finish(late); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(sink)
			if err != nil || !bytes.Equal(got, said) {
				t.Errorf("%d of %d bytes came, %v", len(got), len(said), err)
			}
		})
	}
}
