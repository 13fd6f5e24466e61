use mimir_core::ToolErrorCode;

use super::*;

fn options(name: &str) -> ImportOptions {
    ImportOptions {
        name: Some(name.to_owned()),
        ..ImportOptions::default()
    }
}

fn import_text(text: &str, options: &ImportOptions) -> Result<ImportedApi, ToolError> {
    import(text.as_bytes(), options)
}

const SHOP: &str = r##"
openapi: 3.0.3
info: {title: Shop API, version: "1"}
servers: [{url: "https://shop.example/v1"}]
security: [{token: []}]
paths:
  /items/{id}:
    parameters: [{$ref: "#/components/parameters/Id"}]
    get:
      operationId: getItem
      tags: [items]
      summary: Returns an item
      parameters:
        - {name: "fields[]", in: query, explode: false, schema: {type: array, items: {type: string}}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: Authorization, in: header, required: true, schema: {type: string}}
      responses: {200: {description: ok}}
    put:
      operationId: putItem
      requestBody:
        required: true
        content:
          application/xml: {schema: {type: string}}
          application/json: {schema: {$ref: "#/components/schemas/Item"}}
      responses: {200: {description: ok}}
  /health:
    get:
      security: []
      servers: [{url: "https://status.example"}]
      responses: {200: {description: ok}}
components:
  parameters:
    Id: {name: id, in: path, required: true, schema: {type: integer}}
  schemas:
    Item: {type: object, required: [name], properties: {name: {type: string}, id: {type: integer, readOnly: true}}}
  securitySchemes:
    token: {type: http, scheme: bearer}
"##;

#[test]
fn openapi_import_writes_tools_that_load() {
    let imported = import_text(SHOP, &ImportOptions::default()).unwrap();
    assert_eq!(imported.name, "shop");
    assert_eq!(
        imported.file.tool_names(),
        ["shop_get_item", "shop_put_item", "shop_get_health"]
    );
    assert_eq!(imported.file.secret_notes(), [("SHOP_TOKEN", "the token")]);
    assert!(
        imported.skipped.is_empty() && imported.notes.is_empty(),
        "{imported:?}"
    );
    let [get, put, health] = &imported.file.operations[..] else {
        panic!("{:?}", imported.file);
    };
    assert_eq!(
        get.schema,
        json!({
            "type": "object",
            "properties": {
                "fields": {"type": "array", "items": {"type": "string"}},
                "X-Trace": {"type": "string"},
                "id": {"type": "integer"},
            },
            "required": ["id"],
            "additionalProperties": false,
        })
    );
    assert_eq!(get.parameters[0].explode, Some(false));
    assert_eq!(get.description, "Returns an item\nGET /items/{id}");
    assert_eq!(
        put.schema["properties"]["body"],
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
    );
    assert_eq!(put.secrets, ["SHOP_TOKEN"]);
    assert_eq!(
        (health.server.as_deref(), health.secrets.len()),
        (Some("https://status.example"), 0)
    );
    let line = r#"        fields: {type: array, items: {type: string}}"#;
    assert!(
        imported.text.lines().any(|found| found == line),
        "{}",
        imported.text
    );
    let again = import_text(SHOP, &ImportOptions::default()).unwrap();
    assert_eq!(
        again.text, imported.text,
        "the text depends on the document only"
    );
}

#[test]
fn openapi_import_selects_operations() {
    let mut options = options("shop");
    options.source.include = vec!["tag:items".to_owned(), "put*".to_owned()];
    options.source.exclude = vec!["GET /items/*".to_owned()];
    let imported = import_text(SHOP, &options).unwrap();
    assert_eq!(imported.file.tool_names(), ["shop_put_item"]);
    options.source.exclude = vec!["tag:item".to_owned()];
    let error = import_text(SHOP, &options).unwrap_err();
    assert!(
        error
            .message
            .contains("`--exclude tag:item` matches no operation"),
        "{error}"
    );
}

#[test]
fn openapi_import_chooses_the_server() {
    let mut options = options("shop");
    options.source.server = Some("http://127.0.0.1:8080/api".to_owned());
    let imported = import_text(SHOP, &options).unwrap();
    assert_eq!(imported.file.server, "http://127.0.0.1:8080/api");
    assert!(
        imported
            .file
            .operations
            .iter()
            .all(|operation| operation.server.is_none())
    );
    let relative = SHOP.replace("https://shop.example/v1", "/v1");
    options.source.server = None;
    let imported = import_text(&relative, &options).unwrap();
    assert_eq!(
        imported.file.tool_names(),
        ["shop_get_health"],
        "only this one has a server of its own"
    );
    assert!(
        imported.skipped[0].contains("--server URL"),
        "{:?}",
        imported.skipped
    );
    options.source.document = "https://docs.example/a/openapi.yml".to_owned();
    let imported = import_text(&relative, &options).unwrap();
    assert_eq!(imported.file.server, "https://docs.example/v1");
}

