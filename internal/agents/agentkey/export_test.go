package agentkey

// Pairs is the kind of the stored pairs.
var Pairs = pairs
