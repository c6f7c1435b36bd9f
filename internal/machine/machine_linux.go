package machine

import (
	"bytes"
	"os"
	"strconv"
)

// freeMemory is what could be had without swapping.
func freeMemory() int64 { return meminfo("MemAvailable:") }

// totalMemory is that of the machine, or what this process's group may have of it.
func totalMemory() int64 {
	total := meminfo("MemTotal:")
	src, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return total
	}
	most, err := strconv.ParseInt(string(bytes.TrimSpace(src)), 10, 64)
	if err != nil || most <= 0 || total > 0 && most > total { // "max"
		return total
	}
	return most
}

func meminfo(key string) int64 {
	src, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return Unknown
	}
	for line := range bytes.Lines(src) {
		fields := bytes.Fields(line)
		if len(fields) < 2 || string(fields[0]) != key {
			continue
		}
		kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
		if err != nil {
			return Unknown
		}
		return kib << 10
	}
	return Unknown
}
