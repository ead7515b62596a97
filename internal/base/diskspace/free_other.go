//go:build !linux && !darwin

package diskspace

// Free is not known on other systems.
func Free(string) (bytes uint64, known bool) { return 0, false }