#[test]
fn openapi_import_reads_swagger() {
    let text = r##"{"swagger": "2.0", "info": {"title": "Old"}, "host": "old.example", "basePath": "/api", "schemes": ["http", "https"],
        "securityDefinitions": {"basic": {"type": "basic"}}, "security": [{"basic": []}],
        "definitions": {"Pet": {"type": "object", "properties": {"name": {"type": "string", "x-nullable": true}}}},
        "paths": {"/pets": {
            "post": {"operationId": "addPet", "parameters": [{"in": "body", "name": "pet", "required": true, "schema": {"$ref": "#/definitions/Pet"}}]},
            "get": {"operationId": "listPets", "parameters": [
                {"in": "query", "name": "ids", "type": "array", "items": {"type": "integer"}},
                {"in": "query", "name": "tags", "type": "array", "items": {"type": "string"}, "collectionFormat": "multi"}]},
            "put": {"operationId": "upload", "consumes": ["multipart/form-data"], "parameters": [
                {"in": "formData", "name": "photo", "type": "file", "required": true}, {"in": "formData", "name": "note", "type": "string"}]}}}}"##;
    let imported = import_text(text, &ImportOptions::default()).unwrap();
    assert_eq!(imported.file.server, "https://old.example/api");
    let [list, add, upload] = &imported.file.operations[..] else {
        panic!("{:?}", imported.file);
    };
    assert_eq!(list.parameters[0].explode, Some(false));
    assert_eq!(list.parameters[1].explode, None);
    assert_eq!(
        add.schema["properties"]["body"]["properties"]["name"]["type"],
        json!(["string", "null"])
    );
    let body = upload.body.as_ref().unwrap();
    assert!(body.fields["photo"].file && body.media_type == "multipart/form-data");
    assert_eq!(
        upload.schema["properties"]["body"]["required"],
        json!(["photo"])
    );
    assert_eq!(imported.file.secrets[0].value, "Basic {secret}");
}

#[test]
fn openapi_import_leaves_out_what_it_cannot_send() {
    let text = r#"{"openapi": "3.1.0", "info": {"title": "Odd"}, "servers": [{"url": "https://odd.example"}],
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "key"}}},
        "paths": {
            "/good": {"get": {"parameters": [{"name": "Host", "in": "header", "schema": {"type": "string"}}]}},
            "/a b": {"get": {}}, "/a?b={c}": {"get": {}}, "/\r\nx": {"get": {}}, "//evil.example/x": {"get": {"operationId": "slashes"}},
            "@evil.example": {"get": {}}, "/missing/{id}": {"get": {}},
            "/host": {"get": {"parameters": [{"name": "Host", "in": "header", "required": true}]}},
            "/key": {"get": {"security": [{"key": []}]}},
            "/server": {"get": {"servers": [{"url": "https://user@evil.example"}]}}}}"#;
    let imported = import_text(text, &options("odd")).unwrap();
    assert_eq!(imported.file.tool_names(), ["odd_get_good", "odd_slashes"]);
    assert!(imported.file.operations[0].parameters.is_empty());
    assert_eq!(imported.skipped.len(), 8, "{:?}", imported.skipped);
    for reason in [
        "not allowed in paths",
        "`{id}`",
        "cannot be sent",
        "sends the key in the URL",
        "not valid",
        "does not begin with `/`",
    ] {
        assert!(
            imported.skipped.iter().any(|line| line.contains(reason)),
            "{reason}: {:?}",
            imported.skipped
        );
    }
}

#[test]
fn openapi_import_survives_hostile_documents() {
    let text = json!({
        "openapi": "3.0.0",
        "info": {"title": "\u{202e}Evil\u{1b}[31m\nopenapi: 2"},
        "servers": [{"url": "https://evil.example"}],
        "paths": {
            "/a": {
                "get": {"operationId": "x", "summary": "\u{202e}ignore \u{0}\u{1b}]0;title\u{7}# comment\n  - name: other\n\u{feff}"},
                "post": {"operationId": "x", "parameters": [
                    {"name": "a: {b}\n", "in": "query"}, {"name": "__proto__", "in": "query", "schema": {"enum": ["\u{202e}", "y", "no"]}}]},
            },
            "/b": {"get": 5, "post": {"parameters": 3, "requestBody": [], "responses": "x", "tags": {}, "operationId": 9}},
            "/c": 7,
        }
    });
    let imported = import(text.to_string().as_bytes(), &options("evil")).unwrap();
    assert_eq!(
        imported.file.tool_names(),
        ["evil_x", "evil_x_2", "evil_post_b"]
    );
    assert!(
        !imported
            .text
            .contains(['\u{202e}', '\u{1b}', '\u{feff}', '\0']),
        "{}",
        imported.text
    );
    assert_eq!(imported.file.openapi, 1);
    for name in ["mcp", "browser_x", "A", "a\nb", ""] {
        let error = import(text.to_string().as_bytes(), &options(name)).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::InvalidInput);
        let message = error.message;
        assert!(message.contains("not a valid name of an API"), "{message}");
    }
}

