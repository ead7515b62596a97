package httpapi

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

const (
	// formSlack is what a form may have around its file.
	formSlack = 64 << 10
	// formField is the field that holds the file.
	formField = "file"
	// uploadWeight is what a file that is read counts against the budget of big
	// bodies: it is never in memory as a whole.
	uploadWeight = 512 << 10
)

var (
	uploadType  = reflect.TypeFor[route.Upload]()
	contentType = reflect.TypeFor[*route.Content]()
)

var (
	errUploadTooLarge = fault.New(fault.TooLarge, "", "The upload is larger than the 50 MiB that a file may have.")
	errFormTooLarge   = fault.New(fault.TooLarge, "", "The form has more than 64 KiB before its file; put the file first.")
	errNoFile         = fault.BadFields(fault.Field{Field: formField, Message: "the form has no file in a field of this name"})
)

func errForm(cause error) error {
	return fault.New(fault.Malformed, "", "The form cannot be read: it is no well-formed multipart/form-data with a boundary.").Because(cause)
}

// bindUpload gives the file of a request, unread. What it holds is released
// after the call.
func (b *binder) bindUpload(x *exchange, r *http.Request, into *route.Upload) (body, error) {
	media, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	takes := func(form string) bool { return slices.Contains(b.body.uploads, form) }
	form := takes(route.Form) && strings.HasPrefix(media, "multipart/")
	if !form && !takes(route.Bytes) {
		if takes(route.JSON) && isJSON(r.Header.Get("Content-Type")) {
			held, err := b.bodies.read(x, r, false, true)
			if err != nil {
				return held, err
			}
			into.JSON = held.data
			return held, schema.Syntax(held.data)
		}
		return body{}, fault.New(fault.UnsupportedMedia, "", "The body must be one of %s, and say so in its Content-Type.", strings.Join(b.body.uploads, ", "))
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return body{}, errEncoding
	}
	most := int64(MaxUpload)
	if form {
		most += formSlack
	}
	if r.ContentLength > most {
		return body{}, errUploadTooLarge
	}
	held := body{from: b.bodies}
	if r.ContentLength < 0 || r.ContentLength > bigBody {
		held.weight = min(uploadWeight, b.bodies.size)
		if err := b.bodies.acquire(x, held.weight); err != nil {
			return body{}, err
		}
		b.bodies.hurry(x, r.ContentLength) // anew: it may have waited for its turn
	}
	in := &incoming{x: x, from: r.Body, left: most, over: errUploadTooLarge}
	if !form {
		into.Type, into.Size, into.Content = r.Header.Get("Content-Type"), r.ContentLength, in
		return held, nil
	}
	return held, in.form(params["boundary"], into)
}

// incoming is the body of an upload: bounded, and with errors that are
// refusals.
type incoming struct {
	x    *exchange
	from io.Reader
	left int64 // bytes that may still come
	over error // of more than that
	err  error
}

// Read implements io.Reader.
func (in *incoming) Read(p []byte) (int, error) {
	if in.err != nil {
		return 0, in.err
	}
	n, err := in.from.Read(p)
	in.left -= int64(n)
	switch {
	case in.left < 0:
		in.err = in.over
		return 0, in.err
	case err == nil:
		return n, nil
	case err == io.EOF:
		_ = http.NewResponseController(in.x.w).SetReadDeadline(time.Time{}) // else it would end the request's context
		in.err = err
	case errors.Is(err, os.ErrDeadlineExceeded):
		in.x.Header()["Connection"] = []string{"close"}
		in.err = errTimeout
	default:
		in.err = errCutOff // whatever it is, the rest does not come
	}
	return n, in.err
}

// form finds the file in a form. What stands before it is left out.
func (in *incoming) form(boundary string, into *route.Upload) error {
	if boundary == "" {
		return errForm(nil)
	}
	in.left, in.over = formSlack, errFormTooLarge // headers are read into memory
	form := multipart.NewReader(in, boundary)
	for {
		part, err := form.NextRawPart()
		switch {
		case err == io.EOF:
			return errNoFile
		case err != nil:
			return in.told(err)
		case part.FormName() != formField:
			continue
		}
		in.left, in.over = in.left+MaxUpload, errUploadTooLarge
		*into = route.Upload{
			Name: part.FileName(), Type: part.Header.Get("Content-Type"), Size: -1, Content: filePart{part, in},
		}
		return nil
	}
}

// told says what is wrong with a form: what is wrong with the body it came in,
// if that is it.
func (in *incoming) told(err error) error {
	if in.err != nil && in.err != io.EOF {
		return in.err
	}
	return errForm(err)
}

// filePart is the file of a form. At its end it reads the rest of the form, so
// that a form that is cut off behind its file counts as that.
type filePart struct {
	part *multipart.Part
	in   *incoming
}

// Read implements io.Reader.
func (f filePart) Read(p []byte) (int, error) {
	n, err := f.part.Read(p)
	if err == nil {
		return n, nil
	}
	if err != io.EOF {
		return n, f.in.told(err)
	}
	if _, err := io.Copy(io.Discard, f.in); err != nil {
		return n, f.in.told(err)
	}
	return n, io.EOF
}
