package constitution

// SafeModeBody is the body of activateSafeMode.
var SafeModeBody = safeModeIn{}.Body
