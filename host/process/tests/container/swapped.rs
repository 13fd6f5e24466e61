//! Paths that are replaced between mimir's check and the mount by the engine.
//!
//! A background command would win this race after many attempts. These tests win it with a relay to the engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mimir_process::sandbox::SandboxError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::kit::{IMAGE, World, run_in, socket, with};

/// Prints the content of the folder, tries to change it, and prints the mounts.
const LOOK: &str =
    "cat d/.docker/* d/.ssh/*; echo x > d/.docker/made; cat /proc/self/mountinfo; echo end";

/// Creates a workspace in which `d` is swapped, and a home outside with the same names.
fn world() -> World {
    let world = World::new()
        .with("d/.docker/config.json", "{}")
        .with("d/.ssh/id_rsa", "KEY")
        .with("../victim/.docker/config.json", "SECRET")
        .with("../victim/.ssh/id_rsa", "SECRET");
    assert!(world.beside().join("victim/.docker").is_dir());
    world
}

/// The workspace, and the replacement of its `d`.
struct Swap {
    work: PathBuf,
    /// The home that `d` becomes a link to, or `None` if `d` becomes another folder.
    home: Option<PathBuf>,
    /// The number of remaining swaps.
    times: AtomicUsize,
    done: AtomicBool,
}

impl Swap {
    fn begin(&self) {
        let one_less = |left: usize| left.checked_sub(1);
        let order = Ordering::SeqCst;
        if self.times.fetch_update(order, order, one_less).is_err() {
            return;
        }
        let d = self.work.join("d");
        std::fs::rename(&d, self.work.join("away")).unwrap();
        match &self.home {
            Some(home) => std::os::unix::fs::symlink(home, d).unwrap(),
            None => {
                std::fs::create_dir_all(d.join(".docker")).unwrap();
                std::fs::create_dir_all(d.join(".ssh")).unwrap();
                std::fs::write(d.join(".docker/config.json"), "").unwrap();
            }
        }
        self.done.store(true, order);
    }

    fn undo(&self) {
        if !self.done.swap(false, Ordering::SeqCst) {
            return;
        }
        let d = self.work.join("d");
        match &self.home {
            Some(_) => std::fs::remove_file(&d).unwrap(),
            None => std::fs::remove_dir_all(&d).unwrap(),
        }
        std::fs::rename(self.work.join("away"), d).unwrap();
    }
}

/// Forwards connections to the engine. Swaps the folder from before the attach request, with which Podman starts the
/// container, until the container has started.
fn relay(at: &Path, swap: &Arc<Swap>) -> tokio::task::JoinHandle<()> {
    let listener = UnixListener::bind(at).unwrap();
    let swap = Arc::clone(swap);
    tokio::spawn(async move {
        let mut all = JoinSet::new();
        while let Ok((one, _)) = listener.accept().await {
            all.spawn(pass_on(one, Arc::clone(&swap)));
        }
    })
}

async fn pass_on(one: UnixStream, swap: Arc<Swap>) {
    let other = UnixStream::connect(socket()).await.unwrap();
    let ((mut asked, mut answers), (mut answered, mut engine)) =
        (one.into_split(), other.into_split());
    let starts = AtomicBool::new(false);
    let ask = async {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = asked.read(&mut bytes).await {
            let text = String::from_utf8_lossy(&bytes[..count]);
            let first = text.lines().next().unwrap_or_default();
            if first.contains("/containers/") && first.contains("/attach") {
                swap.begin();
            }
            if first.contains("/containers/") && first.contains("/start") {
                starts.store(true, Ordering::SeqCst);
            }
            if engine.write_all(&bytes[..count]).await.is_err() {
                break;
            }
        }
        let _ = engine.shutdown().await;
    };
    let tell = async {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = answered.read(&mut bytes).await {
            if starts.swap(false, Ordering::SeqCst) {
                swap.undo();
            }
            if answers.write_all(&bytes[..count]).await.is_err() {
                break;
            }
        }
        let _ = answers.shutdown().await;
    };
    tokio::join!(ask, tell);
}

/// Checks that a command sees its own folders, covered, and no file of the home.
fn is_clean(out: &str) {
    assert!(out.ends_with("end\n"), "{out}");
    for word in ["SECRET", "KEY", "victim", "away"] {
        assert!(!out.contains(word), "{word}: {out}");
    }
}

async fn runs_clean_after(link: bool, before: usize, swaps: usize) -> Result<(), SandboxError> {
    let world = world();
    let at = world.beside().join("relay.sock");
    let swap = Arc::new(Swap {
        work: world.path(),
        home: link.then(|| world.beside().join("victim")),
        times: AtomicUsize::new(0),
        done: AtomicBool::new(false),
    });
    let (relay, times) = (relay(&at, &swap), &swap.times);
    let sandbox = with(IMAGE, Some(&at));
    for _ in 0..before {
        run_in(&sandbox, &world.script("true")).await.unwrap();
    }
    times.store(swaps, Ordering::SeqCst);
    if before > 0 {
        // The waiting container is being created, and has started a second later.
        for _ in 0..500 {
            if times.load(Ordering::SeqCst) == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(
            times.load(Ordering::SeqCst),
            0,
            "no container was created in advance"
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let ended = run_in(&sandbox, &world.script(LOOK)).await;
    let made = world.beside().join("victim/.docker/made");
    assert!(!made.exists(), "a command wrote to the home");
    let left = times.load(Ordering::SeqCst);
    assert_eq!(
        left, 0,
        "the folder was not swapped as often as planned: {ended:?}"
    );
    if let Ok(finished) = &ended {
        is_clean(&String::from_utf8_lossy(&finished.stdout.bytes));
    }
    drop(sandbox);
    relay.abort();
    ended.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn swapped_folder_with_link_to_home_is_not_entered() {
    // After one swap, another container is created. If every container is swapped, the command is refused.
    runs_clean_after(true, 0, 1).await.unwrap();
    let fault = runs_clean_after(true, 0, 3).await.unwrap_err();
    assert!(matches!(fault, SandboxError::Replaced(_)), "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn swapped_folder_in_a_waiting_container_is_not_entered() {
    // A container is prepared after the second command.
    runs_clean_after(true, 2, 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn swapped_folder_does_not_lose_its_masks() {
    runs_clean_after(false, 0, 1).await.unwrap();
    let fault = runs_clean_after(false, 0, 3).await.unwrap_err();
    assert!(matches!(fault, SandboxError::Replaced(_)), "{fault}");
}
