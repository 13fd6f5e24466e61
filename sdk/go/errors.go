package mimir

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Code is the stable code of an error: one of the contract, or one of the tool's own. Callers see the latter as
// EXECUTION_ERROR, with the code in details.code.
type Code string

// The codes of the contract.
const (
	InvalidInput     Code = "invalid-input"
	InvalidPath      Code = "invalid-path"
	NotFound         Code = "not-found"
	FileNotFound     Code = "file-not-found"
	AlreadyExists    Code = "already-exists"
	PermissionDenied Code = "permission-denied"
	ApprovalDenied   Code = "approval-denied"
	Timeout          Code = "timeout"
	Cancelled        Code = "cancelled"
	LimitExceeded    Code = "limit-exceeded"
	Network          Code = "network"
	Execution        Code = "execution"
	Unavailable      Code = "unavailable"
)

// Error is a failed call. Programs read the code; the model and the person read the message.
type Error struct {
	Code    Code
	Message string
	// Details are for programs; nil without any. They are written as JSON.
	Details any
}

func (e *Error) Error() string { return e.Message }

// Errorf returns an error with a code.
func Errorf(code Code, format string, arguments ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, arguments...)}
}

// toError gives any error a code.
func toError(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	code := Execution
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = FileNotFound
	case errors.Is(err, fs.ErrPermission):
		code = PermissionDenied
	case errors.Is(err, fs.ErrExist):
		code = AlreadyExists
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		// Go finds no granted folder with the path, and has no better code for that.
		if path.Err == syscall.EBADF {
			return Errorf(PermissionDenied, "%s: not in a folder that the tool needs and was granted", path.Path)
		}
		return Errorf(code, "%s: %s", path.Path, path.Err)
	}
	return Errorf(code, "%s", err)
}
