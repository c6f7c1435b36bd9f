//go:build !linux && !darwin

package machine

// FreeDisk is not known here.
func FreeDisk(string) (bytes, files int64, err error) { return Unknown, Unknown, nil }

func freeDescriptors() int64 { return Unknown }

func freeMemory() int64 { return Unknown }

func totalMemory() int64 { return Unknown }