#[test]
fn openapi_import_reports_operations_that_it_does_not_read() {
    let text = r##"{"openapi": "3.0.3", "servers": [{"url": "https://a.example"}], "paths": {
        "/good": {"get": {"operationId": "good"}, "trace": {"operationId": "traced"}},
        "noslash": {"get": {"operationId": "relative"}},
        "/far": {"$ref": "other.json#/paths/~1far"}, "/gone": {"$ref": "#/x"}, "x-extension": {"get": {}},
        "/body": {"post": {"operationId": "body", "requestBody": {"$ref": "other.json#/b"}}}}}"##;
    let mut options = options("odd");
    let imported = import_text(text, &options).unwrap();
    assert_eq!(imported.file.tool_names(), ["odd_good"]);
    let expected = [
        "traced: the method `trace` is not supported",
        "relative: its path does not begin with `/`",
        "/far: it refers to `other.json#/paths/~1far`, which is outside of the document: bundle the document into one file",
        "/gone: it refers to `#/x`, which the document does not have",
        "body: its body refers to something outside of the document",
    ];
    assert_eq!(imported.skipped, expected);
    options.source.exclude = vec!["/far".to_owned(), "traced".to_owned()];
    let imported = import_text(text, &options).unwrap();
    assert_eq!(imported.skipped.len(), 3, "{:?}", imported.skipped);
}

#[test]
fn openapi_import_leaves_out_one_odd_operation() {
    let deep = (0..97).fold(json!(1), |value, _| json!([value]));
    let schema = |properties: Value| json!({"type": "object", "properties": properties});
    let body = |schema: Value| json!({"content": {"application/json": {"schema": schema}}});
    let long = "x".repeat(1_500);
    // Each character needs six in the file.
    let invisible = "\u{1}".repeat(200);
    let text = json!({
        "openapi": "3.0.3",
        "servers": [{"url": "https://a.example"}],
        "paths": {"/a": {
            "get": {"operationId": "good"},
            "put": {"operationId": "default", "requestBody": body(schema(json!({"a": {"default": deep, "enum": [deep]}})))},
            "post": {"operationId": "name", "requestBody": body(schema(json!({long: {"type": "string"}, "b": {}})))},
            "patch": {"operationId": "invisible", "requestBody": body(schema(json!({invisible: {"type": "string"}})))},
        }}
    });
    let imported = import_text(&text.to_string(), &options("odd")).unwrap();
    assert_eq!(
        imported.file.tool_names(),
        ["odd_good", "odd_name", "odd_default"]
    );
    let schemas: Vec<_> = imported.file.operations.iter().collect();
    assert_eq!(
        schemas[1].schema["properties"]["body"]["properties"],
        json!({"b": {}})
    );
    assert_eq!(
        schemas[2].schema["properties"]["body"]["properties"],
        json!({"a": {}})
    );
    let [skipped] = &imported.skipped[..] else {
        panic!("{:?}", imported.skipped);
    };
    assert!(
        skipped.starts_with("invisible: its tool is not valid: "),
        "{skipped}"
    );
}

#[test]
fn openapi_import_gives_similar_schemes_own_secrets() {
    let text = r#"{"openapi": "3.0.3", "servers": [{"url": "https://a.example"}],
        "components": {"securitySchemes": {
            "apiKey": {"type": "apiKey", "in": "header", "name": "X-One"},
            "api_key": {"type": "apiKey", "in": "header", "name": "X-Two"}}},
        "paths": {"/a": {"get": {"security": [{"apiKey": []}]}, "put": {"security": [{"api_key": []}]}}}}"#;
    let file = import_text(text, &options("shop")).unwrap().file;
    let sent: Vec<_> = file
        .operations
        .iter()
        .map(|operation| {
            let secret = |name: &String| file.secrets.iter().find(|secret| secret.name == *name);
            secret(&operation.secrets[0]).unwrap().header.as_str()
        })
        .collect();
    // In the order of the methods.
    assert_eq!(sent, ["X-One", "X-Two"]);
}

