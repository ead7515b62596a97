package apptest

import ()

// RaceEnabled says that the race detector watches, which makes everything slow.
const RaceEnabled = false
