//go:build unix && !linux

package main

import "errors"

func newCluster(*options, string) (trial, error) {
	return nil, errors.New("the cluster needs network namespaces, which only Linux has")
}

func runNATS(string) error { return errors.New("this is part of the cluster, which only Linux has") }
