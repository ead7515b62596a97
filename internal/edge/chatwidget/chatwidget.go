// Package chatwidget serves the chat that companies put on their web pages: one script
// without dependencies, which talks with a public agent by the operations of package
// visitor. It is written for browsers as it is: nothing builds it.
package chatwidget

import (
	_ "embed"
	"net/http"

	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
)

//go:embed widget.js
var script []byte

// Path is where the script is.
const Path = "/widget.js"

var file = httpapi.NewFile("text/javascript; charset=utf-8", func() ([]byte, bool, error) { return script, false, nil })

// Routes returns the script. It is not part of the OpenAPI document.
func Routes() []httpapi.Raw {
	return []httpapi.Raw{{
		Row: route.Row{Method: http.MethodGet, Path: Path, Public: true}, Quiet: true, Serve: file.Serve,
	}}
}
