package httpapi

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

type kind string

type lookIn struct {
	Toy   string            `path:"toyId"`
	Turns *int64            `query:"turns" minimum:"1"`
	Loud  bool              `query:"loud"`
	Kinds []kind            `query:"kind" enum:"car,doll"`
	Since time.Time         `query:"since"`
	Marks map[string]string `query:"mark"`
	By    string            `header:"X-By" maxLength:"5"`
}

// A route with a wire format of its own reads its parameters by the same rules
// as every other.
func TestParamsOfRawRoutes(t *testing.T) {
	t.Parallel()
	raw := Raw{
		Row: route.Row{Method: "GET", Path: "/v1/toys/{toyId}", ID: "readToy"}, In: reflect.TypeFor[lookIn](),
		Serve: func(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
			in, err := Params[lookIn](r)
			if err != nil {
				return err
			}
			turns := int64(-1)
			if in.Turns != nil {
				turns = *in.Turns
			}
			return JSON(w, 200, fmt.Sprint(in.Toy, " ", turns, " ", in.Loud, " ", in.By, in.Kinds, in.Since.Unix(), in.Marks))
		},
	}
	w := start(t, func(c *Config) { c.Raw = append(c.Raw, raw) })
	for _, tt := range []struct {
		path, by string
		status   int
		says     string
	}{
		{toyID, "", 200, toyID + " -1 false []"},
		{toyID + "?kind=car,doll&kind=car", "", 200, "[car doll car]"},
		{toyID + "?mark[a]=1&mark[b%20c]=d", "", 200, "map[a:1 b c:d]"},
		{toyID + "?mark[a]=1&mark[b]=2&mark[c]=3&mark[d]=4", "", 400, "up to 3 keys"},
		{toyID + "?mark[]=1", "", 400, "takes a key of 1 to 256 bytes"},
		{toyID + "?mark[a]=1&mark[a]=2", "", 400, "one value for each key"},
		{toyID + "?mark[%ff]=1", "", 400, "of UTF-8"},
		{toyID + "?mark[" + strings.Repeat("x", 257) + "]=1", "", 400, "256 bytes"},
		{toyID + "?kind=car,", "", 400, "query parameter kind"},
		{toyID + "?kind=" + strings.Repeat("car,", 100) + "car", "", 400, "more than 100 values"},
		{toyID + "?since=1970-01-01T01:00:07%2B01:00", "", 200, "[] 7"},
		{toyID + "?since=yesterday", "", 400, "query parameter since is invalid: expected a date and time"},
		{toyID + "?turns=3&loud=true&more=x", "me", 200, toyID + " 3 true me"},
		{"x", "", 404, "There is no such toy"},
		{toyID + "?turns=0", "", 400, "query parameter turns"},
		{toyID + "?turns=many", "", 400, "query parameter turns"},
		{toyID + "?loud=very", "", 400, "query parameter loud"},
		{toyID + "?turns=%zz", "", 400, "not properly escaped"},
		{toyID, "somebody", 400, "header X-By"},
	} {
		res, body := w.call(t, "GET", "/v1/toys/"+tt.path, "", header("X-By", tt.by))
		if res.StatusCode != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s by %q: %d %s", tt.path, tt.by, res.StatusCode, body)
		}
	}
	doc, err := OpenAPI(nil, []Raw{raw})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"name": "turns"`, `"name": "X-By"`, `"name": "toyId"`, `"explode": false`} {
		if !strings.Contains(string(doc), part) {
			t.Errorf("the document lacks %s", part)
		}
	}
}
