package main

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
)

// reverseProxy is the least that stands between a client and a model: Go's own
// reverse proxy. It reads a request before it sends it on, as an endpoint that
// answers at once would otherwise break the connection.
func reverseProxy(to string) http.Handler {
	upstream, err := url.Parse(to)
	if err != nil {
		log.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost, transport.DisableCompression = 1024, 1024, true
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, BufferPool: &copyBuffers{},
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, r)
	})
}

type copyBuffers struct{ pool sync.Pool }

func (b *copyBuffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

func (b *copyBuffers) Put(p []byte) { b.pool.Put(&p) }
