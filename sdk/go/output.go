package mimir

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
)

// Output is the result of a call, with any number of content parts.
type Output struct {
	parts      []part
	structured json.RawMessage
	exitCode   *int32
}

type part struct {
	kind           string // text, image, audio, file
	text           string
	name, mimeType string
	data           []byte
}

// Text returns a result with one text part.
func Text(text string) *Output { return new(Output).AndText(text) }

// AndText adds a text part.
func (o *Output) AndText(text string) *Output {
	o.parts = append(o.parts, part{kind: "text", text: text})
	return o
}

// Image adds an image.
func (o *Output) Image(mimeType string, data []byte) *Output {
	o.parts = append(o.parts, part{kind: "image", mimeType: mimeType, data: data})
	return o
}

// Audio adds audio.
func (o *Output) Audio(mimeType string, data []byte) *Output {
	o.parts = append(o.parts, part{kind: "audio", mimeType: mimeType, data: data})
	return o
}

// File adds a file for the caller.
func (o *Output) File(name, mimeType string, data []byte) *Output {
	o.parts = append(o.parts, part{kind: "file", name: name, mimeType: mimeType, data: data})
	return o
}

// ExitCode sets the exit code, for a tool that runs a program.
func (o *Output) ExitCode(code int32) *Output {
	o.exitCode = &code
	return o
}

// Texts returns the text parts.
func (o *Output) Texts() []string {
	var texts []string
	for _, part := range o.parts {
		if part.kind == "text" {
			texts = append(texts, part.text)
		}
	}
	return texts
}

// Structured returns the structured content as JSON; nil without one.
func (o *Output) Structured() json.RawMessage { return o.structured }

// Worded is structured content with a text for the model.
type Worded[T any] struct {
	Value T
	Text  string
}

func (w Worded[T]) worded() (any, string) { return w.Value, w.Text }

type worded interface{ worded() (any, string) }

func toOutput(value any) (*Output, error) {
	text := ""
	switch value := value.(type) {
	case *Output:
		return value, nil
	case string:
		return Text(value), nil
	case None:
		return new(Output), nil
	}
	if own, ok := value.(worded); ok {
		value, text = own.worded()
	}
	structured, err := json.Marshal(value)
	if err == nil && bytes.Contains(structured, []byte("null")) {
		structured, err = withoutNulls(structured, schemaOf(reflect.TypeOf(value)))
	}
	if err != nil {
		return nil, Errorf(Execution, "the result cannot be written as JSON: %s", err)
	}
	if text == "" {
		text = string(structured)
	}
	output := Text(text)
	output.structured = structured
	return output, nil
}

// withoutNulls makes JSON match its schema: Go writes null for nil slices, maps and pointers.
func withoutNulls(text []byte, schema object) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(replaceNulls(value, schema))
}

func replaceNulls(value any, schema object) any {
	items, _ := schema.get("items").(object)
	values, _ := schema.get("additionalProperties").(object)
	properties, _ := schema.get("properties").(object)
	switch value := value.(type) {
	case nil:
		switch schema.get("type") {
		case "array":
			return []any{}
		case "object":
			return map[string]any{}
		}
	case []any:
		for i, item := range value {
			value[i] = replaceNulls(item, items)
		}
	case map[string]any:
		for name, member := range value {
			property, isKnown := properties.get(name).(object)
			if !isKnown {
				property = values
			}
			if member == nil && isKnown && isOptional(schema, name) {
				delete(value, name)
			} else {
				value[name] = replaceNulls(member, property)
			}
		}
	}
	return value
}

func isOptional(schema object, name string) bool {
	required, _ := schema.get("required").([]string)
	return !slices.Contains(required, name)
}
