//! A component that works on files through `wasi:filesystem` 0.3. Paths are relative to the first folder that it sees.

wit_bindgen::generate!({
    inline: r#"
        package test:guest;

        interface files {
            read: async func(path: string) -> result<string, string>;
            write: async func(path: string, text: string) -> result<_, string>;
            append: async func(path: string, text: string) -> result<_, string>;
            copy: async func(source: string, target: string, offset: u64) -> result<_, string>;
            append-to-itself: async func(path: string) -> result<_, string>;
            list-entries: async func(path: string) -> result<list<string>, string>;
            describe: async func(path: string) -> result<string, string>;
            change: async func(path: string) -> result<string, string>;
            remove: async func(path: string) -> result<_, string>;
            follow: async func(link: string, target: string) -> result<string, string>;
            open-many: async func(path: string) -> result<u32, string>;
            streams: async func(path: string) -> result<u32, string>;
        }

        world guest {
            export files;
        }
    "#,
    world: "guest",
});

use exports::test::guest::files::Guest;
use wasip3::filesystem::preopens::get_directories;
use wasip3::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorType, ErrorCode, NewTimestamp, OpenFlags, PathFlags,
};

struct Component;

fn root() -> Result<Descriptor, String> {
    let mut folders = get_directories().into_iter();
    let (folder, _) = folders.next().ok_or("no folder")?;
    Ok(folder)
}

fn text(code: ErrorCode) -> String {
    format!("{code:?}")
}

async fn open(path: &str, opening: OpenFlags, mode: DescriptorFlags) -> Result<Descriptor, String> {
    let root = root()?;
    let opened = root.open_at(PathFlags::SYMLINK_FOLLOW, path.to_owned(), opening, mode);
    opened.await.map_err(text)
}

async fn open_to_write(path: &str) -> Result<Descriptor, String> {
    open(path, OpenFlags::CREATE, DescriptorFlags::WRITE).await
}

async fn open_to_read(path: &str) -> Result<Descriptor, String> {
    open(path, OpenFlags::empty(), DescriptorFlags::READ).await
}

/// Writes text into a file at the offset, or at its end.
async fn put(file: &Descriptor, text: String, offset: Option<u64>) -> Result<(), ErrorCode> {
    let (mut writer, reader) = wasip3::wit_stream::new();
    let done = match offset {
        Some(offset) => file.write_via_stream(reader, offset),
        None => file.append_via_stream(reader),
    };
    let writing = async move {
        writer.write_all(text.into_bytes()).await;
    };
    let (done, ()) = futures::join!(done.into_future(), writing);
    done
}

impl Guest for Component {
    async fn read(path: String) -> Result<String, String> {
        let file = open_to_read(&path).await?;
        let (stream, done) = file.read_via_stream(0);
        let bytes = stream.collect().await;
        done.await.map_err(text)?;
        String::from_utf8(bytes).map_err(|error| error.to_string())
    }

    async fn write(path: String, content: String) -> Result<(), String> {
        let file = open_to_write(&path).await?;
        put(&file, content, Some(0)).await.map_err(text)
    }

    async fn append(path: String, content: String) -> Result<(), String> {
        let file = open_to_write(&path).await?;
        put(&file, content, None).await.map_err(text)
    }

    /// The host connects both streams: the guest sees none of the bytes.
    async fn copy(source: String, target: String, offset: u64) -> Result<(), String> {
        let source = open_to_read(&source).await?;
        let target = open_to_write(&target).await?;
        let (stream, read) = source.read_via_stream(offset);
        target.write_via_stream(stream, 0).await.map_err(text)?;
        read.await.map_err(text)
    }

    /// Never ends: each byte that is read is appended.
    async fn append_to_itself(path: String) -> Result<(), String> {
        let source = open_to_read(&path).await?;
        let target = open_to_write(&path).await?;
        let (stream, _) = source.read_via_stream(0);
        target.append_via_stream(stream).await.map_err(text)
    }

    async fn list_entries(path: String) -> Result<Vec<String>, String> {
        let folder = open(&path, OpenFlags::DIRECTORY, DescriptorFlags::READ).await?;
        let (stream, done) = folder.read_directory();
        let entries = stream.collect().await;
        done.await.map_err(text)?;
        let mut names: Vec<String> = entries
            .into_iter()
            .map(|entry| match entry.type_ {
                DescriptorType::Directory => format!("{}/", entry.name),
                _ => entry.name,
            })
            .collect();
        names.sort();
        Ok(names)
    }

    async fn describe(path: String) -> Result<String, String> {
        let folder = root()?;
        let stat = folder.stat_at(PathFlags::empty(), path.clone());
        let stat = stat.await.map_err(text)?;
        let hash = folder.metadata_hash_at(PathFlags::empty(), path.clone());
        let hash = hash.await.map_err(text)?;
        let file = open_to_read(&path).await?;
        let own = file.metadata_hash().await.map_err(text)?;
        let is_same = file.is_same_object(&file).await && !file.is_same_object(&folder).await;
        Ok(format!(
            "{:?} {} {:?} {} {}",
            stat.type_,
            stat.size,
            file.get_flags().await.map_err(text)?,
            own.lower == hash.lower && own.upper == hash.upper,
            is_same && matches!(file.get_type().await, Ok(DescriptorType::RegularFile)),
        ))
    }

    /// Changes a file in every way that has a method.
    async fn change(path: String) -> Result<String, String> {
        let folder = root()?;
        let made = format!("{path}.d");
        folder
            .create_directory_at(made.clone())
            .await
            .map_err(text)?;
        let moved = format!("{made}/moved");
        let renamed = folder.rename_at(path.clone(), &folder, moved.clone());
        renamed.await.map_err(text)?;
        let linked = folder.link_at(PathFlags::empty(), moved.clone(), &folder, path.clone());
        linked.await.map_err(text)?;
        let soft = format!("{made}/soft");
        folder
            .symlink_at("moved".to_owned(), soft.clone())
            .await
            .map_err(text)?;
        let target = folder.readlink_at(soft.clone()).await.map_err(text)?;
        let file = open(&moved, OpenFlags::empty(), DescriptorFlags::WRITE).await?;
        file.set_size(3).await.map_err(text)?;
        file.sync_data().await.map_err(text)?;
        file.sync().await.map_err(text)?;
        let times = file.set_times(NewTimestamp::Now, NewTimestamp::NoChange);
        times.await.map_err(text)?;
        for path in [soft, moved] {
            folder.unlink_file_at(path).await.map_err(text)?;
        }
        folder.remove_directory_at(made).await.map_err(text)?;
        Ok(target)
    }

    async fn remove(path: String) -> Result<(), String> {
        root()?.unlink_file_at(path).await.map_err(text)
    }

    async fn follow(link: String, target: String) -> Result<String, String> {
        let linked = root()?.symlink_at(target, link.clone()).await;
        let read = Self::read(link).await;
        Ok(format!("{linked:?} {read:?}"))
    }

    async fn open_many(path: String) -> Result<u32, String> {
        let mut files = Vec::new();
        loop {
            files.push(open_to_read(&path).await?);
        }
    }

    async fn streams(path: String) -> Result<u32, String> {
        let file = open_to_read(&path).await?;
        let mut streams = Vec::new();
        loop {
            streams.push(file.read_via_stream(0));
        }
    }
}

export!(Component);
