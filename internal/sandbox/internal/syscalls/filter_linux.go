package syscalls

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Filter is docker's default seccomp profile, for a command without capabilities,
// as the kernel takes it. It is compiled once: no start waits for it.
var Filter = sync.OnceValues(func() ([]byte, error) {
	program, err := assemble()
	if err != nil {
		return nil, fmt.Errorf("compile the seccomp profile: %w", err)
	}
	var out []byte
	for _, in := range program {
		out = binary.NativeEndian.AppendUint16(out, in.Code)
		out = append(out, in.Jt, in.Jf)
		out = binary.NativeEndian.AppendUint32(out, in.K)
	}
	return out, nil
})

// The fields of struct seccomp_data, in bytes. Both machines keep the low half of
// an argument first.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// assemble makes a program that decides on the number of the call by halves, and
// on arguments where the profile does. Calls of another architecture (32 bits, x32),
// and those that are newer than our numbers, are not there (ENOSYS), as runc has it:
// programs then fall back to what there was before.
func assemble() ([]unix.SockFilter, error) {
	profile, err := seccomp.GetDefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	if err != nil {
		return nil, err
	}
	numbers, newest, err := numbersOfSyscalls()
	if err != nil {
		return nil, err
	}
	otherwise, err := actionOf(profile.DefaultAction, profile.DefaultErrnoRet)
	if err != nil {
		return nil, err
	}
	calls := map[uint32][]specs.LinuxSyscall{}
	for _, call := range profile.Syscalls {
		for _, name := range call.Names {
			// Names of other machines have no number here.
			if nr, ok := numbers[name]; ok {
				calls[nr] = append(calls[nr], call)
			}
		}
	}
	// Neighbours that are decided alike are one range.
	var ranges []callRange
	add := func(from uint32, body []unix.SockFilter) {
		if n := len(ranges); n == 0 || !slices.Equal(ranges[n-1].body, body) {
			ranges = append(ranges, callRange{from, body})
		}
	}
	var next uint32
	for _, nr := range slices.Sorted(maps.Keys(calls)) {
		if nr > next {
			add(next, []unix.SockFilter{ret(otherwise)})
		}
		body, err := decide(calls[nr], otherwise)
		if err != nil {
			return nil, err
		}
		add(nr, body)
		next = nr + 1
	}
	if next <= newest {
		add(next, []unix.SockFilter{ret(otherwise)})
	}
	absent := ret(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
	add(newest+1, []unix.SockFilter{absent})
	return append([]unix.SockFilter{
		load(offsetArch), jump(unix.BPF_JEQ, auditArch, 1, 0), absent, load(offsetNumber),
	}, search(ranges)...), nil
}

// callRange is what becomes of the calls from one number up to the next range.
type callRange struct {
	from uint32
	body []unix.SockFilter
}

// search finds the range of the number that is loaded.
func search(ranges []callRange) []unix.SockFilter {
	if len(ranges) == 1 {
		return ranges[0].body
	}
	half := len(ranges) / 2
	below, above := search(ranges[:half]), search(ranges[half:])
	out := []unix.SockFilter{
		jump(unix.BPF_JGE, ranges[half].from, 0, 1), {Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(below))}, // #nosec G115 -- short
	}
	return append(append(out, below...), above...)
}

// decide is the program for one call: its first rule that fits counts.
func decide(rules []specs.LinuxSyscall, otherwise uint32) ([]unix.SockFilter, error) {
	var out []unix.SockFilter
	for _, rule := range rules {
		action, err := actionOf(rule.Action, rule.ErrnoRet)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rule.Names, err)
		}
		if len(rule.Args) == 0 {
			return append(out, ret(action)), nil
		}
		body := []unix.SockFilter{ret(action)}
		for _, arg := range slices.Backward(rule.Args) {
			if body, err = when(arg, body); err != nil {
				return nil, fmt.Errorf("%s: %w", rule.Names, err)
			}
		}
		out = append(out, body...)
	}
	return append(out, ret(otherwise)), nil
}

// when is a program that goes on with then where the argument is as the profile
// wants it, and behind it otherwise.
func when(arg specs.LinuxSeccompArg, then []unix.SockFilter) ([]unix.SockFilter, error) {
	if arg.Index > 5 {
		return nil, fmt.Errorf("argument %d", arg.Index)
	}
	low := uint32(offsetArgs + 8*arg.Index) // #nosec G115 -- at most 5
	mask, want := ^uint64(0), arg.Value
	last := uint16(unix.BPF_JEQ)
	switch arg.Op {
	case specs.OpEqualTo:
	case specs.OpMaskedEqual:
		mask, want = arg.Value, arg.ValueTwo
	case specs.OpLessThan:
		if arg.Value>>32 != 0 {
			return nil, fmt.Errorf("comparison with %#x", arg.Value)
		}
		last = unix.BPF_JGE
	default:
		return nil, fmt.Errorf("comparison %s", arg.Op)
	}
	skip := uint8(len(then)) // #nosec G115 -- a few
	and := func(mask uint64) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: uint32(mask)} // #nosec G115 -- its low half is meant
	}
	half := jump(last, uint32(want), 0, skip) // #nosec G115 -- its low half is meant
	if last == unix.BPF_JGE {
		half.Jt, half.Jf = half.Jf, half.Jt // less is not at least
	}
	return append([]unix.SockFilter{
		load(low + 4), and(mask >> 32), jump(unix.BPF_JEQ, uint32(want>>32), 0, skip+3), // #nosec G115 -- half
		load(low), and(mask), half,
	}, then...), nil
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(how uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | how, Jt: yes, Jf: no, K: k}
}

func ret(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// actionOf is what the kernel shall do, by the profile's name for it.
func actionOf(action specs.LinuxSeccompAction, errno *uint) (uint32, error) {
	switch action {
	case specs.ActAllow:
		return unix.SECCOMP_RET_ALLOW, nil
	case specs.ActErrno:
		if errno == nil {
			return unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM), nil
		}
		return unix.SECCOMP_RET_ERRNO | uint32(*errno)&unix.SECCOMP_RET_DATA, nil // #nosec G115 -- an error's number
	default:
		return 0, fmt.Errorf("action %s", action)
	}
}

// numbersOfSyscalls reads syscallNumbers.
func numbersOfSyscalls() (numbers map[string]uint32, newest uint32, err error) {
	numbers = map[string]uint32{}
	for word := range strings.FieldsSeq(syscallNumbers) {
		name, number, _ := strings.Cut(word, "=")
		nr, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, 0, fmt.Errorf("number of %s: %w", name, err)
		}
		numbers[name] = uint32(nr)
		newest = max(newest, uint32(nr))
	}
	return numbers, newest, nil
}
