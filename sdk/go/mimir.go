// Package mimir writes tools for mimir: a struct with doc comments, a function, and one line to export.
//
//	// WordCount counts the words in a text.
//	type WordCount struct {
//		// The text to count.
//		Text string `json:"text"`
//	}
//
//	func wordCount(cx *mimir.Context, in WordCount) (string, error) {
//		return strconv.Itoa(len(strings.Fields(in.Text))), nil
//	}
//
//	func init() { mimir.Export(wordCount) }
//
//	func main() {}
//
// This is a complete plugin. The tool is called word_count, the doc comment of the struct is the description that the
// model reads, and the fields with their doc comments are the JSON Schema of the arguments. mimir tools build makes a
// component of the package.
package mimir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// None is the input or the output of a tool without one.
type None struct{}

// tool is one exported tool.
type tool struct {
	settings
	name   string
	input  reflect.Type
	output reflect.Type
	run    func(cx *Context, arguments []byte) (*Output, error)
}

// tools are the exported tools, in order.
var tools []*tool

// Export exports a function as a tool. In is a struct whose fields are the arguments. Out is string, None, *Output,
// Worded[T], or any struct, which becomes structured content with an output schema. Call Export in init.
func Export[In, Out any](run func(cx *Context, in In) (Out, error), options ...Option) {
	made := &tool{
		input:  reflect.TypeFor[In](),
		output: reflect.TypeFor[Out](),
		run: func(cx *Context, arguments []byte) (*Output, error) {
			var in In
			if err := decode(arguments, &in); err != nil {
				return nil, err
			}
			out, err := run(cx, in)
			if err != nil {
				return nil, err
			}
			return toOutput(out)
		},
	}
	for _, option := range options {
		option(&made.settings)
	}
	made.name = made.settings.name
	if made.name == "" {
		made.name = snakeCase(typeName(made.input))
	}
	if problem := made.problem(); problem != "" {
		refuseDefinition(problem)
	}
	tools = append(tools, made)
}

// problem returns what is wrong with the tool itself; empty if nothing is.
func (t *tool) problem() string {
	switch {
	case t.input.Kind() != reflect.Struct:
		return fmt.Sprintf("the input of a tool is a struct, and %s is not one", t.input)
	case t.name == "":
		return fmt.Sprintf("the input type %s has no name for the tool: declare a type, or pass mimir.Name", t.input)
	}
	for _, other := range tools {
		switch {
		case other.name != t.name:
		case t.settings.name == "":
			return fmt.Sprintf("two tools are called `%s`: Export takes the name from the input type %s; pass mimir.Name",
				t.name, typeName(t.input))
		default:
			return fmt.Sprintf("two tools are called `%s`: give one of them another mimir.Name", t.name)
		}
	}
	return ""
}

// Call runs a call of an exported tool with arguments as JSON, as the host does. It is for tests.
func Call(cx *Context, name, arguments string) (*Output, error) {
	for _, tool := range tools {
		if tool.name == name {
			return tool.run(cx, []byte(arguments))
		}
	}
	return nil, Errorf(NotFound, "no tool `%s` in this plugin", name)
}

func decode(arguments []byte, in any) error {
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = []byte("{}")
	}
	decoder := json.NewDecoder(bytes.NewReader(arguments))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(in)
	if err == nil {
		if _, rest := decoder.Token(); !errors.Is(rest, io.EOF) {
			return Errorf(InvalidInput, "arguments: text after the end of the JSON")
		}
		return nil
	}
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		path := mismatch.Field
		if path == "" {
			path = "arguments"
		}
		return Errorf(InvalidInput, "%s: expected %s, found %s", path, jsonKind(mismatch.Type), mismatch.Value)
	}
	return Errorf(InvalidInput, "arguments: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// snakeCase makes word_count of WordCount, and http_fetch of HTTPFetch.
func snakeCase(name string) string {
	letters := []rune(name)
	isUpper := func(i int) bool { return i >= 0 && i < len(letters) && letters[i] >= 'A' && letters[i] <= 'Z' }
	isLower := func(i int) bool {
		return i >= 0 && i < len(letters) && (letters[i] >= 'a' && letters[i] <= 'z' || letters[i] >= '0' && letters[i] <= '9')
	}
	var snake strings.Builder
	for i, letter := range letters {
		if isUpper(i) && (isLower(i-1) || isUpper(i-1) && isLower(i+1)) {
			snake.WriteByte('_')
		}
		snake.WriteString(strings.ToLower(string(letter)))
	}
	return snake.String()
}
