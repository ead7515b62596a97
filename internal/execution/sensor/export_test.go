package sensor

// InputOf and Harmless are for tests of what a call becomes.
var (
	InputOf  = inputOf
	Harmless = harmless
)

// Bounds of what tests make too many of.
const (
	MaxActive  = maxActive
	MaxOfAgent = maxOfAgent
	MaxShown   = maxShown
)
