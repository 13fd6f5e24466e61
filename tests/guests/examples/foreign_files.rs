//! A component that was not written for mimir. Its functions read and write files, and return the variables and
//! settings that they see.

#![expect(missing_docs, unsafe_code, reason = "written by a generator")]

wit_bindgen::generate!({
    inline: r#"
        package wasi:config@0.2.0-draft;

        interface store {
            variant error { upstream(string), io(string) }
            get: func(key: string) -> result<option<string>, error>;
            get-all: func() -> result<list<tuple<string, string>>, error>;
        }

        world files {
            import store;
            export read-text: func(path: string) -> result<string, string>;
            export write-text: func(path: string, text: string) -> result<_, string>;
            export variable: func(name: string) -> option<string>;
            export setting: func(key: string) -> option<string>;
            export settings: func() -> list<tuple<string, string>>;
        }
    "#,
});

struct Files;

impl Guest for Files {
    fn read_text(path: String) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }

    fn write_text(path: String, text: String) -> Result<(), String> {
        std::fs::write(path, text).map_err(|error| error.to_string())
    }

    fn variable(name: String) -> Option<String> {
        std::env::var(name).ok()
    }

    fn setting(key: String) -> Option<String> {
        wasi::config::store::get(&key).unwrap_or_default()
    }

    fn settings() -> Vec<(String, String)> {
        wasi::config::store::get_all().unwrap_or_default()
    }
}

export!(Files);
