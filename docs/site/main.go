// Command site makes a site of the documents: plain HTML with a navigation, that works
// without scripts, from a file server or straight from a disk.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "the `directory` of the project")
	out := flag.String("o", "dist/site", "the `directory` to write to; what is in it is replaced")
	flag.Parse()
	s, err := read(*root)
	if err == nil {
		err = s.write(*out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s\n", len(s.pages), *out)
}
