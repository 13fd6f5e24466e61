// Requests through `wasi:http`. A file of its own: a component that sends none does not import it.

#ifdef __wasm__

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bindings.h"
#include "internal.h"

// The most that blocking-write-and-flush takes.
enum { CHUNK = 4096 };

static bindings_string_t view(const char *text, size_t size) { return (bindings_string_t){(uint8_t *)text, size}; }

static void put_method(wasi_http_types_method_t *to, const char *method) {
    // In the order of the contract.
    static const char *const known[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"};
    memset(to, 0, sizeof *to);
    for (uint8_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!strcasecmp(known[i], method)) {
            to->tag = i;
            return;
        }
    }
    to->tag = WASI_HTTP_TYPES_METHOD_OTHER;
    to->val.other = view(method, strlen(method));
}

static mimir_result *http_error(const char *url, const wasi_http_types_error_code_t *code) {
    if (code->tag == WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_DENIED)
        return mimir_fail(MIMIR_PERMISSION_DENIED, "%s: the request was denied", url);
    if (code->tag == WASI_HTTP_TYPES_ERROR_CODE_INTERNAL_ERROR && code->val.internal_error.is_some)
        return mimir_fail(MIMIR_NETWORK, "%s: %.*s", url, (int)code->val.internal_error.val.len,
                          (const char *)code->val.internal_error.val.ptr);
    return mimir_fail(MIMIR_NETWORK, "%s: the request failed (error %d of wasi:http)", url, code->tag);
}

static mimir_result *make_request(const mimir_request *request, wasi_http_types_own_outgoing_request_t *made) {
    const char *url = request->url;
    bool is_https = !strncmp(url, "https://", 8);
    if (!is_https && strncmp(url, "http://", 7))
        return mimir_fail(MIMIR_INVALID_INPUT, "`%s` is not a URL: expected http://... or https://...", url);
    const char *authority = url + (is_https ? 8 : 7);
    size_t authority_size = strcspn(authority, "/?#");
    const char *path = authority + authority_size;
    size_t path_size = strcspn(path, "#");
    const char *full = *path == '/' ? mimir_format("%.*s", (int)path_size, path) : mimir_format("/%.*s", (int)path_size, path);

    size_t count = 0;
    while (request->headers && request->headers[count * 2]) count++;
    wasi_http_types_list_tuple2_field_name_field_value_t entries;
    entries.ptr = mimir_alloc((count + 1) * sizeof *entries.ptr);
    entries.len = count;
    for (size_t i = 0; i < count; i++) {
        const char *name = request->headers[i * 2], *value = request->headers[i * 2 + 1];
        entries.ptr[i].f0 = view(name, strlen(name));
        entries.ptr[i].f1.ptr = (uint8_t *)value, entries.ptr[i].f1.len = strlen(value);
    }
    if (request->body_size) {
        const char *length = mimir_format("%zu", request->body_size);
        entries.ptr[entries.len].f0 = view("content-length", 14);
        entries.ptr[entries.len].f1.ptr = (uint8_t *)length, entries.ptr[entries.len].f1.len = strlen(length);
        entries.len++;
    }
    wasi_http_types_own_fields_t headers;
    wasi_http_types_header_error_t refused;
    if (!wasi_http_types_static_fields_from_list(&entries, &headers, &refused))
        return mimir_fail(MIMIR_INVALID_INPUT, "a header of the request is not valid");
    *made = wasi_http_types_constructor_outgoing_request(headers);
    wasi_http_types_borrow_outgoing_request_t self = wasi_http_types_borrow_outgoing_request(*made);

    wasi_http_types_method_t method;
    put_method(&method, request->method ? request->method : "GET");
    wasi_http_types_scheme_t scheme;
    memset(&scheme, 0, sizeof scheme);
    scheme.tag = is_https ? WASI_HTTP_TYPES_SCHEME_HTTPS : WASI_HTTP_TYPES_SCHEME_HTTP;
    bindings_string_t host = view(authority, authority_size), target = view(full, strlen(full));
    if (!wasi_http_types_method_outgoing_request_set_method(self, &method) ||
        !wasi_http_types_method_outgoing_request_set_scheme(self, &scheme) ||
        !wasi_http_types_method_outgoing_request_set_authority(self, &host) ||
        !wasi_http_types_method_outgoing_request_set_path_with_query(self, &target))
        return mimir_fail(MIMIR_INVALID_INPUT, "`%s` is not a valid URL, or its method is not valid", url);
    return NULL;
}

