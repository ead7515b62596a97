package model

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Inputs are the media that a model takes in messages. What is nil is not known.
type Inputs struct{ Images, Documents, Audio *Medium }

// Medium is how a model takes one kind of medium.
type Medium struct {
	None  bool  // it takes none
	Count int   // how many one request may have; 0: not known
	Bytes int64 // how large each may be; 0: not known
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom: true, false, or an object with max_count
// and max_bytes.
func (m *Medium) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case 't', 'f':
		token, err := dec.ReadToken()
		*m = Medium{None: err == nil && !token.Bool()}
		return err
	}
	var limits struct {
		Count int   `json:"max_count"`
		Bytes int64 `json:"max_bytes"`
	}
	if err := json.UnmarshalDecode(dec, &limits, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	if limits.Count < 0 || limits.Count > maxContext || limits.Bytes < 0 || limits.Bytes > maxMediumBytes {
		return fmt.Errorf("max_count or max_bytes is negative or too large")
	}
	*m = Medium{Count: limits.Count, Bytes: limits.Bytes}
	return nil
}

// maxMediumBytes bounds the limits that can be named.
const maxMediumBytes = 1 << 40

// inputFields are inputs as people write them.
type inputFields struct {
	Images    *Medium `json:"images"`
	Documents *Medium `json:"documents"`
	Audio     *Medium `json:"audio"`
}

// Over returns in with what known has of the same model, where in has nothing.
func (in Inputs) Over(known Inputs) Inputs {
	for i, have := range []**Medium{&in.Images, &in.Documents, &in.Audio} {
		if *have == nil {
			*have = []*Medium{known.Images, known.Documents, known.Audio}[i]
		}
	}
	return in
}

// The kinds of media, as requests name them.
const (
	images    = "images"
	documents = "documents"
	audios    = "audio"
)

func (in *Inputs) of(kind string) *Medium {
	switch kind {
	case images:
		return in.Images
	case documents:
		return in.Documents
	case audios:
		return in.Audio
	}
	return nil
}

// sentMedium is a content part that is not text.
type sentMedium struct {
	kind  string // one of the above; "": text, or of a kind about which nothing is said
	name  string // of a file
	bytes int64  // 0: not known, as behind an address
}

// mediumOf reads a content part of chat completions.
func mediumOf(part jsontext.Value) (m sentMedium) {
	var p struct {
		Type  string `json:"type"`
		Image struct {
			URL jsontext.Value `json:"url"`
		} `json:"image_url"`
		Audio struct {
			Data jsontext.Value `json:"data"`
		} `json:"input_audio"`
		File struct {
			Name string         `json:"filename"`
			Data jsontext.Value `json:"file_data"`
		} `json:"file"`
	}
	if json.Unmarshal(part, &p, jsontext.AllowInvalidUTF8(true)) != nil {
		return m
	}
	switch p.Type {
	case "image_url":
		return sentMedium{kind: images, bytes: dataSize(p.Image.URL)}
	case "input_audio":
		return sentMedium{kind: audios, bytes: base64Size(p.Audio.Data)}
	case "file":
		m = sentMedium{kind: documents, name: p.File.Name, bytes: dataSize(p.File.Data)}
		for prefix, kind := range map[string]string{`"data:image/`: images, `"data:audio/`: audios, `"data:video/`: "", `"data:text/`: ""} {
			if bytes.HasPrefix(p.File.Data, []byte(prefix)) {
				m.kind = kind
			}
		}
	}
	return m
}

// dataSize returns how many bytes the data of an address of the form data: has, quoted; 0
// for other addresses.
func dataSize(quoted jsontext.Value) int64 {
	if !bytes.HasPrefix(quoted, []byte(`"data:`)) {
		return 0
	}
	_, data, _ := bytes.Cut(quoted, []byte(","))
	return base64Size(data)
}

func base64Size(quoted []byte) int64 { return int64(len(bytes.Trim(quoted, `"=`))) * 3 / 4 }

