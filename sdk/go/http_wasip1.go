package mimir

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"mimir.local/sdk/internal/bindings/wasi_http_outgoing_handler"
	http "mimir.local/sdk/internal/bindings/wasi_http_types"
	"mimir.local/sdk/internal/bindings/wasi_io_streams"
	wit "mimir.local/sdk/internal/wit/types"
)

// chunk is the most that blocking-write-and-flush takes.
const chunk = 4096

func fetch(request Request) (*Response, error) {
	target, err := url.Parse(request.URL)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, Errorf(InvalidInput, "`%s` is not a URL: expected http://… or https://…", request.URL)
	}
	var fields []wit.Tuple2[string, []uint8]
	for name, value := range request.Header {
		fields = append(fields, wit.Tuple2[string, []uint8]{F0: strings.ToLower(name), F1: []byte(value)})
	}
	if len(request.Body) > 0 {
		length := strconv.Itoa(len(request.Body))
		fields = append(fields, wit.Tuple2[string, []uint8]{F0: "content-length", F1: []byte(length)})
	}
	headers := http.FieldsFromList(fields)
	if headers.IsErr() {
		return nil, Errorf(InvalidInput, "a header of the request is not valid")
	}
	outgoing := http.MakeOutgoingRequest(headers.Ok())
	scheme := http.MakeSchemeHttps()
	if target.Scheme == "http" {
		scheme = http.MakeSchemeHttp()
	}
	path := target.EscapedPath()
	if path == "" {
		path = "/"
	}
	if target.RawQuery != "" {
		path += "?" + target.RawQuery
	}
	outgoing.SetMethod(method(request.Method))
	outgoing.SetScheme(wit.Some(scheme))
	outgoing.SetAuthority(wit.Some(target.Host))
	outgoing.SetPathWithQuery(wit.Some(path))
	var body *http.OutgoingBody
	if len(request.Body) > 0 {
		body = outgoing.Body().Ok()
	}
	sent := wasi_http_outgoing_handler.Handle(outgoing, wit.None[*http.RequestOptions]())
	if sent.IsErr() {
		return nil, httpError(request.URL, sent.Err())
	}
	if body != nil {
		if err := writeBody(body, request.Body); err != nil {
			return nil, err
		}
	}
	future := sent.Ok()
	pollable := future.Subscribe()
	pollable.Block()
	pollable.Drop()
	result := future.Get().Some().Ok()
	if result.IsErr() {
		return nil, httpError(request.URL, result.Err())
	}
	response := result.Ok()
	header := map[string]string{}
	for _, field := range response.Headers().Entries() {
		name := strings.ToLower(field.F0)
		if before, ok := header[name]; ok {
			header[name] = before + ", " + string(field.F1)
		} else {
			header[name] = string(field.F1)
		}
	}
	content, err := readBody(response)
	if err != nil {
		return nil, err
	}
	return &Response{Status: int(response.Status()), Header: header, Body: content}, nil
}

func writeBody(body *http.OutgoingBody, content []byte) error {
	stream := body.Write().Ok()
	for len(content) > 0 {
		part := content[:min(len(content), chunk)]
		if result := stream.BlockingWriteAndFlush(part); result.IsErr() {
			return Errorf(Network, "the connection was closed before the request was sent")
		}
		content = content[len(part):]
	}
	stream.Drop()
	if result := http.OutgoingBodyFinish(body, wit.None[*http.Fields]()); result.IsErr() {
		return Errorf(Network, "the request could not be finished")
	}
	return nil
}

func readBody(response *http.IncomingResponse) ([]byte, error) {
	incoming := response.Consume().Ok()
	stream := incoming.Stream().Ok()
	defer incoming.Drop()
	defer stream.Drop()
	var content []byte
	for {
		result := stream.BlockingRead(1 << 16)
		if result.IsOk() {
			content = append(content, result.Ok()...)
			continue
		}
		if failure := result.Err(); failure.Tag() != wasi_io_streams.StreamErrorClosed {
			return nil, Errorf(Network, "the response ended early")
		}
		return content, nil
	}
}

func method(name string) http.Method {
	switch strings.ToUpper(name) {
	case "GET":
		return http.MakeMethodGet()
	case "HEAD":
		return http.MakeMethodHead()
	case "POST":
		return http.MakeMethodPost()
	case "PUT":
		return http.MakeMethodPut()
	case "PATCH":
		return http.MakeMethodPatch()
	case "DELETE":
		return http.MakeMethodDelete()
	case "OPTIONS":
		return http.MakeMethodOptions()
	}
	return http.MakeMethodOther(name)
}

func httpError(url string, code http.ErrorCode) error {
	if code.Tag() == http.ErrorCodeHttpRequestDenied {
		return Errorf(PermissionDenied, "%s: the request was denied", url)
	}
	text := fmt.Sprintf("%s: the request failed (error %d of wasi:http)", url, code.Tag())
	if code.Tag() == http.ErrorCodeInternalError {
		text = url + ": " + code.InternalError().SomeOr("the request failed")
	}
	return Errorf(Network, "%s", text)
}
