package mimir

import (
	"encoding/json"
	"fmt"

	"mimir.local/sdk/internal/bindings/export_mimir_tool_toolset"
	t "mimir.local/sdk/internal/bindings/mimir_tool_types"
	// The exports of the component.
	_ "mimir.local/sdk/internal/bindings/wit_exports"
	wit "mimir.local/sdk/internal/wit/types"
)

func init() {
	export_mimir_tool_toolset.OnDescribe = manifest
	export_mimir_tool_toolset.OnCall = call
}

func manifest() t.Manifest {
	defer func() {
		if fault := recover(); fault != nil {
			refuseDefinition(fmt.Sprint(fault))
		}
	}()
	read := func(key, otherwise string) string {
		if value := project[key]; value != "" {
			return value
		}
		return otherwise
	}
	made := t.Manifest{
		Name: read("name", "tools"), Version: read("version", "0.1.0"), Description: read("description", ""),
		License: optional(project["license"]), Homepage: optional(project["homepage"]),
	}
	for _, tool := range tools {
		made.Tools = append(made.Tools, tool.definition())
	}
	if made.Description == "" && len(tools) > 0 {
		made.Description = tools[0].description()
	}
	return made
}

func (tool *tool) definition() t.Definition {
	groups := [...]t.Group{t.GroupSystem, t.GroupRuntime, t.GroupFs, t.GroupNet, t.GroupBrowser, t.GroupMemory}
	approval := t.ApprovalAsk
	switch {
	case tool.approval == Allow, tool.approval == DefaultApproval && tool.settings.needs.isEmpty():
		approval = t.ApprovalAllow
	case tool.approval == Deny:
		approval = t.ApprovalDeny
	}
	var hints t.Hints
	for _, hint := range tool.hints {
		hints |= 1 << hint
	}
	return t.Definition{
		Name: tool.name, Title: optional(tool.title), Description: tool.description(), Group: groups[tool.group],
		InputSchema: toJSON(schemaOf(tool.input)), OutputSchema: optional(tool.outputSchema()),
		Approval: approval, Risk: t.Risk(tool.risk), Hints: hints, Needs: tool.settings.needs.toWit(),
	}
}

func (n *needs) toWit() t.Needs {
	made := t.Needs{Variables: n.variables, Tools: n.tools, Model: n.model}
	for _, need := range n.files {
		access := t.FileAccessRead
		if need.write {
			access = t.FileAccessReadWrite
		}
		made.Files = append(made.Files, t.FileNeed{Path: need.path, Access: access, Reason: need.reason})
	}
	for _, need := range n.hosts {
		made.Hosts = append(made.Hosts, t.HostNeed{Host: need.host, Methods: need.methods, Reason: need.reason})
	}
	for _, need := range n.commands {
		made.Commands = append(made.Commands, t.CommandNeed{Pattern: need.pattern, Reason: need.reason})
	}
	for _, need := range n.secrets {
		made.Secrets = append(made.Secrets, t.SecretNeed{Name: need.name, Host: need.host, Header: need.header, Reason: need.reason})
	}
	return made
}

func call(name, arguments string, context t.CallContext) wit.Result[t.Output, t.Error] {
	output, err := Call(&Context{
		Workspace: context.Workspace, RequestID: context.RequestId, SessionID: context.SessionId,
		ConversationID: context.ConversationId.SomeOr(""), User: context.User.SomeOr(""),
	}, name, arguments)
	if err != nil {
		return wit.Err[t.Output](toError(err).toWit())
	}
	return wit.Ok[t.Output, t.Error](output.toWit())
}

func (o *Output) toWit() t.Output {
	made := t.Output{Structured: optional(string(o.structured))}
	if o.exitCode != nil {
		made.ExitCode = wit.Some(*o.exitCode)
	}
	for _, part := range o.parts {
		media := t.Media{MimeType: part.mimeType, Data: part.data}
		switch part.kind {
		case "text":
			made.Content = append(made.Content, t.MakeContentText(part.text))
		case "image":
			made.Content = append(made.Content, t.MakeContentImage(media))
		case "audio":
			made.Content = append(made.Content, t.MakeContentAudio(media))
		case "file":
			file := t.Artifact{Name: part.name, MimeType: part.mimeType, Data: part.data}
			made.Content = append(made.Content, t.MakeContentFile(file))
		}
	}
	return made
}

func outputFromWit(made t.Output) *Output {
	output := new(Output)
	for _, content := range made.Content {
		switch content.Tag() {
		case t.ContentText:
			output.AndText(content.Text())
		case t.ContentImage:
			output.Image(content.Image().MimeType, content.Image().Data)
		case t.ContentAudio:
			output.Audio(content.Audio().MimeType, content.Audio().Data)
		case t.ContentFile:
			output.File(content.File().Name, content.File().MimeType, content.File().Data)
		}
	}
	if made.Structured.IsSome() {
		output.structured = json.RawMessage(made.Structured.Some())
	}
	if made.ExitCode.IsSome() {
		output.ExitCode(made.ExitCode.Some())
	}
	return output
}

// codes are those of the contract, in its order.
var codes = [...]Code{
	InvalidInput, InvalidPath, NotFound, FileNotFound, AlreadyExists, PermissionDenied, ApprovalDenied, Timeout, Cancelled,
	LimitExceeded, Network, Execution, Unavailable,
}

func (e *Error) toWit() t.Error {
	makers := [...]func() t.ErrorCode{
		t.MakeErrorCodeInvalidInput, t.MakeErrorCodeInvalidPath, t.MakeErrorCodeNotFound, t.MakeErrorCodeFileNotFound,
		t.MakeErrorCodeAlreadyExists, t.MakeErrorCodePermissionDenied, t.MakeErrorCodeApprovalDenied, t.MakeErrorCodeTimeout,
		t.MakeErrorCodeCancelled, t.MakeErrorCodeLimitExceeded, t.MakeErrorCodeNetwork, t.MakeErrorCodeExecution,
		t.MakeErrorCodeUnavailable,
	}
	code := t.MakeErrorCodeOther(string(e.Code))
	for i, known := range codes {
		if known == e.Code {
			code = makers[i]()
		}
	}
	made := t.Error{Code: code, Message: e.Message}
	if e.Details != nil {
		if details, err := json.Marshal(e.Details); err == nil {
			made.Details = wit.Some(string(details))
		}
	}
	return made
}

func fromWit(made t.Error) error {
	var code Code
	if tag := int(made.Code.Tag()); tag < len(codes) {
		code = codes[tag]
	} else {
		code = Code(made.Code.Other())
	}
	return &Error{Code: code, Message: made.Message, Details: rawDetails(made.Details)}
}