static mimir_result *write_body(wasi_http_types_own_outgoing_body_t body, const char *data, size_t size) {
    wasi_http_types_own_output_stream_t stream;
    if (!wasi_http_types_method_outgoing_body_write(wasi_http_types_borrow_outgoing_body(body), &stream))
        return mimir_fail(MIMIR_NETWORK, "the request has no body");
    while (size) {
        bindings_list_u8_t part = {(uint8_t *)data, size < CHUNK ? size : CHUNK};
        wasi_io_streams_stream_error_t failed;
        if (!wasi_io_streams_method_output_stream_blocking_write_and_flush(wasi_io_streams_borrow_output_stream(stream), &part, &failed))
            return mimir_fail(MIMIR_NETWORK, "the connection was closed before the request was sent");
        data += part.len;
        size -= part.len;
    }
    wasi_io_streams_output_stream_drop_own(stream);
    wasi_http_types_error_code_t failed;
    if (!wasi_http_types_static_outgoing_body_finish(body, NULL, &failed)) return http_error("the request", &failed);
    return NULL;
}

static mimir_result *read_body(wasi_http_types_borrow_incoming_response_t response, mimir_bytes *body) {
    wasi_http_types_own_incoming_body_t incoming;
    wasi_http_types_own_input_stream_t stream;
    if (!wasi_http_types_method_incoming_response_consume(response, &incoming) ||
        !wasi_http_types_method_incoming_body_stream(wasi_http_types_borrow_incoming_body(incoming), &stream))
        return mimir_fail(MIMIR_NETWORK, "the response has no body");
    *body = (mimir_bytes){mimir_alloc(1), 0};
    for (;;) {
        bindings_list_u8_t part;
        wasi_io_streams_stream_error_t failed;
        if (!wasi_io_streams_method_input_stream_blocking_read(wasi_io_streams_borrow_input_stream(stream), 1 << 16, &part, &failed)) {
            if (failed.tag != WASI_IO_STREAMS_STREAM_ERROR_CLOSED) return mimir_fail(MIMIR_NETWORK, "the response ended early");
            break;
        }
        body->data = realloc(body->data, body->size + part.len + 1);
        if (!body->data) abort();
        memcpy(body->data + body->size, part.ptr, part.len);
        body->size += part.len;
        free(part.ptr);
    }
    body->data[body->size] = 0;
    wasi_io_streams_input_stream_drop_own(stream);
    wasi_http_types_incoming_body_drop_own(incoming);
    return NULL;
}

mimir_result *mimir_fetch(mimir_response *response, const mimir_request *request) {
    wasi_http_types_own_outgoing_request_t outgoing;
    MIMIR_TRY(make_request(request, &outgoing));
    wasi_http_types_own_outgoing_body_t body;
    if (request->body_size && !wasi_http_types_method_outgoing_request_body(wasi_http_types_borrow_outgoing_request(outgoing), &body))
        return mimir_fail(MIMIR_NETWORK, "the request has no body");
    wasi_http_types_own_future_incoming_response_t future;
    wasi_http_types_error_code_t failed;
    if (!wasi_http_outgoing_handler_handle(outgoing, NULL, &future, &failed)) return http_error(request->url, &failed);
    if (request->body_size) MIMIR_TRY(write_body(body, request->body, request->body_size));

    wasi_http_types_borrow_future_incoming_response_t waiting = wasi_http_types_borrow_future_incoming_response(future);
    wasi_io_poll_own_pollable_t pollable = wasi_http_types_method_future_incoming_response_subscribe(waiting);
    wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(pollable));
    wasi_io_poll_pollable_drop_own(pollable);
    wasi_http_types_result_result_own_incoming_response_error_code_void_t result;
    if (!wasi_http_types_method_future_incoming_response_get(waiting, &result) || result.is_err)
        return mimir_fail(MIMIR_NETWORK, "%s: there is no response", request->url);
    if (result.val.ok.is_err) return http_error(request->url, &result.val.ok.val.err);

    wasi_http_types_borrow_incoming_response_t incoming = wasi_http_types_borrow_incoming_response(result.val.ok.val.ok);
    response->status = wasi_http_types_method_incoming_response_status(incoming);
    wasi_http_types_list_tuple2_field_name_field_value_t fields;
    wasi_http_types_own_fields_t headers = wasi_http_types_method_incoming_response_headers(incoming);
    wasi_http_types_method_fields_entries(wasi_http_types_borrow_fields(headers), &fields);
    wasi_http_types_fields_drop_own(headers);
    response->headers = mimir_alloc((fields.len * 2 + 1) * sizeof *response->headers);
    for (size_t i = 0; i < fields.len; i++) {
        char *name = mimir_copy((const char *)fields.ptr[i].f0.ptr, fields.ptr[i].f0.len);
        for (char *at = name; *at; at++)
            if (*at >= 'A' && *at <= 'Z') *at += 'a' - 'A';
        response->headers[i * 2] = name;
        response->headers[i * 2 + 1] = mimir_copy((const char *)fields.ptr[i].f1.ptr, fields.ptr[i].f1.len);
    }
    return read_body(incoming, &response->body);
}

#endif
