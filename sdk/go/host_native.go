//go:build !wasip1

package mimir

import (
	"fmt"
	"os"
)

func writeLog(level uint8, message string) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", [...]string{"debug", "info", "warn", "error"}[level], message)
}

func reportProgress(uint64, uint64, string) {}

func unavailable(what string) *Error {
	return Errorf(Unavailable, "%s can be reached only from inside a component", what)
}

func runCommand(Cmd) (*Finished, error)        { return nil, unavailable("commands") }
func runShell(string) (*Finished, error)       { return nil, unavailable("commands") }
func callTool(string, string) (*Output, error) { return nil, unavailable("tools") }
func complete(string, uint32) (string, error)  { return "", unavailable("the model") }
func storageGet(string) ([]byte, error)        { return nil, unavailable("storage") }
func storageSet(string, []byte) error          { return unavailable("storage") }
func storageDelete(string) error               { return unavailable("storage") }
func storageKeys(string) ([]string, error)     { return nil, unavailable("storage") }
func fetch(Request) (*Response, error)         { return nil, unavailable("the network") }
