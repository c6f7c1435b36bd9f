package config

// Devcontainer says what sandboxes take from a repository's devcontainer.json, on
// its default branch.
type Devcontainer string

const (
	// DevcontainerOff: nothing.
	DevcontainerOff Devcontainer = "off"
	// DevcontainerImage: the name of an image that the engine has.
	DevcontainerImage Devcontainer = "image"
	// DevcontainerBuild: that, or an image that the engine builds.
	DevcontainerBuild Devcontainer = "build"
)

// IsImage says whether s looks like the reference of an image.
func IsImage(s string) bool { return imagePattern().MatchString(s) }
