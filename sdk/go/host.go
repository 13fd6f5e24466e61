package mimir

import (
	"encoding/json"
	"fmt"
	"time"
)

// Finished is the result of a program.
type Finished struct {
	// ExitCode is 128 plus the signal number if a signal ended the program.
	ExitCode       int32
	Stdout, Stderr []byte
	// Combined has both streams in the order of arrival.
	Combined []byte
	// Truncated is true if a stream exceeded the output limit, in which case its middle is missing.
	Truncated bool
	Duration  time.Duration
}

// Cmd is a program with its arguments. It runs without a shell.
type Cmd struct {
	Program string
	Args    []string
	// Dir is relative to the workspace root.
	Dir     string
	Env     map[string]string
	Stdin   []byte
	Timeout time.Duration
}

// Request is an HTTP request.
type Request struct {
	// Method is GET if it is empty.
	Method string
	URL    string
	Header map[string]string
	Body   []byte
}

// Response is the response to a request.
type Response struct {
	Status int
	// Header has names in lower case. Values of a repeated header are joined by commas.
	Header map[string]string
	Body   []byte
}

// JSON decodes the body.
func (r *Response) JSON(value any) error {
	if err := json.Unmarshal(r.Body, value); err != nil {
		return Errorf(Network, "the response is not the expected JSON: %s", err)
	}
	return nil
}

// Debug, Info, Warn and Fail write log lines. The host adds the time, limits their size and redacts secrets. In tests they
// go to stderr.
func Debug(format string, arguments ...any) { writeLog(0, fmt.Sprintf(format, arguments...)) }

// Info logs normal events.
func Info(format string, arguments ...any) { writeLog(1, fmt.Sprintf(format, arguments...)) }

// Warn logs what is unexpected, but not a failure.
func Warn(format string, arguments ...any) { writeLog(2, fmt.Sprintf(format, arguments...)) }

// Fail logs a failure.
func Fail(format string, arguments ...any) { writeLog(3, fmt.Sprintf(format, arguments...)) }

// Progress reports that done of total units are finished; total is 0 if it is not known.
func Progress(done, total uint64, message string) { reportProgress(done, total, message) }

// Run runs a program on the host, through the command policy and its sandbox. Needs Command.
func Run(program string, arguments ...string) (*Finished, error) {
	return RunCmd(Cmd{Program: program, Args: arguments})
}

// RunCmd runs a program with settings. Needs Command.
func RunCmd(command Cmd) (*Finished, error) { return runCommand(command) }

// Shell runs a shell script. The host parses it and decides about each simple command in it. Needs Command.
func Shell(script string) (*Finished, error) { return runShell(script) }

// CallTool calls another tool. The policy applies to this call as to any other. Needs OtherTool.
func CallTool(name string, arguments any) (*Output, error) {
	text, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	return callTool(name, string(text))
}

// Complete returns a completion of at most maxTokens tokens from the configured model; 0 is the model's own limit. Needs
// Model.
func Complete(prompt string, maxTokens uint32) (string, error) { return complete(prompt, maxTokens) }

// Load returns a stored value, or nil if the key does not exist. Values are private to the plugin and to the workspace: at
// most 1,000 values, 1 MB each and 16 MB in total. In tests, values are in memory, without these limits.
func Load(key string) ([]byte, error) { return storageGet(key) }

// Store stores a value.
func Store(key string, value []byte) error { return storageSet(key, value) }

// Delete removes a stored value.
func Delete(key string) error { return storageDelete(key) }

// Keys lists the keys that begin with a prefix.
func Keys(prefix string) ([]string, error) { return storageKeys(prefix) }

// Get sends a GET request. Needs Host.
func Get(url string) (*Response, error) { return Fetch(Request{URL: url}) }

// Fetch sends a request and reads the whole response. Needs Host.
func Fetch(request Request) (*Response, error) {
	if request.Method == "" {
		request.Method = "GET"
	}
	return fetch(request)
}
