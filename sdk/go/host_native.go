//go:build !wasip1

package mimir

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// refuseDefinition reports a mistake in the definition of a tool.
func refuseDefinition(problem string) { panic("mimir: " + problem) }

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
func fetch(Request) (*Response, error)         { return nil, unavailable("the network") }

// stored are the values of storage in tests, in memory.
var (
	stored      = map[string][]byte{}
	storedGuard sync.Mutex
)

func storageGet(key string) ([]byte, error) {
	storedGuard.Lock()
	defer storedGuard.Unlock()
	return bytes.Clone(stored[key]), nil
}

func storageSet(key string, value []byte) error {
	storedGuard.Lock()
	defer storedGuard.Unlock()
	// Not nil for an empty value: nil means that the key does not exist.
	stored[key] = append([]byte{}, value...)
	return nil
}

func storageDelete(key string) error {
	storedGuard.Lock()
	defer storedGuard.Unlock()
	delete(stored, key)
	return nil
}

func storageKeys(prefix string) ([]string, error) {
	storedGuard.Lock()
	defer storedGuard.Unlock()
	keys := []string{}
	for key := range stored {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}
