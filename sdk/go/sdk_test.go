package mimir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
)

type measure struct {
	Points []struct {
		X float64 `json:"x"`
		Y float64 `json:"y"`
	} `json:"points" desc:"Points of the path."`
	Unit string `json:"unit,omitempty" enum:"km,mi"`
	Most *int   `json:"most" min:"1"`
}

type length struct {
	Total float64 `json:"total"`
}

func init() {
	Export(func(_ *Context, in measure) (Worded[length], error) {
		return Worded[length]{length{float64(len(in.Points))}, "some"}, nil
	}, Description("Measures a path."), Read("docs", "to read"), Hints(ReadOnly))
}

func TestSchemaComesFromTheType(t *testing.T) {
	schema := toJSON(schemaOf(tools[0].input))
	for _, part := range []string{
		`"points":{"type":"array","items":{"type":"object"`, `"description":"Points of the path."`, `"enum":["km","mi"]`,
		`"minimum":1`, `"required":["points"]`, `"additionalProperties":false`,
	} {
		if !strings.Contains(schema, part) {
			t.Errorf("no %s in %s", part, schema)
		}
	}
	if output := tools[0].outputSchema(); !strings.Contains(output, `"total":{"type":"number"}`) {
		t.Error(output)
	}
}

func TestCallConvertsArgumentsAndResults(t *testing.T) {
	output, err := Call(ContextAt("."), "measure", `{"points": [{"x": 1, "y": 2}]}`)
	if err != nil || output.Texts()[0] != "some" || string(output.Structured()) != `{"total":1}` {
		t.Fatal(output, err)
	}
	for arguments, message := range map[string]string{
		`{"points": 1}`:              "points: expected array, found number",
		`{"points": [], "extra": 1}`: `arguments: unknown field "extra"`,
		`{"points": []} x`:           "text after the end",
		`[]`:                         "arguments: expected object, found array",
	} {
		_, err := Call(ContextAt("."), "measure", arguments)
		var own *Error
		if !errors.As(err, &own) || own.Code != InvalidInput || !strings.Contains(own.Message, message) {
			t.Errorf("%s: %v, and not %s", arguments, err, message)
		}
	}
}

func TestErrorsGetCodes(t *testing.T) {
	_, err := os.ReadFile("/no/such/file")
	if own := toError(err); own.Code != FileNotFound || !strings.HasPrefix(own.Message, "/no/such/file: ") {
		t.Error(own)
	}
	err = &fs.PathError{Op: "open", Path: "/b.txt", Err: syscall.EBADF}
	if own := toError(err); own.Code != PermissionDenied || !strings.HasPrefix(own.Message, "/b.txt: not in a folder") {
		t.Error(own)
	}
}

func TestNamesAreSnakeCase(t *testing.T) {
	for name, snake := range map[string]string{"WordCount": "word_count", "HTTPFetch": "http_fetch", "Utf8Check": "utf8_check"} {
		if snakeCase(name) != snake {
			t.Error(snakeCase(name))
		}
	}
}

type page[T any] struct {
	Items []T `json:"items"`
}

func TestGenericTypesHaveTheirDocComments(t *testing.T) {
	docs["page"] = typeDocs{"page returns a page.", map[string]string{"Items": "Items of the page."}}
	defer delete(docs, "page")
	kind := reflect.TypeFor[page[int]]()
	if text := (&tool{input: kind}).description(); text != "Returns a page." {
		t.Error(text)
	}
	if schema := toJSON(schemaOf(kind)); !strings.Contains(schema, `"description":"Items of the page."`) {
		t.Error(schema)
	}
}

type nils struct {
	Words []string       `json:"words"`
	Sizes map[string]int `json:"sizes"`
	Most  *int           `json:"most"`
	Any   any            `json:"any,omitempty"`
	Parts []struct {
		Names []string `json:"names"`
	} `json:"parts"`
}

func TestNilsMatchTheSchema(t *testing.T) {
	value := nils{Any: map[string]any{"kept": nil}}
	value.Parts = append(value.Parts, struct {
		Names []string `json:"names"`
	}{})
	output, err := toOutput(value)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(output.Structured()); text != `{"any":{"kept":null},"parts":[{"names":[]}],"sizes":{},"words":[]}` {
		t.Error(text)
	}
}

type node struct {
	Next *node `json:"next"`
}

type channels struct {
	Ch chan int
}

func TestMistakesInDefinitionsAreNamed(t *testing.T) {
	list := &tool{output: reflect.TypeFor[[]string]()}
	list.name = "list"
	for message, describe := range map[string]func(){
		"field Ch of channels: the type chan int has no JSON Schema": func() { schemaOf(reflect.TypeFor[channels]()) },
		"two tools are called `measure`: Export takes the name from the input type measure; pass mimir.Name": func() {
			Export(func(*Context, measure) (string, error) { return "", nil })
		},
		"two tools are called `measure`: give one of them another mimir.Name": func() {
			Export(func(*Context, node) (string, error) { return "", nil }, Name("measure"))
		},
		"has no name for the tool": func() { Export(func(*Context, struct{}) (string, error) { return "", nil }) },
		"node contains itself":     func() { schemaOf(reflect.TypeFor[node]()) },
		"list returns []string":    func() { list.outputSchema() },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, message) {
					t.Errorf("%s, and not %s", text, message)
				}
			}()
			describe()
		}()
	}
}

func TestStorageIsInMemory(t *testing.T) {
	if value, err := Load("a/none"); value != nil || err != nil {
		t.Error(value, err)
	}
	value := []byte("1")
	for _, err := range []error{Store("a/2", nil), Store("a/1", value), Store("b", value)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	value[0] = '2'
	if value, err := Load("a/1"); string(value) != "1" || err != nil {
		t.Error(value, err)
	}
	if value, err := Load("a/2"); value == nil || len(value) != 0 || err != nil {
		t.Error(value, err)
	}
	if keys, err := Keys("a/"); !slices.Equal(keys, []string{"a/1", "a/2"}) || err != nil {
		t.Error(keys, err)
	}
	if value, err := Load("b"); Delete("b") != nil || string(value) != "1" || err != nil {
		t.Error(value, err)
	}
	if value, err := Load("b"); value != nil || err != nil {
		t.Error(value, err)
	}
}
