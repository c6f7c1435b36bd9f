package supervise

// Level says how worrying the state of a run is.
type Level int

// The levels, in rising order.
const (
	None Level = iota
	Warning
	Elevated
	Critical
)

// String implements fmt.Stringer.
func (l Level) String() string {
	switch l {
	case None:
		return "none"
	case Warning:
		return "warning"
	case Elevated:
		return "elevated"
	case Critical:
		return "critical"
	default:
		return "unknown"
	}
}
