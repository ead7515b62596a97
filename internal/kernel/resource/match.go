package resource

import (
	"strconv"
	"strings"

	"agentd/internal/base/fault"
)

func etag(version int64) string { return strconv.FormatInt(version, 10) }

// matches refuses an If-Match header that does not name the present version: ""
// and "*" match any version, otherwise one of the listed tags must be it.
func (p *plan[T]) matches(header string, version int64) error {
	if header == "" || names(header, version) {
		return nil
	}
	now := etag(version)
	e := fault.New(fault.Precondition, "", "The %s was changed since you read it; read it again and send its new ETag as If-Match.", p.what)
	e.Extra = map[string]any{"current_etag": `"` + now + `"`}
	return e
}

// names reports whether an If-Match or If-None-Match header names a version.
func names(header string, version int64) bool {
	now := etag(version)
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.Trim(strings.TrimPrefix(tag, "W/"), `"`) == now {
			return true
		}
	}
	return false
}
