package page

// maxBytes is how many bytes of items make a page full, whatever its limit: every
// request that reads a page holds all of it in memory.
const maxBytes = 4 << 20

// Weight counts what is on a page so far.
type Weight struct{ bytes, items int }

// Full counts an item of size bytes, and reports whether the page was full
// without it: then nothing more needs to be read. An item that is larger than a
// page has a page to itself.
func (w *Weight) Full(size int) bool {
	w.bytes += size
	w.items++
	return w.items > 1 && w.bytes > maxBytes
}

// Cut returns the items that one page takes: at most limit, and not more than
// fit. more reports whether something was left out.
func Cut[T any](found []T, limit int, size func(T) int) (items []T, more bool) {
	var w Weight
	for i, item := range found {
		if i == limit || w.Full(size(item)) {
			return found[:i], true
		}
	}
	return found, false
}