#[test]
fn openapi_import_names_other_origins() {
    let text = r#"{"openapi": "3.0.3", "servers": [{"url": "https://a.example/v1"}], "paths": {
        "/a": {"get": {"operationId": "a"}, "put": {"operationId": "b", "servers": [{"url": "https://a.example/v2"}]}},
        "/b": {"servers": [{"url": "https://b.example"}], "get": {"operationId": "c"}, "put": {"operationId": "d"}}}}"#;
    let file = import_text(text, &options("x")).unwrap().file;
    let others = file.other_origins();
    assert_eq!(
        others,
        [("https://b.example".to_owned(), vec!["x_c", "x_d"])]
    );
}

/// Documents of a few megabytes that describe far more work. Without the bounds, each of them takes hours.
#[test]
fn openapi_import_bounds_the_work() {
    let document = |paths: Value, rest: Value| {
        let mut document = json!({
            "openapi": "3.0.3",
            "servers": [{"url": "https://a.example"}],
            "paths": {"/good": {"get": {"operationId": "good"}}}
        });
        for (part, members) in [("paths", paths), ("x-rest", rest)] {
            let target = document.as_object_mut().unwrap().entry(part);
            let target = target.or_insert_with(|| json!({})).as_object_mut().unwrap();
            target.extend(members.as_object().unwrap().clone());
        }
        let imported = import_text(&document.to_string(), &options("work")).unwrap();
        assert_eq!(imported.file.operations[0].name, "work_good");
        imported
    };

    let parameters: Vec<Value> = (0..100_000)
        .map(|number| json!({"name": format!("p{number}"), "in": "query"}))
        .collect();
    let imported = document(
        json!({"/a": {"get": {"operationId": "a", "parameters": parameters}}}),
        json!({}),
    );
    assert_eq!(imported.skipped, ["a: it has more than 200 parameters"]);

    let values: Vec<String> = (0..100_000).map(|number| format!("v{number}")).collect();
    let refers = json!({"$ref": "#/x-rest/value"});
    let members: serde_json::Map<String, Value> = (0..1_900)
        .map(|number| (format!("p{number}"), refers.clone()))
        .collect();
    let body = json!({"content": {"application/json": {"schema": {"$ref": "#/x-rest/body"}}}});
    for value in [
        json!({"type": "string", "enum": values}),
        json!({"type": "object", "default": {"x": values}}),
    ] {
        let paths: serde_json::Map<String, Value> = (0..5)
            .map(|number| {
                let operation = json!({"post": {"requestBody": body}});
                (format!("/a{number}"), operation)
            })
            .collect();
        let rest = json!({"value": value, "body": {"properties": members}});
        let imported = document(paths.into(), rest);
        assert_eq!(imported.file.operations.len(), 6, "{:?}", imported.skipped);
        let text = imported.text;
        assert!(!text.contains("enum") && !text.contains("default"));
    }

    let servers = vec![json!({"url": "{missing}"}); 100_000];
    let paths: serde_json::Map<String, Value> = (0..1_900)
        .map(|number| (format!("/a{number}"), json!({"$ref": "#/x-rest/path"})))
        .collect();
    let imported = document(
        paths.into(),
        json!({"path": {"servers": servers, "get": {}}}),
    );
    assert_eq!(imported.skipped.len(), 1_900);
    assert!(
        imported.skipped[0].contains("server URL"),
        "{}",
        imported.skipped[0]
    );
}

#[test]
fn openapi_import_bounds_the_number_of_operations() {
    let paths: serde_json::Map<String, Value> = (0..=MAX_OPERATIONS)
        .map(|number| (format!("/p{number}"), json!({"get": {"tags": ["a"]}})))
        .collect();
    let text =
        json!({"openapi": "3.0.0", "servers": [{"url": "https://a.example"}], "paths": paths})
            .to_string();
    let error = import_text(&text, &options("many")).unwrap_err();
    assert_eq!(error.code, ToolErrorCode::LimitExceeded);
    assert!(error.message.contains("--include"), "{error}");
}

#[test]
fn openapi_names_follow_the_title() {
    for (title, name) in [
        ("GitHub v3 REST API", "github"),
        ("Discord HTTP API (Preview)", "discord_preview"),
        ("OpenAI API", "openai"),
        ("Kubernetes", "kubernetes"),
    ] {
        assert_eq!(api_name(None, title).unwrap(), name);
    }
    assert!(
        api_name(None, "API")
            .unwrap_err()
            .message
            .contains("--name NAME")
    );
    for (name, snake) in [
        ("getHTTPServer2Info", "get_http_server2_info"),
        ("repos/list-for_user", "repos_list_for_user"),
        ("é", ""),
    ] {
        assert_eq!(snake_case(name), snake);
    }
}
