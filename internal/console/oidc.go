package console

import "net/http"

type issuers struct{}

func (c *Console) beginOIDC(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

func (c *Console) endOIDC(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }
