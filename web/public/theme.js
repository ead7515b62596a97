// Before the first paint, so that a chosen theme does not flash.
try {
  var theme = localStorage.getItem('agentd.theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch (e) {
  // No storage: the system's theme counts.
}
