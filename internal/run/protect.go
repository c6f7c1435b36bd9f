package run

// ProtectedPolicy says what becomes of an agent's changes to protected paths.
type ProtectedPolicy string

// The policies on protected paths.
const (
	// ProtectedHold holds them back: the rest lands, and a person gets them as a
	// patch. The zero value means the same.
	ProtectedHold ProtectedPolicy = "hold"
	// ProtectedRefuse fails the attempt that made them.
	ProtectedRefuse ProtectedPolicy = "refuse"
	// ProtectedAllow lets them land, but for workflows, which are held back.
	ProtectedAllow ProtectedPolicy = "allow"
)

// Protection is what a repository says of protected paths.
type Protection struct {
	Policy ProtectedPolicy
	// Paths are protected besides those that always are: patterns as path.Match
	// has them, of a whole path where they hold a slash, of a name anywhere
	// where they do not; one that ends in a slash means everything below.
	Paths []string
}
