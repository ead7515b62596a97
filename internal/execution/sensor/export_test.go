package sensor

// InputOf and IsShown are exported for tests.
var (
	InputOf = inputOf
	IsShown = isShown
)

// The limits that tests reach.
const (
	MaxActive         = maxActive
	MaxActivePerAgent = maxActivePerAgent
	MaxShown          = maxShown
)
