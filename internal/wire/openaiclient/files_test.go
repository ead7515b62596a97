package openaiclient

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/wiretest"
)

// Files and recordings that an endpoint does not take are named in words, with a warning;
// images and texts stay (rule D23-inputs).
func TestFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, says := range []string{"Unknown part type: file", "Invalid content type. input_audio is not supported", "invalid message format"} {
		reply := wiretest.Reply{Answer: wiretest.Answer{Blocks: []wiretest.Block{{Text: "So."}}}, Refuses: func(a wiretest.Asked) string {
			if strings.Contains(a.Body, "data:text/") {
				t.Errorf("a text is sent as a file: %s", a.Body)
			}
			if strings.Contains(a.Body, `"type":"file"`) || strings.Contains(a.Body, "input_audio") {
				return says
			}
			return ""
		}}
		e := wiretest.NewEndpoint(t, wiretest.Chat{}, wiretest.Features{}, reply)
		req := model.Request{Messages: []model.Message{{Role: model.User, Parts: []jsontext.Value{
			model.TextPart("Read."), jsontext.Value(`{"type":"file","file":{"filename":"a \"b\".pdf","file_data":"data:application/pdf;base64,JVBERi0="}}`),
			jsontext.Value(`{"type":"file","file":{"file_data":"data:text/plain;base64,T25lLg==","filename":"a.txt"}}`),
			jsontext.Value(`{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`),
			jsontext.Value(`{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`),
		}}}}
		resp, _, err := e.Call(t, New(wiretest.Config()), req, false)
		if err != nil {
			t.Fatal(says, err)
		}
		want := []string{
			"user: Read.", `user: [The file "a "b".pdf" is attached, which this model cannot read.]`,
			"user: a.txt\n\nOne.", "user: [A recording is attached, which this model cannot hear.]", "image: image/png AAAA",
		}
		if diff := cmp.Diff(want, e.Asked()[0].Lines); diff != "" || !cmp.Equal(resp.Dropped, []string{"files"}) {
			t.Errorf("%s: dropped %q, (-want +got):\n%s", says, resp.Dropped, diff)
		}
	}
}
