package runstream

import "bytes"

// Redraft is the text of a step that was sent. A model's answer that breaks off is
// Void and made again (the event step.draft_void), but what was sent in an
// answer of another API's shape cannot be taken back: the new answer is then sent from
// where it goes beyond that text, if it begins with it. Texts are quoted, as
// content of JSON strings, which can be compared as they are.
type Redraft struct {
	sent   []byte // of the answer that counts
	repeat []byte // of the void answer: what the new one must begin with
}

// Begin starts the text of another step.
func (d *Redraft) Begin() { d.sent, d.repeat = d.sent[:0], nil }

// Void makes the text so far void.
func (d *Redraft) Void() { d.sent, d.repeat = nil, append(d.sent, d.repeat...) }

// Next returns the part of a quoted piece that was not sent yet, nil if all of it
// was. It reports false if the piece differs from what was sent; pieces after that
// are new.
func (d *Redraft) Next(quoted []byte) (rest []byte, same bool) {
	piece := quoted[1 : len(quoted)-1]
	d.sent = append(d.sent, piece...)
	n := min(len(piece), len(d.repeat))
	if n == 0 {
		return quoted, true
	}
	if !bytes.Equal(piece[:n], d.repeat[:n]) {
		d.repeat = nil
		return nil, false
	}
	if d.repeat = d.repeat[n:]; n == len(piece) {
		return nil, true
	}
	return append(append([]byte{'"'}, piece[n:]...), '"'), true
}

// Complete reports whether the answer has all that was sent of void ones.
func (d *Redraft) Complete() bool { return len(d.repeat) == 0 }
