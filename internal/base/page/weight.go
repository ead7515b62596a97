package page

// maxBytes is how many bytes of items make a page full, whatever its limit: a page
// is in memory as a whole, for each of those who ask for it at the same time.
const maxBytes = 4 << 20

// Weight is what is on a page so far.
type Weight struct{ bytes, items int }

// Full counts an item of some bytes, and says whether the page was full before
// it: then nothing more needs to be read. An item that is larger than a page
// has one to itself.
func (w *Weight) Full(size int) bool {
	w.bytes += size
	w.items++
	return w.items > 1 && w.bytes > maxBytes
}

// Cut leaves of what was found what one page takes: at most limit, and not more
// than fits. More says whether something was left out.
func Cut[T any](found []T, limit int, size func(T) int) (items []T, more bool) {
	var w Weight
	for i, item := range found {
		if i == limit || w.Full(size(item)) {
			return found[:i], true
		}
	}
	return found, false
}
