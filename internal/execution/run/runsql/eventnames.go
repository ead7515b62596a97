package runsql

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
