package inline

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// stateFile keeps the state of a run. Two files take turns: the older one is
// overwritten in place while the other still holds the state before. A process
// that dies in between leaves a file whose checksum is wrong, and the other
// one counts. Making a new file each time would be simpler and several times
// slower: there are many steps, and a file system is slow to make files where
// it has just deleted many.
//
// Nothing is flushed to the disk: the state has to outlive the process, and a
// machine that loses power loses some steps, which are then repeated.
type stateFile struct {
	slots [2]*os.File
	// last is the number of the newest state, from 1 on; its file is
	// slots[last%2].
	last uint64
}

// errBrokenState: what is stored is not what was written.
var errBrokenState = errors.New("the stored state is damaged")

// openState opens the state kept in dir and returns the newest one, nil where
// none was stored. errBrokenState means that both files are damaged.
func openState(dir string) (_ *stateFile, newest []byte, err error) {
	f := &stateFile{}
	defer func() {
		if err != nil {
			f.close()
			err = fmt.Errorf("open the run's state: %w", err)
		}
	}()
	broken := 0
	for i := range f.slots {
		name := filepath.Join(dir, fmt.Sprintf("state.%d", i))
		if f.slots[i], err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil { //nolint:gosec // G304: a file of our own data directory
			return nil, nil, err
		}
		b, err := io.ReadAll(f.slots[i])
		if err != nil {
			return nil, nil, err
		}
		n, state, ok := parseSlot(b)
		switch {
		case ok && n > f.last:
			f.last, newest = n, state
		case !ok && len(b) > 0:
			broken++
		}
	}
	if broken == len(f.slots) {
		return nil, nil, errBrokenState
	}
	return f, newest, nil
}

// save stores a state in place of the older one of the two.
func (f *stateFile) save(state []byte) error {
	next := f.last + 1
	slot := f.slots[next%2]
	b := formatSlot(next, state)
	if _, err := slot.WriteAt(b, 0); err != nil {
		return fmt.Errorf("save the run's state: %w", err)
	}
	if err := slot.Truncate(int64(len(b))); err != nil {
		return fmt.Errorf("save the run's state: %w", err)
	}
	f.last = next
	return nil
}

func (f *stateFile) close() {
	for _, slot := range f.slots {
		if slot != nil {
			_ = slot.Close() // what was written is written
		}
	}
}

// A slot is a line with the number of the state and a checksum over number and
// state, and then the state.

func formatSlot(n uint64, state []byte) []byte {
	return append([]byte(slotLine(n, state)), state...)
}

func slotLine(n uint64, state []byte) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%d\n", n)
	_, _ = h.Write(state)
	return fmt.Sprintf("%d %x\n", n, h.Sum(nil))
}

func parseSlot(b []byte) (n uint64, state []byte, ok bool) {
	line, state, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return 0, nil, false
	}
	if _, err := fmt.Sscanf(string(line), "%d", &n); err != nil || n == 0 {
		return 0, nil, false
	}
	return n, state, string(line)+"\n" == slotLine(n, state)
}
