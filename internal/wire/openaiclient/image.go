package openaiclient

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// maxImageAnswer bounds the answer to a request for an image, which is base64.
const maxImageAnswer = 32 << 20

var _ model.ImageClient = (*Client)(nil)

type imageAnswer struct {
	Data []struct {
		B64     text `json:"b64_json"`
		URL     text `json:"url"`
		Revised text `json:"revised_prompt"`
	} `json:"data"`
}

// Image implements [model.ImageClient] by POST {base}/images/generations. It
// retries only after a 429 or 503: an image that was generated and lost has been
// charged.
func (c *Client) Image(ctx context.Context, req model.ImageRequest) (model.Image, error) {
	plain := false // without response_format: the endpoint rejects it and sends base64 anyway
	for attempt := 1; ; attempt++ {
		img, err := c.image(ctx, req, plain)
		if err == nil {
			return img, nil
		}
		if ctx.Err() != nil {
			return model.Image{}, ctx.Err()
		}
		failure := modelcall.AsError(err)
		if !plain && failure.Status == http.StatusBadRequest && failure.Cause != nil &&
			strings.Contains(failure.Cause.Error(), "response_format") {
			plain = true
			attempt--
			continue
		}
		if failure.Status != http.StatusTooManyRequests && failure.Status != http.StatusServiceUnavailable {
			return model.Image{}, failure
		}
		if err := c.WaitRetry(ctx, attempt, failure, 0); err != nil {
			return model.Image{}, err
		}
	}
}

// image makes one attempt.
func (c *Client) image(ctx context.Context, req model.ImageRequest, plain bool) (model.Image, error) {
	q := modelcall.Call{Path: "/images/generations", Body: encodeImage(req, plain),
		Timeouts: c.Completion(false, 0)}
	raw, err := c.Fetch(ctx, &req.Target, q, maxImageAnswer)
	if err != nil {
		return model.Image{}, err
	}
	return readImage(raw, &model.Request{Target: req.Target})
}

func encodeImage(req model.ImageRequest, plain bool) []byte {
	b := append([]byte(nil), `{"model":`...)
	b = modelcall.AppendString(b, req.Target.Model)
	b = append(b, `,"prompt":`...)
	b = modelcall.AppendString(b, req.Prompt)
	b = append(b, `,"n":1`...)
	if req.Size != "" {
		b = append(b, `,"size":`...)
		b = modelcall.AppendString(b, req.Size)
	}
	if !plain {
		b = append(b, `,"response_format":"b64_json"`...)
	}
	return append(b, '}')
}

var errNoImage = errors.New("openaiclient: the answer has no image")

// readImage reads an answer. A URL in place of the image is not fetched: an endpoint
// must not choose what is requested from inside the operator's network.
func readImage(raw []byte, req *model.Request) (model.Image, error) {
	fail := func(detail string, cause error) (model.Image, error) {
		return model.Image{}, &model.Error{Code: modelcall.CodeModel, Status: http.StatusOK, Detail: detail, Cause: cause}
	}
	var a imageAnswer
	if err := json.Unmarshal(raw, &a, modelcall.Lenient); err != nil {
		return fail("The model endpoint did not send an answer to an image request.", err)
	}
	if len(a.Data) == 0 {
		if failure := modelcall.ParseError(raw); failure.Message != "" {
			return model.Image{}, modelcall.Classify(http.StatusOK, failure, req)
		}
		return fail("The model endpoint sent no image.", errNoImage)
	}
	first := a.Data[0]
	if first.B64 == "" && first.URL != "" {
		return fail("The model endpoint sent a URL instead of the image; it must support b64_json.", errNoImage)
	}
	encoded := string(first.B64)
	if rest, ok := strings.CutPrefix(encoded, "data:"); ok {
		_, encoded, _ = strings.Cut(rest, ",")
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return fail("The model endpoint sent an image that cannot be decoded.", err)
	}
	kind := http.DetectContentType(data)
	switch kind {
	case "image/png", "image/jpeg", "image/webp", "image/gif":
		return model.Image{MimeType: kind, Data: data, Revised: string(first.Revised)}, nil
	}
	return fail("The model endpoint sent something other than an image.", errNoImage)
}
