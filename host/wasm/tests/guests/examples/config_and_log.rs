//! A component with `wasi:config` in its oldest form and `wasi:logging`.

wit_bindgen::generate!({
    inline: r#"
        package test:guest;

        world guest {
            import wasi:config/runtime@0.2.0-draft;
            import wasi:logging/logging@0.1.0-draft;
            export report: func(name: string) -> result<string, string>;
        }

        package wasi:config@0.2.0-draft {
            interface runtime {
                variant config-error { upstream(string), io(string) }
                get: func(key: string) -> result<option<string>, config-error>;
                get-all: func() -> result<list<tuple<string, string>>, config-error>;
            }
        }

        package wasi:logging@0.1.0-draft {
            interface logging {
                enum level { trace, debug, info, warn, error, critical }
                log: func(level: level, context: string, message: string);
            }
        }
    "#,
    world: "guest",
    generate_all,
});

use wasi::config::runtime;
use wasi::logging::logging::{Level, log};

struct Component;

impl Guest for Component {
    fn report(name: String) -> Result<String, String> {
        log(Level::Critical, "report", &format!("reads {name}"));
        log(Level::Info, "", "no context");
        let all = runtime::get_all().map_err(|error| format!("{error:?}"))?;
        let value = runtime::get(&name).map_err(|error| format!("{error:?}"))?;
        Ok(format!("{} of {}", value.unwrap_or_default(), all.len()))
    }
}

export!(Component);
