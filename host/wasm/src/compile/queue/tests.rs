use super::*;
use crate::host::HostOptions;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::oneshot;

/// A compiler that waits for a signal, and counts its jobs.
#[derive(Default)]
struct GatedCompiler {
    gates: Mutex<VecDeque<oneshot::Receiver<Result<(), CompileError>>>>,
    begun: AtomicUsize,
    running: Arc<AtomicUsize>,
    max_concurrent: AtomicUsize,
}

/// Counts a compilation until it ends or is dropped.
struct RunningGuard(Arc<AtomicUsize>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl ComponentCompiler for GatedCompiler {
    fn compile(&self, job: CompileJob) -> BoxFuture<'static, Result<Vec<u8>, CompileError>> {
        let gate = self.gates.lock().pop_front();
        self.begun.fetch_add(1, SeqCst);
        let now = self.running.fetch_add(1, SeqCst) + 1;
        self.max_concurrent.fetch_max(now, SeqCst);
        let guard = RunningGuard(Arc::clone(&self.running));
        Box::pin(async move {
            let _guard = guard;
            if let Some(gate) = gate {
                gate.await.unwrap()?;
            }
            super::super::compiler::compile(job.mode, job.addressing, &job.bytes)
        })
    }
}

type GateSender = oneshot::Sender<Result<(), CompileError>>;

impl GatedCompiler {
    /// Holds the next compilation until the result is sent.
    fn gate(&self) -> GateSender {
        let (open, gate) = oneshot::channel();
        self.gates.lock().push_back(gate);
        open
    }
}

