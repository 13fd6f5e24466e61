// Renders a Helm chart with its default values and compares each object with a file of manifests.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"github.com/ghodss/yaml"
)

type object = map[string]interface{}

type files struct{ root string }

// Get returns a file of the chart, as .Files.Get does.
func (f files) Get(name string) string { return read(filepath.Join(f.root, name)) }

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func read(file string) string {
	text, err := os.ReadFile(file)
	must(err)
	return string(text)
}

func parse(text string) object {
	value := object{}
	must(yaml.Unmarshal([]byte(text), &value))
	return value
}

func render(root string) string {
	values, chart := parse(read(filepath.Join(root, "values.yaml"))), parse(read(filepath.Join(root, "Chart.yaml")))
	chartTemplates := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["include"] = func(name string, data interface{}) (string, error) {
		var text bytes.Buffer
		err := chartTemplates.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	chartTemplates.Funcs(functions)
	names, err := filepath.Glob(filepath.Join(root, "templates", "*"))
	must(err)
	sort.Strings(names)
	for _, name := range names {
		_, err := chartTemplates.New(filepath.Base(name)).Parse(read(name))
		must(err)
	}
	data := object{
		"Values":  values,
		"Chart":   object{"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
		"Release": object{"Name": "mimir", "Namespace": "default", "Service": "Helm"},
		"Files":   files{root},
	}
	var all bytes.Buffer
	for _, name := range names {
		var text bytes.Buffer
		must(chartTemplates.ExecuteTemplate(&text, filepath.Base(name), data))
		if strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(&all, "---\n%s\n", text.String())
		}
	}
	return all.String()
}

// clean removes what only Helm adds, since the manifests are applied without it.
func clean(value interface{}) interface{} {
	switch value := value.(type) {
	case object:
		delete(value, "app.kubernetes.io/managed-by")
		if annotations, ok := value["annotations"].(object); ok {
			for name := range annotations {
				if strings.HasPrefix(name, "helm.sh/") || name == "checksum/config" {
					delete(annotations, name)
				}
			}
			if len(annotations) == 0 {
				delete(value, "annotations")
			}
		}
		for name := range value {
			value[name] = clean(value[name])
		}
	case []interface{}:
		for index := range value {
			value[index] = clean(value[index])
		}
	case string:
		return strings.TrimSpace(value)
	}
	return value
}

func objects(text string) map[string]interface{} {
	found := map[string]interface{}{}
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		value := parse(document)
		if len(value) == 0 {
			continue
		}
		name := fmt.Sprint(value["kind"], "/", value["metadata"].(object)["name"])
		if _, ok := found[name]; ok || value["apiVersion"] == nil {
			must(fmt.Errorf("%s is not unique or has no apiVersion", name))
		}
		found[name] = clean(value)
	}
	return found
}

func main() {
	rendered, manifests := objects(render(os.Args[1])), objects(read(os.Args[2]))
	failed := len(rendered) == 0 || len(rendered) != len(manifests)
	for name := range rendered {
		if !reflect.DeepEqual(rendered[name], manifests[name]) {
			fmt.Fprintf(os.Stderr, "%s differs\n", name)
			failed = true
		}
	}
	fmt.Printf("%d objects of the chart, %d of the manifests\n", len(rendered), len(manifests))
	if failed {
		os.Exit(1)
	}
}
