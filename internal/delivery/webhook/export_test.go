package webhook

// Cut is cut, for its fuzz target.
var Cut = cut
