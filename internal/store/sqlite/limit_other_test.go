//go:build !unix

package sqlite_test

import "errors"

func playLimit(string) error { return errors.ErrUnsupported }
