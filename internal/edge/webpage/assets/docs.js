"use strict";
SwaggerUIBundle({
  url: new URL("../api/v1/openapi.json", document.currentScript.src).href, // below whatever path a proxy serves agentd
  dom_id: "#docs",
  deepLinking: true,
  docExpansion: "none",
  filter: true,
  persistAuthorization: false,
  tryItOutEnabled: false,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
});
