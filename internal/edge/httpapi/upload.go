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
	// formSlack is how many bytes a form may have around its file.
	formSlack = 64 << 10
	// formField is the field that holds the file.
	formField = "file"
	// uploadWeight is what an upload counts against the memory budget: it is never
	// in memory as a whole.
	uploadWeight = 512 << 10
)

var (
	uploadType  = reflect.TypeFor[route.Upload]()
	contentType = reflect.TypeFor[*route.Content]()
)

var (
	errUploadTooLarge = fault.New(fault.TooLarge, "", "The upload is larger than 50 MiB, the limit for files.")
	errFormTooLarge   = fault.New(fault.TooLarge, "", "The form has more than 64 KiB before its file; put the file first.")
	errNoFile         = fault.BadFields(fault.Field{Field: formField, Message: "the form has no file in this field"})
)

func errForm(cause error) error {
	return fault.New(fault.Malformed, "", "The body is not well-formed multipart/form-data with a boundary.").Because(cause)
}

// bindUpload binds the file of a request, unread. The caller releases it.
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
		return body{}, fault.New(fault.UnsupportedMedia, "", "The Content-Type must be one of %s.", strings.Join(b.body.uploads, ", "))
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return body{}, errEncoding
	}
	limit := int64(MaxUpload)
	if form {
		limit += formSlack
	}
	if r.ContentLength > limit {
		return body{}, errUploadTooLarge
	}
	held := body{from: b.bodies}
	if r.ContentLength < 0 || r.ContentLength > largeBody {
		held.weight = min(uploadWeight, b.bodies.size)
		if err := b.bodies.acquire(x, held.weight); err != nil {
			return body{}, err
		}
		b.bodies.setBodyDeadline(x, r.ContentLength) // again: it may have waited for the budget
	}
	in := &limitedBody{x: x, from: r.Body, remaining: limit, tooLarge: errUploadTooLarge}
	if !form {
		into.Type, into.Size, into.Content = r.Header.Get("Content-Type"), r.ContentLength, in
		return held, nil
	}
	return held, in.form(params["boundary"], into)
}

// limitedBody is a body with a size limit, whose read errors are refusals.
type limitedBody struct {
	x         *exchange
	from      io.Reader
	remaining int64 // bytes up to the limit
	tooLarge  error // of more than that
	err       error
}

// Read implements io.Reader.
func (in *limitedBody) Read(p []byte) (int, error) {
	if in.err != nil {
		return 0, in.err
	}
	n, err := in.from.Read(p)
	in.remaining -= int64(n)
	switch {
	case in.remaining < 0:
		in.err = in.tooLarge
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
		in.err = errCutOff // whatever the reason, the rest will not arrive
	}
	return n, in.err
}

// form finds the file in a form and skips the fields before it.
func (in *limitedBody) form(boundary string, into *route.Upload) error {
	if boundary == "" {
		return errForm(nil)
	}
	in.remaining, in.tooLarge = formSlack, errFormTooLarge // headers are read into memory
	form := multipart.NewReader(in, boundary)
	for {
		part, err := form.NextRawPart()
		switch {
		case err == io.EOF:
			return errNoFile
		case err != nil:
			return in.bodyError(err)
		case part.FormName() != formField:
			continue
		}
		in.remaining, in.tooLarge = in.remaining+MaxUpload, errUploadTooLarge
		*into = route.Upload{
			Name: part.FileName(), Type: part.Header.Get("Content-Type"), Size: -1, Content: filePart{part, in},
		}
		return nil
	}
}

// bodyError returns the error of a form: the read error of the body that holds it,
// if there was one.
func (in *limitedBody) bodyError(err error) error {
	if in.err != nil && in.err != io.EOF {
		return in.err
	}
	return errForm(err)
}

// filePart is the file of a form. At its end it reads the rest of the form, so
// that a form that is cut off behind its file is refused.
type filePart struct {
	part *multipart.Part
	in   *limitedBody
}

// Read implements io.Reader.
func (f filePart) Read(p []byte) (int, error) {
	n, err := f.part.Read(p)
	if err == nil {
		return n, nil
	}
	if err != io.EOF {
		return n, f.in.bodyError(err)
	}
	if _, err := io.Copy(io.Discard, f.in); err != nil {
		return n, f.in.bodyError(err)
	}
	return n, io.EOF
}
