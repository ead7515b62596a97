package webhook_test

import "reflect"

// newIn makes the input of an operation.
func newIn(t reflect.Type) any { return reflect.New(t).Interface() }

// set fills a field of an input.
func set(in any, field string, value any) {
	reflect.ValueOf(in).Elem().FieldByName(field).Set(reflect.ValueOf(value))
}

// setBody fills the body that makes a subscription.
func setBody(in any, url string, events []string) {
	body := reflect.ValueOf(in).Elem().FieldByName("Body")
	body.FieldByName("URL").SetString(url)
	body.FieldByName("Events").Set(reflect.ValueOf(events))
}
