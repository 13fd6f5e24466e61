package mimir

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"mimir.local/sdk/internal/bindings/mimir_tool_commands"
	"mimir.local/sdk/internal/bindings/mimir_tool_log"
	"mimir.local/sdk/internal/bindings/mimir_tool_model"
	"mimir.local/sdk/internal/bindings/mimir_tool_progress"
	"mimir.local/sdk/internal/bindings/mimir_tool_storage"
	"mimir.local/sdk/internal/bindings/mimir_tool_tools"
	wit "mimir.local/sdk/internal/wit/types"
)

// refuseDefinition reports a mistake in the definition of a tool. The host shows the last line on stderr: for a panic, it
// would be one of the stack.
func refuseDefinition(problem string) {
	fmt.Fprintln(os.Stderr, problem)
	trap()
}

// trap ends the call. For os.Exit, the host would show only the exit code.
func trap()

func writeLog(level uint8, message string) { mimir_tool_log.Write(level, message) }

func reportProgress(done, total uint64, message string) {
	mimir_tool_progress.Report(done, optional(total), optional(message))
}

// optional returns None for the zero value.
func optional[T comparable](value T) wit.Option[T] {
	var zero T
	if value == zero {
		return wit.None[T]()
	}
	return wit.Some(value)
}

func runCommand(command Cmd) (*Finished, error) {
	environment := make([]wit.Tuple2[string, string], 0, len(command.Env))
	for name, value := range command.Env {
		environment = append(environment, wit.Tuple2[string, string]{F0: name, F1: value})
	}
	result := mimir_tool_commands.Run(mimir_tool_commands.Command{
		Program: command.Program, Arguments: command.Args, Directory: optional(command.Dir),
		Environment: environment, Stdin: command.Stdin, TimeoutMs: optional(uint64(command.Timeout.Milliseconds())),
	})
	if result.IsErr() {
		return nil, fromWit(result.Err())
	}
	return finished(result.Ok()), nil
}

func runShell(script string) (*Finished, error) {
	result := mimir_tool_commands.RunShell(script, wit.None[string](), wit.None[uint64]())
	if result.IsErr() {
		return nil, fromWit(result.Err())
	}
	return finished(result.Ok()), nil
}

func finished(made mimir_tool_commands.Finished) *Finished {
	return &Finished{
		ExitCode: made.ExitCode, Stdout: made.Stdout, Stderr: made.Stderr, Combined: made.Combined,
		Truncated: made.Truncated, Duration: time.Duration(made.DurationMs) * time.Millisecond,
	}
}

func callTool(name, arguments string) (*Output, error) {
	result := mimir_tool_tools.Call(name, arguments)
	if result.IsErr() {
		return nil, fromWit(result.Err())
	}
	return outputFromWit(result.Ok()), nil
}

func complete(prompt string, maxTokens uint32) (string, error) {
	result := mimir_tool_model.Complete(prompt, optional(maxTokens))
	if result.IsErr() {
		return "", fromWit(result.Err())
	}
	return result.Ok(), nil
}

func storageGet(key string) ([]byte, error) {
	result := mimir_tool_storage.Get(key)
	if result.IsErr() {
		return nil, fromWit(result.Err())
	}
	value := result.Ok()
	if value.IsSome() && value.Some() == nil {
		return []byte{}, nil
	}
	return value.SomeOr(nil), nil
}

func storageSet(key string, value []byte) error {
	if result := mimir_tool_storage.Set(key, value); result.IsErr() {
		return fromWit(result.Err())
	}
	return nil
}

func storageDelete(key string) error {
	if result := mimir_tool_storage.Delete(key); result.IsErr() {
		return fromWit(result.Err())
	}
	return nil
}

func storageKeys(prefix string) ([]string, error) {
	result := mimir_tool_storage.Keys(prefix)
	if result.IsErr() {
		return nil, fromWit(result.Err())
	}
	return result.Ok(), nil
}

// rawDetails keeps the details of an error of the host as they are.
func rawDetails(details wit.Option[string]) any {
	if details.IsNone() {
		return nil
	}
	return json.RawMessage(details.Some())
}
