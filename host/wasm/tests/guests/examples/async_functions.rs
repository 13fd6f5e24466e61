//! A component with async functions and streams of bytes. Some functions misbehave on purpose.

wit_bindgen::generate!({
    inline: r#"
        package test:guest;

        interface words {
            shout: async func(text: string) -> string;
            fails: async func() -> result<string, string>;
            lines: async func(count: u32) -> stream<u8>;
            upper: async func(text: stream<u8>) -> result<stream<u8>, string>;
            spin: async func();
            yield-forever: async func();
            wait-forever: async func();
            endless: async func() -> stream<u8>;
            grow: async func() -> u32;
            streams: async func() -> u32;
            tasks: async func() -> u32;
            pair: async func() -> tuple<stream<u8>, u32>;
        }

        world guest {
            export words;
        }
    "#,
    world: "guest",
});

use exports::test::guest::words::Guest;
use wit_bindgen::StreamReader;

struct Component;

impl Guest for Component {
    async fn shout(text: String) -> String {
        wit_bindgen::yield_async().await;
        text.to_uppercase()
    }

    async fn fails() -> Result<String, String> {
        Err("as asked".to_owned())
    }

    async fn lines(count: u32) -> StreamReader<u8> {
        let (mut writer, reader) = wit_stream::new();
        wit_bindgen::spawn_local(async move {
            for line in 0..count {
                wit_bindgen::yield_async().await;
                let line = format!("line {line}\n").into_bytes();
                if !writer.write_all(line).await.is_empty() {
                    return;
                }
            }
        });
        reader
    }

    async fn upper(text: StreamReader<u8>) -> Result<StreamReader<u8>, String> {
        let bytes = text.collect().await;
        if bytes.is_empty() {
            return Err("nothing to do".to_owned());
        }
        let (mut writer, reader) = wit_stream::new();
        wit_bindgen::spawn_local(async move {
            writer.write_all(bytes.to_ascii_uppercase()).await;
        });
        Ok(reader)
    }

    async fn spin() {
        loop {
            std::hint::black_box(0);
        }
    }

    async fn yield_forever() {
        loop {
            wit_bindgen::yield_async().await;
        }
    }

    async fn wait_forever() {
        std::future::pending().await
    }

    async fn endless() -> StreamReader<u8> {
        let (mut writer, reader) = wit_stream::new();
        wit_bindgen::spawn_local(async move {
            while writer.write_all(vec![b'x'; 4096]).await.is_empty() {}
        });
        reader
    }

    async fn grow() -> u32 {
        let mut blocks = Vec::new();
        loop {
            wit_bindgen::yield_async().await;
            blocks.push(vec![1_u8; 1 << 20]);
            std::hint::black_box(&blocks);
        }
    }

    async fn streams() -> u32 {
        let mut streams = Vec::new();
        loop {
            streams.push(wit_stream::new::<u8>());
        }
    }

    async fn tasks() -> u32 {
        for _ in 0.. {
            wit_bindgen::spawn_local(std::future::pending());
            wit_bindgen::yield_async().await;
        }
        0
    }

    async fn pair() -> (StreamReader<u8>, u32) {
        (Self::lines(1).await, 1)
    }
}

export!(Component);
