package notification

import (
	"reflect"

	"agentd/internal/base/route"
)

type gapEvent struct {
	Dropped int `json:"dropped" doc:"Always 0: the id to resume after was unknown, and everything stored is sent."`
}

type errorEvent struct {
	Code   string `json:"code" doc:"Stable code of the error."`
	Detail string `json:"detail" doc:"What to do, for a person."`
}

var events = route.Events{Name: "NotificationEvent", Tag: "event", Of: []route.Event{
	{Name: "ready", Data: reflect.TypeFor[readyData](), Doc: "The stream is open. Its id is where it begins."},
	{Name: frameName, Data: reflect.TypeFor[Notification](), Doc: "A notification."},
	{Name: "gap", Data: reflect.TypeFor[gapEvent](), Doc: "The client resumed after an unknown id."},
	{Name: "error", Data: reflect.TypeFor[errorEvent](), Doc: "The stream cannot continue; reconnect with the last id."},
}}
