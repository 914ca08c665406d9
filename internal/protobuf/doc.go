// Package protobuf converts between the objects of package a2a and the messages
// of the protocol's a2a.proto, which gRPC carries (A2A §10). Both ends use it. It
// does no I/O.
package protobuf