// Misfit is a content part that a model does not take.
type Misfit struct {
	Part   int    // its index
	Kind   string // images, documents or audio
	Reason string // what is wrong and how to repair it, as sentences
}

// Misfits returns which parts of a message the target is known not to take.
func (t *Target) Misfits(parts []jsontext.Value) (all []Misfit) {
	if t.Capabilities.Inputs == (Inputs{}) {
		return nil
	}
	counts := map[string]int{}
	for i, part := range parts {
		m := mediumOf(part)
		counts[m.kind]++
		if reason := t.misfit(&m, counts[m.kind]); reason != "" {
			all = append(all, Misfit{i, m.kind, reason})
		}
	}
	return all
}

// misfit returns why the target does not take a medium, the nth of its kind in a request.
func (t *Target) misfit(m *sentMedium, nth int) string {
	limit := t.Capabilities.Inputs.of(m.kind)
	if limit == nil {
		return ""
	}
	one, instead := "image", "describe it in the text"
	switch m.kind {
	case documents:
		one, instead = "document", "send its text"
	case audios:
		one, instead = "recording", "send what it says as text"
	}
	switch {
	case limit.None:
		return fmt.Sprintf("The model %q takes no %ss. Choose another model, or %s.", t.Model, one, instead)
	case limit.Bytes > 0 && m.bytes > limit.Bytes:
		return fmt.Sprintf("The model %q takes %ss of up to %d bytes, and this one has %d. Make it smaller, choose another model, or %s.",
			t.Model, one, limit.Bytes, m.bytes, instead)
	case limit.Count > 0 && nth > limit.Count:
		return fmt.Sprintf("The model %q takes up to %d %ss at once. Send fewer, or choose another model.", t.Model, limit.Count, one)
	}
	return ""
}

// fitInputs returns the messages with media that the target does not take named in words,
// the newest media being kept where there are too many, and the kinds of which some were.
func (t *Target) fitInputs(messages []Message) (fit []Message, unseen []string) {
	if t.Capabilities.Inputs == (Inputs{}) {
		return messages, nil
	}
	fit = messages
	counts := map[string]int{}
	for i, m := range slices.Backward(messages) {
		var parts []jsontext.Value
		for j, part := range slices.Backward(m.Parts) {
			medium := mediumOf(part)
			counts[medium.kind]++
			if t.misfit(&medium, counts[medium.kind]) == "" {
				continue
			}
			if parts == nil {
				parts = slices.Clone(m.Parts)
			}
			parts[j] = medium.inWords()
			if !slices.Contains(unseen, medium.kind) {
				unseen = append(unseen, medium.kind)
			}
		}
		if parts == nil {
			continue
		}
		if &fit[0] == &messages[0] {
			fit = slices.Clone(messages)
		}
		fit[i].Parts = parts
	}
	slices.Sort(unseen)
	return fit, unseen
}

// InWords returns a text that stands for a content part that a model does not take.
func InWords(part jsontext.Value) jsontext.Value {
	m := mediumOf(part)
	return m.inWords()
}

func (m *sentMedium) inWords() jsontext.Value {
	switch {
	case m.kind == images:
		return TextPart("[An image is attached, which this model cannot see.]")
	case m.kind == audios:
		return TextPart("[A recording is attached, which this model cannot hear.]")
	case m.name == "":
		return TextPart("[A file is attached, which this model cannot read.]")
	}
	return TextPart("[The file \"" + strings.ToValidUTF8(m.name, "\uFFFD") + "\" is attached, which this model cannot read.]")
}

// generate calls a client with what the target takes of the request's media. What it does
// not take is named in words, and counts as dropped.
func generate(ctx context.Context, c Client, req Request, sink func(Delta)) (Response, error) {
	var unseen []string
	req.Messages, unseen = req.Target.fitInputs(req.Messages)
	resp, err := c.Generate(ctx, req, sink)
	if unseen != nil && err == nil {
		resp.Dropped = append(slices.Clip(resp.Dropped), unseen...)
	}
	return resp, err
}
