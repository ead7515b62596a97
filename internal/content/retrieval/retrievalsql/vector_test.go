package retrievalsql

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"agentd/internal/content/textindex"
)

// Vectors are stored as bytes; those that were stored as numbers of four bytes are read.
func TestVectorsAreStoredAsBytes(t *testing.T) {
	t.Parallel()
	for _, v := range [][]float32{{1, -2.5}, {0.5, 0.25, -0.125, 0}, {3e-20}} {
		stored := encodeVector(v).([]byte)
		if len(stored) != 4+len(v) {
			t.Errorf("%v takes %d bytes", v, len(stored))
		}
		if got, want := textindex.Quantize(decodeVector(stored)), textindex.Quantize(v); !slices.Equal(got, want) {
			t.Errorf("%v is read as %v", v, got)
		}
		var before []byte
		for _, f := range v {
			before = binary.LittleEndian.AppendUint32(before, math.Float32bits(f))
		}
		if got := decodeVector(before); !slices.Equal(got, v) {
			t.Errorf("%v of before is read as %v", v, got)
		}
	}
	for _, none := range [][]float32{nil, {0, 0}} {
		if got := encodeVector(none); got != nil {
			t.Errorf("%v is stored as %v", none, got)
		}
	}
	if got := decodeVector(nil); got != nil {
		t.Errorf("NULL is read as %v", got)
	}
}
