package runsql

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// shortNames are the names under which frequent events are stored. They are in
// databases: never change one. Full names contain a dot, these do not.
var shortNames = map[string]string{
	"llm.chunk": "c", "llm.thinking": "h", "llm.completed": "l",
	"step.started": "s", "step.completed": "e",
	"tool.call": "t", "tool.result": "r",
}

var longNames = func() map[string]string {
	long := map[string]string{}
	for name, short := range shortNames {
		long[short] = name
	}
	return long
}()

func shorten(name string) string {
	if short, ok := shortNames[name]; ok {
		return short
	}
	return name
}

func lengthen(name string) string {
	if long, ok := longNames[name]; ok {
		return long
	}
	return name
}

// shortID shortens the id of a step, a UUID, by 14 bytes. Other ids stay as they
// are.
func shortID(id string) string {
	raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(raw) != 16 || longID(base64.RawURLEncoding.EncodeToString(raw)) != id {
		return id
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// longID is the inverse of shortID.
func longID(short string) string {
	raw, err := base64.RawURLEncoding.DecodeString(short)
	if err != nil || len(raw) != 16 {
		return short
	}
	digits := hex.EncodeToString(raw)
	return digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]
}
