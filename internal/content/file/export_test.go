package file

import "agentd/internal/base/route"

// UploadOfJSON is the input of an upload in JSON.
func UploadOfJSON(body string) any { return &uploadIn{Body: route.Upload{JSON: []byte(body)}} }
