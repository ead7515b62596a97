package textindex

import (
	"math"
	"math/bits"
	"unsafe"
)

// vector is the direction of an embedding, a byte for each number: cosines are off by
// less than a hundredth. The sign bits of all numbers find candidates without
// multiplying.
type vector struct {
	values []int8
	scale  float32 // of values, so that the length is 1
	signs  []uint64
}

// Quantize returns the direction of an embedding as bytes, the largest number as 127 or
// -127. It returns nil for one that has no direction: only zeros, or a number that is
// infinite or none. Bytes that were quantized before are returned unchanged.
func Quantize(embedding []float32) []int8 {
	var largest float64
	for _, f := range embedding {
		largest = max(largest, math.Abs(float64(f)))
	}
	if largest == 0 || math.IsNaN(largest) || math.IsInf(largest, 0) {
		return nil
	}
	values := make([]int8, len(embedding))
	for i, f := range embedding {
		values[i] = int8(math.RoundToEven(float64(f) / largest * math.MaxInt8))
	}
	return values
}

// newVector returns nil for what has no direction.
func newVector(embedding []float32) *vector {
	values := Quantize(embedding)
	if values == nil {
		return nil
	}
	v := &vector{values: values, signs: make([]uint64, (len(values)+63)/64)}
	v.scale = float32(1 / math.Sqrt(float64(product(values, values))))
	for i, n := range values {
		if n > 0 {
			v.signs[i/64] |= 1 << (i % 64)
		}
	}
	return v
}

func (v *vector) bytes() int {
	if v == nil {
		return 0
	}
	return int(unsafe.Sizeof(*v)) + len(v.values) + 8*len(v.signs)
}

// cosine returns the cosine of two vectors of equal length.
func (v *vector) cosine(w *vector) float64 {
	return float64(product(v.values, w.values)) * float64(v.scale) * float64(w.scale)
}

// differing returns how many numbers of two vectors of equal length have another sign.
func (v *vector) differing(w *vector) int {
	n, other := 0, w.signs[:len(v.signs)]
	for i, s := range v.signs {
		n += bits.OnesCount64(s ^ other[i])
	}
	return n
}

// product returns the dot product of two vectors of equal length. Several sums at a time
// keep the processor's units busy; none can overflow below 100,000 numbers.
func product(a, b []int8) int32 {
	var s0, s1, s2, s3 int32
	for len(a) >= 8 && len(b) >= 8 {
		s0 += int32(a[0])*int32(b[0]) + int32(a[4])*int32(b[4])
		s1 += int32(a[1])*int32(b[1]) + int32(a[5])*int32(b[5])
		s2 += int32(a[2])*int32(b[2]) + int32(a[6])*int32(b[6])
		s3 += int32(a[3])*int32(b[3]) + int32(a[7])*int32(b[7])
		a, b = a[8:], b[8:]
	}
	for i := range min(len(a), len(b)) {
		s0 += int32(a[i]) * int32(b[i])
	}
	return s0 + s1 + s2 + s3
}

const (
	// exactNumbers is how many numbers of vectors a search compares without looking for
	// candidates first.
	exactNumbers = 12 << 20
	// candidates is how many vectors are compared at least once there are more, and
	// candidatesOf how many for each that is wanted.
	candidates   = 1000
	candidatesOf = 20
)

// nearest calls each with the cosines of the vectors that are like one. In a large index
// these are not all, but more than depth of those that are the most similar.
func (x *Index) nearest(q *Query, like *vector, depth int, each func(slot int32, cosine float64)) {
	compare := func(at int) { each(int32(at), x.slots[at].vector.cosine(like)) }
	eligible := func(at int) bool {
		s := &x.slots[at]
		return s.vector != nil && len(s.vector.values) == len(like.values) && x.wanted(q, s)
	}
	most := max(candidates, candidatesOf*depth)
	if x.vectors <= most || x.vectors*len(like.values) <= x.exact {
		for at := range x.slots {
			if eligible(at) {
				compare(at)
			}
		}
		return
	}
	distances := make([]int32, len(x.slots)) // plus one; 0: not wanted
	counts := make([]int, len(like.values)+1)
	for at := range x.slots {
		if eligible(at) {
			d := x.slots[at].vector.differing(like)
			distances[at] = int32(d) + 1
			counts[d]++
		}
	}
	farthest := 0
	for n := counts[0]; n < most && farthest < len(like.values); n += counts[farthest] {
		farthest++
	}
	for at, d := range distances {
		if d > 0 && int(d)-1 <= farthest {
			compare(at)
		}
	}
}
