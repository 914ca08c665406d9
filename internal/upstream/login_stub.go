package upstream

type Login struct{}

func isLogin(err error) bool { return false }

func (h *httpServer) orLogin(r *Request, err error) (Answer, error) { return nil, err }
