// Package client talks to A2A 1.0 agents over JSON-RPC, HTTP+JSON and gRPC: it
// finds an agent's card, chooses one of its interfaces, sends messages, reads
// streams and waits for tasks.
//
//	c, err := client.Dial(ctx, "https://agents.example.com/agents/quote/", client.Options{})
//	answer, err := c.SendMessage(ctx, &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("hello"))})
//
// What the peer answers is bounded in size and checked. An error is an
// *a2a.Error when the peer answered with one, and a *TransportError when no
// usable answer came. A stream that ended too early is a *StreamCutError.
package client
