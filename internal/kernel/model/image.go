package model

import "context"

// ImageRequest is one call that generates an image.
type ImageRequest struct {
	Target Target
	Prompt string
	Size   string // "1024x1024"; "": the endpoint's default
}

// Image is an image that a model generated.
type Image struct {
	MimeType string // image/png, image/jpeg, image/webp or image/gif
	Data     []byte
	Revised  string // the prompt as the model changed it; "" if it did not report one
}

// ImageClient calls models that generate images. Errors: *Error, or the
// context's.
type ImageClient interface {
	Image(ctx context.Context, req ImageRequest) (Image, error)
}

// ImageTarget returns the operator's model for images: the named one, or the
// first that has the capability images in the catalogue. provider is the name of
// a provider; "": any. Errors: *Error with the code provider_not_configured.
func (c *Catalogue) ImageTarget(provider, name string) (Target, error) {
	t, err := c.now.Load().imageTarget(provider, name)
	t.Price = c.raised(t.Price)
	return t, err
}

func (c *listing) imageTarget(provider, name string) (Target, error) {
	if provider == OpenAICompat { // what agents call the operator's endpoints
		provider = ""
	}
	if provider != "" && c.providers[provider] == nil {
		return Target{}, notConfigured("There is no model provider %q: %s.", provider, c.configured())
	}
	switch {
	case name == EchoRef:
		return Target{}, notConfigured("The model %s makes no pictures.", EchoRef)
	case name != "" && provider != "":
		return c.lookup(provider+"/"+name, "")
	case name != "":
		return c.lookup(name, "")
	}
	for _, e := range c.entries {
		if owner, _ := c.split(e.Ref); e.Capabilities.Images && (provider == "" || owner == provider) {
			return c.lookup(e.Ref, "")
		}
	}
	return Target{}, notConfigured("No model that makes pictures is configured: " +
		"name one in the agent's image_generation.model, or mark one with the capability images in AGENTD_PROVIDERS.")
}