struct Fixture {
    host: Arc<WasmHost>,
    compiler: Arc<GatedCompiler>,
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let compiler = Arc::<GatedCompiler>::default();
        let host = host(&folder, &compiler);
        Self {
            host,
            compiler,
            folder,
        }
    }

    fn request(&self, number: u8) -> impl Future<Output = CompileResult> + Send + 'static {
        self.limited(number, CompileLimits::default())
    }

    fn limited(
        &self,
        number: u8,
        limits: CompileLimits,
    ) -> impl Future<Output = CompileResult> + Send + 'static {
        let request = CompileRequest {
            digest: Sha256Digest::of_bytes(&[number]),
            name: "it".to_owned(),
            lane: CompileLane::Custom,
            mode: EngineMode::Sequential,
            limits,
        };
        let host = Arc::clone(&self.host);
        async move {
            let bytes = || Ok(wat::parse_str("(component)").unwrap());
            host.component(request, bytes).await
        }
    }

    async fn begun(&self, count: usize) {
        while self.compiler.begun.load(SeqCst) < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn host(folder: &tempfile::TempDir, compiler: &Arc<GatedCompiler>) -> Arc<WasmHost> {
    let mut options = HostOptions::new(folder.path().join("workspace"));
    options.cache_dir = Some(folder.path().join("cache"));
    options.pooling = false;
    options.compiler = Some(compiler.clone());
    WasmHost::new(options)
}

#[tokio::test]
async fn queue_compiles_once_as_long_as_one_call_waits() {
    let fixture = Fixture::new();
    let open = fixture.compiler.gate();
    let first = tokio::spawn(fixture.request(1));
    fixture.begun(1).await;
    let second = tokio::spawn(fixture.request(1));
    let third = tokio::spawn(fixture.request(1));
    tokio::task::yield_now().await;
    first.abort();
    assert!(first.await.is_err());
    open.send(Ok(())).unwrap();
    assert!(second.await.unwrap().is_ok() && third.await.unwrap().is_ok());
    assert_eq!(fixture.compiler.begun.load(SeqCst), 1);
    // Compiled code is in the cache.
    assert!(fixture.request(1).await.is_ok());
    assert_eq!(fixture.compiler.begun.load(SeqCst), 1);
}

#[tokio::test]
async fn queue_cancels_a_compilation_that_no_call_waits_for() {
    let fixture = Fixture::new();
    let _open = fixture.compiler.gate();
    let calls: Vec<_> = (0..2).map(|_| tokio::spawn(fixture.request(1))).collect();
    fixture.begun(1).await;
    for call in calls {
        call.abort();
        assert!(call.await.is_err());
    }
    assert_eq!(fixture.compiler.running.load(SeqCst), 0);
    assert!(fixture.host.compile_queue().compilations().jobs.is_empty());
    // The next call begins again, and a compiler is free.
    assert!(fixture.request(1).await.is_ok());
    assert_eq!(fixture.compiler.begun.load(SeqCst), 2);
}

#[tokio::test]
async fn queue_compiles_one_custom_component_at_a_time() {
    let fixture = Fixture::new();
    let requests = (0..6_u8).map(|number| fixture.request(number));
    for one in futures::future::join_all(requests).await {
        one.unwrap();
    }
    assert_eq!(fixture.compiler.max_concurrent.load(SeqCst), 1);
}

#[tokio::test]
async fn queue_does_not_delay_built_in_components() {
    let fixture = Fixture::new();
    let _open = fixture.compiler.gate();
    let custom = tokio::spawn(fixture.request(1));
    fixture.begun(1).await;
    let request = CompileRequest {
        digest: Sha256Digest::of_bytes(b"built in"),
        name: "built-in/it".to_owned(),
        lane: CompileLane::BuiltIn,
        mode: EngineMode::Sequential,
        limits: CompileLimits::default(),
    };
    let bytes = || Ok(wat::parse_str("(component)").unwrap());
    assert!(fixture.host.component(request, bytes).await.is_ok());
    custom.abort();
}

#[tokio::test]
async fn queue_remembers_exceeded_limits_for_a_while() {
    let fixture = Fixture::new();
    for (number, error, code) in [
        (
            1,
            CompileError::Time(Duration::from_secs(1)),
            ToolErrorCode::Timeout,
        ),
        (
            2,
            CompileError::Memory(1 << 30),
            ToolErrorCode::LimitExceeded,
        ),
    ] {
        let begun = fixture.compiler.begun.load(SeqCst);
        fixture.compiler.gate().send(Err(error)).unwrap();
        for _ in 0..2 {
            let error = fixture.request(number).await.err().unwrap();
            assert_eq!(error.code(), code);
            assert!(error.to_string().contains("tried again in"), "{error}");
        }
        assert_eq!(fixture.compiler.begun.load(SeqCst), begun + 1);
        // A different limit is tried at once.
        let wider = CompileLimits {
            memory: 8 << 30,
            ..CompileLimits::default()
        };
        assert!(fixture.limited(number, wider).await.is_ok());
    }
    assert!(fixture.folder.path().join("cache").exists());
}

#[tokio::test]
async fn queue_errors_do_not_name_one_of_the_copies() {
    let fixture = Fixture::new();
    for (number, error) in [
        (1, CompileError::Invalid("bad".to_owned())),
        (2, CompileError::Time(Duration::from_secs(1))),
        (3, CompileError::Memory(1 << 30)),
    ] {
        let request = CompileRequest {
            digest: Sha256Digest::of_bytes(&[number]),
            name: "first.wasm".to_owned(),
            lane: CompileLane::Custom,
            mode: EngineMode::Sequential,
            limits: CompileLimits::default(),
        };
        fixture.compiler.gate().send(Err(error)).unwrap();
        let bytes = || Ok(wat::parse_str("(component)").unwrap());
        let error = fixture.host.component(request, bytes).await.err().unwrap();
        assert!(!error.to_string().contains("first.wasm"), "{error}");
        let located = error.at("second.wasm").to_string();
        assert!(located.starts_with("second.wasm: "), "{located}");
    }
}

#[tokio::test]
async fn queue_counts_lookups_and_compilations() {
    let fixture = Fixture::new();
    assert!(fixture.request(1).await.is_ok());
    // The file is too new to be mapped, so it is read.
    assert!(fixture.request(1).await.is_ok());
    let counts = fixture.host.code_counts();
    let lookups = (counts.missed, counts.compiled, counts.read + counts.mapped);
    assert_eq!(lookups, (1, 1, 1), "{counts:?}");
    assert!(
        counts.bytes > 0 && !counts.compiling.is_zero(),
        "{counts:?}"
    );
}
