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
            count: async func(to: u32) -> stream<u32>;
            split: async func(text: string) -> result<stream<string>, string>;
            sum: async func(numbers: stream<u32>) -> u64;
            endless-count: async func() -> stream<u32>;
            later: async func(text: string) -> future<string>;
            later-or-not: async func(text: string) -> future<result<string, string>>;
            later-done: async func(works: bool) -> future<result<_, string>>;
            never: async func() -> future<string>;
            receive: async func(text: future<string>) -> string;
            records: async func() -> stream<tuple<u32, u32>>;
        }

        world guest {
            export words;
        }
    "#,
    world: "guest",
});

use exports::test::guest::words::Guest;
use wit_bindgen::{FutureReader, StreamReader};

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

    async fn count(to: u32) -> StreamReader<u32> {
        let (mut writer, reader) = wit_stream::new();
        wit_bindgen::spawn_local(async move {
            for number in 0..to {
                writer.write_all(vec![number]).await;
            }
        });
        reader
    }

    async fn split(text: String) -> Result<StreamReader<String>, String> {
        if text.is_empty() {
            return Err("nothing to split".to_owned());
        }
        let (mut writer, reader) = wit_stream::new();
        wit_bindgen::spawn_local(async move {
            let words = text.split(' ').map(str::to_owned).collect();
            writer.write_all(words).await;
        });
        Ok(reader)
    }

    async fn sum(numbers: StreamReader<u32>) -> u64 {
        let numbers = numbers.collect().await;
        numbers.into_iter().map(u64::from).sum()
    }

    async fn endless_count() -> StreamReader<u32> {
        let (mut writer, reader) = wit_stream::new();
        wit_bindgen::spawn_local(async move {
            while writer.write_all(vec![7; 4096]).await.is_empty() {}
        });
        reader
    }

    async fn later(text: String) -> FutureReader<String> {
        let (writer, reader) = wit_future::new(String::new);
        wit_bindgen::spawn_local(async move {
            wit_bindgen::yield_async().await;
            writer.write(text).await.unwrap();
        });
        reader
    }

    async fn later_or_not(text: String) -> FutureReader<Result<String, String>> {
        let (writer, reader) = wit_future::new(|| Ok(String::new()));
        wit_bindgen::spawn_local(async move {
            let result = if text.is_empty() {
                Err("no text".to_owned())
            } else {
                Ok(text)
            };
            writer.write(result).await.unwrap();
        });
        reader
    }

    async fn later_done(works: bool) -> FutureReader<Result<(), String>> {
        let (writer, reader) = wit_future::new(|| Ok(()));
        wit_bindgen::spawn_local(async move {
            let result = if works {
                Ok(())
            } else {
                Err("as asked".to_owned())
            };
            writer.write(result).await.unwrap();
        });
        reader
    }

    async fn never() -> FutureReader<String> {
        let (writer, reader) = wit_future::new(String::new);
        std::mem::forget(writer);
        reader
    }

    async fn receive(text: FutureReader<String>) -> String {
        text.await
    }

    async fn records() -> StreamReader<(u32, u32)> {
        wit_stream::new().1
    }
}

export!(Component);
