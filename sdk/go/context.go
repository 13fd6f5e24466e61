package mimir

import "path/filepath"

// Context is the context of one call. It contains no secrets.
type Context struct {
	// Workspace is the workspace root as this tool sees it. Files that were not granted do not exist there.
	Workspace string
	// RequestID is the unique id of this call.
	RequestID string
	// SessionID is the id of the session, shared by all calls of the session.
	SessionID string
	// ConversationID is the id of the conversation that the call belongs to; empty if the caller gave none.
	ConversationID string
	// User is the user on whose behalf the call runs; empty if not known.
	User string
}

// ContextAt returns a context for tests, with a folder as the workspace.
func ContextAt(workspace string) *Context {
	return &Context{Workspace: workspace, RequestID: "test-request", SessionID: "test-session"}
}

// Path joins a path to the workspace root: Path("/a") is Path("a"). It resolves "..", and does not check that the result
// is below the root: the host refuses files outside of it.
func (cx *Context) Path(relative string) string {
	return filepath.Join(cx.Workspace, relative)
}
