package mimir

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// typeDocs are the doc comments of a struct. mimir tools build reads them from the source.
type typeDocs struct {
	Doc    string            `json:"doc"`
	Fields map[string]string `json:"fields"`
}

var (
	docs    = map[string]typeDocs{}
	project = map[string]string{}
)

// Describe is called by a file that mimir tools build adds to the package. Not for direct use.
func Describe(docsJSON, projectJSON string) {
	if json.Unmarshal([]byte(docsJSON), &docs) != nil || json.Unmarshal([]byte(projectJSON), &project) != nil {
		panic("mimir: the description that the build has added is not valid")
	}
}

// object is a JSON object whose keys keep their order.
type object []entry

type entry struct {
	key   string
	value any
}

// get returns the value of a key, or nil.
func (o object) get(key string) any {
	for _, entry := range o {
		if entry.key == key {
			return entry.value
		}
	}
	return nil
}

func (o object) MarshalJSON() ([]byte, error) {
	var text strings.Builder
	text.WriteByte('{')
	for i, entry := range o {
		if i > 0 {
			text.WriteByte(',')
		}
		key, err := json.Marshal(entry.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(entry.value)
		if err != nil {
			return nil, err
		}
		text.Write(key)
		text.WriteByte(':')
		text.Write(value)
	}
	text.WriteByte('}')
	return []byte(text.String()), nil
}

var (
	rawMessage = reflect.TypeFor[json.RawMessage]()
	timeType   = reflect.TypeFor[time.Time]()
)

// schemaOf returns the JSON Schema of a type. It panics for a type without one: the host reports the message.
func schemaOf(kind reflect.Type) object {
	switch kind {
	case rawMessage:
		return object{}
	case timeType:
		return object{{"type", "string"}, {"format", "date-time"}}
	}
	switch kind.Kind() {
	case reflect.String:
		return object{{"type", "string"}}
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return object{{"type", "integer"}}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{{"type", "integer"}, {"minimum", 0}}
	case reflect.Float32, reflect.Float64:
		return object{{"type", "number"}}
	case reflect.Pointer:
		return schemaOf(kind.Elem())
	case reflect.Interface:
		return object{}
	case reflect.Slice, reflect.Array:
		if kind.Elem().Kind() == reflect.Uint8 {
			return object{{"type", "string"}, {"contentEncoding", "base64"}}
		}
		return object{{"type", "array"}, {"items", schemaOf(kind.Elem())}}
	case reflect.Map:
		if kind.Key().Kind() == reflect.String {
			return object{{"type", "object"}, {"additionalProperties", schemaOf(kind.Elem())}}
		}
	case reflect.Struct:
		return structSchema(kind)
	}
	panic(definitionFault(fmt.Sprintf("the type %s has no JSON Schema", kind)))
}

// definitionFault is the panic value for a mistake in the types of a tool.
type definitionFault string

// fieldSchema returns the schema of the type of a field. A panic for a type without one names the field.
func fieldSchema(kind reflect.Type, field reflect.StructField) object {
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case definitionFault:
			if kind.Name() != "" {
				fault = definitionFault(fmt.Sprintf("field %s of %s: %s", field.Name, kind.Name(), fault))
			}
			panic(fault)
		default:
			panic(fault)
		}
	}()
	return schemaOf(field.Type)
}

// pending are the structs whose schemas are being made.
var pending = map[reflect.Type]bool{}

func structSchema(kind reflect.Type) object {
	if pending[kind] {
		panic(definitionFault(fmt.Sprintf("the type %s contains itself, so it has no JSON Schema: use json.RawMessage for the inner one", kind)))
	}
	pending[kind] = true
	defer delete(pending, kind)
	properties, required := object{}, []string{}
	for _, field := range reflect.VisibleFields(kind) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "-" || field.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = field.Name
		}
		schema := fieldSchema(kind, field)
		if text := fieldDoc(kind, field); text != "" {
			schema = append(schema, entry{"description", text})
		}
		if values := field.Tag.Get("enum"); values != "" {
			schema = append(schema, entry{"enum", strings.Split(values, ",")})
		}
		for _, bound := range [][2]string{{"min", "minimum"}, {"max", "maximum"}} {
			if value, err := strconv.ParseFloat(field.Tag.Get(bound[0]), 64); err == nil {
				schema = append(schema, entry{bound[1], value})
			}
		}
		properties = append(properties, entry{name, schema})
		isOptional := field.Type.Kind() == reflect.Pointer || strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		if !isOptional {
			required = append(required, name)
		}
	}
	schema := object{{"type", "object"}, {"properties", properties}}
	if len(required) > 0 {
		schema = append(schema, entry{"required", required})
	}
	return append(schema, entry{"additionalProperties", false})
}

func fieldDoc(kind reflect.Type, field reflect.StructField) string {
	if text := field.Tag.Get("desc"); text != "" {
		return text
	}
	return docs[typeName(kind)].Fields[field.Name]
}

// typeName returns the name of a type in its declaration: without type arguments, which the doc comments do not have.
func typeName(kind reflect.Type) string {
	name, _, _ := strings.Cut(kind.Name(), "[")
	return name
}

// description returns the doc comment of the input type. "WordCount counts …" becomes "Counts …".
func (t *tool) description() string {
	if t.settings.description != "" {
		return t.settings.description
	}
	name := typeName(t.input)
	text := docs[name].Doc
	if rest, ok := strings.CutPrefix(text, name+" "); ok && rest != "" {
		text = strings.ToUpper(rest[:1]) + rest[1:]
	}
	return text
}

// outputSchema returns the schema of the structured content; empty without one.
func (t *tool) outputSchema() string {
	kind := t.output
	if kind.Kind() == reflect.Struct && strings.HasPrefix(kind.Name(), "Worded[") {
		field, _ := kind.FieldByName("Value")
		kind = field.Type
	}
	switch kind {
	case reflect.TypeFor[string](), reflect.TypeFor[None](), reflect.TypeFor[*Output]():
		return ""
	}
	schema := schemaOf(kind)
	if name, ok := schema.get("type").(string); ok && name != "object" {
		panic(definitionFault(fmt.Sprintf("%s returns %s: return a string, a struct or a map", t.name, kind)))
	}
	return toJSON(schema)
}

func jsonKind(kind reflect.Type) string {
	if name, ok := schemaOf(kind).get("type").(string); ok {
		return name
	}
	return "another type"
}

func toJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}
