// Package export_mimir_tool_toolset connects the generated exports with the SDK, which would import them in a circle.
package export_mimir_tool_toolset

import (
	t "mimir.local/sdk/internal/bindings/mimir_tool_types"
	wit "mimir.local/sdk/internal/wit/types"
)

var (
	// OnDescribe returns the manifest of the plugin.
	OnDescribe func() t.Manifest
	// OnCall runs a call.
	OnCall func(tool, arguments string, context t.CallContext) wit.Result[t.Output, t.Error]
)

// Describe implements the export.
func Describe() t.Manifest { return OnDescribe() }

// Call implements the export.
func Call(tool string, arguments string, context t.CallContext) wit.Result[t.Output, t.Error] {
	return OnCall(tool, arguments, context)
}
