// Package check has the tests of the deployment files. It is a module of its
// own, so that the types of Kubernetes and the frontend of Dockerfiles are no
// requirements of the program.
package check
